// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_schedule(), make_map(): a schedule by its name, for numbers known at run time only.

#include <string>
#include <string_view>

#include <tandem/core/error.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/orders/chimera.hpp>
#include <tandem/schedule/orders/cross_model.hpp>
#include <tandem/schedule/orders/delayed_gradient.hpp>
#include <tandem/schedule/orders/features_replay.hpp>
#include <tandem/schedule/orders/gpipe.hpp>
#include <tandem/schedule/orders/interleaved.hpp>
#include <tandem/schedule/orders/one_f_one_b.hpp>
#include <tandem/schedule/orders/pipedream.hpp>
#include <tandem/schedule/orders/pipedream_2bw.hpp>
#include <tandem/schedule/orders/pipelined_model.hpp>
#include <tandem/schedule/orders/sequential.hpp>
#include <tandem/schedule/orders/weight_prediction.hpp>
#include <tandem/schedule/orders/zero_bubble_h1.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

namespace detail {

template <class... S>
struct ScheduleList {};
using AsynchronousSchedules =
    ScheduleList<PipeDream, PipeDreamVerticalSync, PipeDream2BW, DelayedGradient, WeightPrediction,
                 FeaturesReplay, PipelinedModel>;

template <AsynchronousSchedule... S>
Asynchrony find_asynchrony(ScheduleList<S...>, std::string_view name, int devices, int microbatches,
                           bool& fits) {
  Asynchrony found{};
  auto const look = [&]<class One>(One const*) {
    if (name == One::name) {
      found = One::asynchrony(devices, microbatches);
      fits = One::fits(devices, microbatches);
    }
  };
  (look(static_cast<S const*>(nullptr)), ...);
  return found;
}

/// Off where the name is that of a synchronous schedule, or of none.
inline Asynchrony asynchrony_named(std::string_view name, int devices, int microbatches) {
  bool fits = true;
  return find_asynchrony(AsynchronousSchedules{}, name, devices, microbatches, fits);
}

/// Whether it has two copies of the model.
inline bool has_two_copies(std::string_view name) {
  return name == Chimera::name || name == CrossModel::name;
}

template <AsynchronousSchedule... S>
void list_names(ScheduleList<S...>, std::string_view name, bool& known, std::string& list) {
  ((known = known || name == S::name, list += std::string{", "} + S::name), ...);
}

template <class = void>
void check_schedule(std::string_view name, int devices, int chunks) {
  constexpr std::string_view names[] = {SequentialStages::name, GPipe::name,        OneFOneB::name,
                                        Interleaved<1>::name,   ZeroBubbleH1::name, Chimera::name,
                                        CrossModel::name};
  bool known = false;
  std::string list;
  for (std::string_view const one : names) {
    known = known || one == name;
    list += (list.empty() ? "" : ", ") + std::string{one};
  }
  list_names(AsynchronousSchedules{}, name, known, list);
  if (!known) {
    throw ContractError{"there is no schedule '" + std::string{name} + "'; take one of " + list};
  }
  bool const takes_chunks = name == Interleaved<1>::name;
  if (chunks < 1 || (chunks > 1 && !takes_chunks)) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot have " +
                        std::to_string(chunks) + " chunks a device; give " +
                        (takes_chunks ? "1 or more" : "1, or take 'interleaved'")};
  }
  int const copies = has_two_copies(name) ? 2 : 1;
  bool const even = name == Chimera::name;
  if (devices < copies || (even && devices % 2 != 0)) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot run on " +
                        std::to_string(devices) + " devices; give " +
                        (even          ? "an even number"
                         : copies == 2 ? "2 or more"
                                       : "1 or more")};
  }
  if (static_cast<long long>(devices) * chunks * copies > 32'767) {
    throw ContractError{"schedule '" + std::string{name} + "' would have " +
                        std::to_string(static_cast<long long>(devices) * chunks * copies) +
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

template <class = void>
ActionRows make_asynchronous(std::string_view name, int devices, int microbatches, int steps) {
  bool fits = true;
  Asynchrony const asynchrony =
      find_asynchrony(AsynchronousSchedules{}, name, devices, microbatches, fits);
  if (!fits) {
    bool const adds_up = name == PipeDream2BW::name;
    throw ContractError{"schedule '" + std::string{name} + "' cannot run " +
                        std::to_string(microbatches) + " microbatches a step on " +
                        std::to_string(devices) + " devices; give " +
                        (adds_up ? "as many microbatches as devices, or more" : "1 microbatch")};
  }
  int const all = steps > 0 ? steps : unrolled_steps(asynchrony);
  if (steps < 0 || all > most_unrolled_steps) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot be unrolled for " +
                        std::to_string(steps < 0 ? steps : all) +
                        " steps; give 1 to 255, and no more devices than can fill in so many"};
  }
  return asynchronous_table(asynchrony, all);
}

}  // namespace detail

/// How a schedule trains, by its name; off where it is synchronous.
/// @throws ContractError  no such schedule, or not on so many devices
template <class = void>  // compiled where it is called, not by every include
Asynchrony make_asynchrony(std::string_view name, int devices, int microbatches) {
  detail::check_schedule(name, devices, 1);
  return detail::asynchrony_named(name, devices, microbatches);
}

/// The passes of each device in their order, and, in asynchronous schedules, the updates; no
/// messages.
/// @param name          as the types in schedule/orders have it: "one_f_one_b", "pipedream", …
/// @param microbatches  of a step
/// @param chunks        stages a device, of "interleaved"
/// @param steps         of an asynchronous schedule; 0: unrolled_steps() of them
/// @throws ContractError  no such schedule, or it has no order for these numbers
template <class = void>  // compiled where it is called, not by every include
ActionRows make_schedule(std::string_view name, int devices, int microbatches, int chunks = 1,
                         int steps = 0) {
  detail::check_schedule(name, devices, chunks);
  if (detail::asynchrony_named(name, devices, microbatches).on()) {
    return detail::make_asynchronous(name, devices, microbatches, steps);
  }
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
              operator()<SequentialStages, GPipe, OneFOneB, ZeroBubbleH1, Chimera, CrossModel>()) {
    throw ContractError{
        "schedule '" + std::string{name} + "' cannot run " + std::to_string(microbatches) +
        " microbatches on " + std::to_string(devices) + " devices; give " +
        (name == Interleaved<1>::name   ? "a multiple of the devices"
         : detail::has_two_copies(name) ? "an even number of microbatches, 2 or more"
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
  map.copies = detail::has_two_copies(name) ? 2 : 1;
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
