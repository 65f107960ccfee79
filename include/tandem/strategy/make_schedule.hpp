// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_schedule(), make_map(): a schedule by its name, for numbers known at run time only.

#include <string>
#include <string_view>

#include <tandem/core/error.hpp>
#include <tandem/strategy/action_table.hpp>
#include <tandem/strategy/schedules/chimera.hpp>
#include <tandem/strategy/schedules/gpipe.hpp>
#include <tandem/strategy/schedules/interleaved.hpp>
#include <tandem/strategy/schedules/one_f_one_b.hpp>
#include <tandem/strategy/schedules/sequential.hpp>
#include <tandem/strategy/schedules/zero_bubble_h1.hpp>
#include <tandem/strategy/stage_map_view.hpp>

namespace tandem {

namespace detail {

template <class = void>
void check_schedule(std::string_view name, int devices, int chunks) {
  constexpr std::string_view names[] = {SequentialStages::name, GPipe::name,        OneFOneB::name,
                                        Interleaved<1>::name,   ZeroBubbleH1::name, Chimera::name};
  bool known = false;
  std::string list;
  for (std::string_view const one : names) {
    known = known || one == name;
    list += (list.empty() ? "" : ", ") + std::string{one};
  }
  if (!known) {
    throw ContractError{"there is no schedule '" + std::string{name} + "'; take one of " + list};
  }
  bool const takes_chunks = name == Interleaved<1>::name;
  if (chunks < 1 || (chunks > 1 && !takes_chunks)) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot have " +
                        std::to_string(chunks) + " chunks a device; give " +
                        (takes_chunks ? "1 or more" : "1, or take 'interleaved'")};
  }
  int const least = name == Chimera::name ? 2 : 1;
  if (devices < least || devices % least != 0) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot run on " +
                        std::to_string(devices) + " devices; give " +
                        (least == 2 ? "an even number" : "1 or more")};
  }
  if (static_cast<long long>(devices) * chunks * least > 32'767) {
    throw ContractError{"schedule '" + std::string{name} + "' would have " +
                        std::to_string(static_cast<long long>(devices) * chunks * least) +
                        " stages; give numbers with 32767 at most"};
  }
}

template <PipelineSchedule S, class Sink>
bool generate_if_named(std::string_view name, int devices, int microbatches, Sink& sink) {
  if (name != S::name || !S::fits(devices, microbatches)) {
    return false;
  }
  S::generate(devices, microbatches, sink);
  return true;
}

}  // namespace detail

/// The passes of each device in their order; no messages.
/// @param name    "sequential", "gpipe", "one_f_one_b", "interleaved", "zero_bubble_h1", "chimera"
/// @param chunks  stages a device, of "interleaved"
/// @throws ContractError  no such schedule, or it has no order for these numbers
template <class = void>  // compiled where it is called, not by every include
ActionRows make_schedule(std::string_view name, int devices, int microbatches, int chunks = 1) {
  detail::check_schedule(name, devices, chunks);
  ActionRows rows(static_cast<std::size_t>(devices));
  auto sink = [&rows](int device, Action action) {
    rows[static_cast<std::size_t>(device)].push_back(action);
  };
  auto const made = [&]<class... S>() {
    return (detail::generate_if_named<S>(name, devices, microbatches, sink) || ...);
  };
  if (name == Interleaved<1>::name && Interleaved<1>::fits(devices, microbatches)) {
    detail::generate_interleaved(devices, microbatches, chunks, sink);
  } else if (!made.template
              operator()<SequentialStages, GPipe, OneFOneB, ZeroBubbleH1, Chimera>()) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot run " +
                        std::to_string(microbatches) + " microbatches on " +
                        std::to_string(devices) + " devices; give " +
                        (name == Interleaved<1>::name ? "a multiple of the devices"
                         : name == Chimera::name      ? "an even number of microbatches, 2 or more"
                                                      : "1 microbatch or more")};
  }
  return rows;
}

/// The stages of a schedule: a chain, or two in opposite directions.
/// @throws ContractError  no such schedule, or not on so many devices
template <class = void>  // compiled where it is called, not by every include
RuntimeMap make_map(std::string_view name, int devices, int chunks = 1) {
  detail::check_schedule(name, devices, chunks);
  RuntimeMap map;
  map.devices = devices;
  map.copies = name == Chimera::name ? 2 : 1;
  int const parts = devices * chunks;
  for (int s = 0; s < map.copies * parts; ++s) {
    int const part = s % parts;
    int const device = s < parts ? part % devices : devices - 1 - part;
    map.device.push_back(static_cast<std::int16_t>(device));
    if (part > 0) {
      map.edge.push_back({.from = static_cast<std::int16_t>(s - 1),
                          .to = static_cast<std::int16_t>(s),
                          .link = static_cast<std::int16_t>(map.links++)});
    }
  }
  return map;
}

}  // namespace tandem
