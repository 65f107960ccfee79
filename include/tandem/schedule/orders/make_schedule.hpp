// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_schedule(), make_map(): a schedule by its name, for numbers known at run time only.

#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

/// "sequential, gpipe, ...": the names that make_schedule() takes.
/// @param asynchronous  of asynchronous schedules only, or of the others
TANDEM_ONCE std::string schedule_names(bool asynchronous);

namespace detail {

/// Stages a device: as many as are asked for, where it takes any number of them.
constexpr int chunks_of(NamedSchedule const& schedule, int asked) {
  return schedule.takes_chunks ? asked : schedule.chunks;
}

template <class... S, class Sink>
void generate_named(ScheduleList<S...>, std::string_view name, int devices, int microbatches,
                    int chunks, Sink& sink) {
  auto const generate = [&]<class One>(One const*) {
    if constexpr (TakesChunks<One>) {
      One::generate(devices, microbatches, chunks, sink);
    } else if constexpr (PipelineSchedule<One>) {
      One::generate(devices, microbatches, sink);
    }
  };
  ((name == S::name ? generate(static_cast<S const*>(nullptr)) : void()), ...);
}

}  // namespace detail

/// How a schedule trains, by its name; off where it is synchronous.
/// @throws ContractError  no such schedule, or not on so many devices
TANDEM_ONCE Asynchrony make_asynchrony(std::string_view name, int devices, int microbatches);

/// The passes of each device in their order, and, in asynchronous schedules, the updates; no
/// messages.
/// @param name          as the types in schedule/orders have it: "one_f_one_b", "pipedream", …
/// @param microbatches  of a step
/// @param chunks        stages a device, of "interleaved"; others have their own number anyway
/// @param steps         of an asynchronous schedule; 0: unrolled_steps() of them
/// @throws ContractError  no such schedule, or it has no order for these numbers
TANDEM_ONCE ActionRows make_schedule(std::string_view name, int devices, int microbatches,
                                     int chunks = 1, int steps = 0);

/// The stages of a schedule: a chain, one that turns back, or two in opposite directions.
/// @throws ContractError  no such schedule, or not on so many devices
TANDEM_ONCE RuntimeMap make_map(std::string_view name, int devices, int chunks = 1);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// "interleaved", of those that there are.
TANDEM_ONCE std::string names_with_chunks() {
  std::string list;
  for (NamedSchedule const& one : all_schedules) {
    if (one.takes_chunks) {
      list += (list.empty() ? "'" : " or '") + std::string{one.name} + "'";
    }
  }
  return list;
}

/// The schedule of that name, which can have these stages.
TANDEM_ONCE NamedSchedule const& checked_schedule(std::string_view name, int devices, int chunks) {
  NamedSchedule const* const found = find_schedule(name);
  if (found == nullptr) {
    throw ContractError{"there is no schedule '" + std::string{name} + "'; take one of " +
                        schedule_names(false) + ", " + schedule_names(true)};
  }
  if (chunks < 1 || (chunks > 1 && chunks != found->chunks && !found->takes_chunks)) {
    std::string const own = found->chunks > 1 ? "1 or " + std::to_string(found->chunks) : "1";
    throw ContractError{
        "schedule '" + std::string{name} + "' cannot have " + std::to_string(chunks) +
        " chunks a device; give " +
        (found->takes_chunks ? "1 or more" : own + ", or take " + names_with_chunks())};
  }
  if (!found->words.runs_on(devices)) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot run on " +
                        std::to_string(devices) + " devices; give " + found->words.devices};
  }
  long long const stages =
      static_cast<long long>(devices) * chunks_of(*found, chunks) * found->copies;
  if (stages > 32'767) {
    throw ContractError{"schedule '" + std::string{name} + "' would have " +
                        std::to_string(stages) + " stages; give numbers with 32767 at most"};
  }
  return *found;
}

TANDEM_ONCE ActionRows make_asynchronous(std::string_view name, Asynchrony const& asynchrony,
                                         int steps) {
  int const all = steps > 0 ? steps : unrolled_steps(asynchrony);
  if (steps < 0 || all > most_unrolled_steps) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot be unrolled for " +
                        std::to_string(steps < 0 ? steps : all) +
                        " steps; give 1 to 255, and no more devices than can fill in so many"};
  }
  return asynchronous_table(asynchrony, all);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string schedule_names(bool asynchronous) {
  std::string list;
  for (detail::NamedSchedule const& one : detail::all_schedules) {
    if (one.is_asynchronous == asynchronous) {
      list += (list.empty() ? "" : ", ") + std::string{one.name};
    }
  }
  return list;
}

TANDEM_ONCE Asynchrony make_asynchrony(std::string_view name, int devices, int microbatches) {
  return detail::checked_schedule(name, devices, 1).asynchrony(devices, microbatches);
}

TANDEM_ONCE ActionRows make_schedule(std::string_view name, int devices, int microbatches,
                                     int chunks, int steps) {
  detail::NamedSchedule const& one = detail::checked_schedule(name, devices, chunks);
  if (!one.fits(devices, microbatches)) {
    throw ContractError{"schedule '" + std::string{name} + "' cannot run " +
                        std::to_string(microbatches) + " microbatches " +
                        (one.is_asynchronous ? "a step " : "") + "on " + std::to_string(devices) +
                        " devices; give " + one.words.microbatches};
  }
  if (one.is_asynchronous) {
    return detail::make_asynchronous(name, one.asynchrony(devices, microbatches), steps);
  }
  ActionRows rows(static_cast<std::size_t>(devices));
  auto sink = [&rows](int device, Action action) {
    rows[static_cast<std::size_t>(device)].push_back(action);
  };
  detail::generate_named(detail::AllSchedules{}, name, devices, microbatches, chunks, sink);
  return rows;
}

TANDEM_ONCE RuntimeMap make_map(std::string_view name, int devices, int chunks) {
  detail::NamedSchedule const& one = detail::checked_schedule(name, devices, chunks);
  RuntimeMap map;
  map.devices = devices;
  map.copies = one.copies;
  int const parts = devices * detail::chunks_of(one, chunks);
  for (int s = 0; s < map.copies * parts; ++s) {
    int const part = s % parts;
    bool const back = s >= parts || (one.turns_back && part >= devices);
    int const along = part % devices;
    map.device.push_back(static_cast<std::int16_t>(back ? devices - 1 - along : along));
    if (part > 0) {
      bool const turns = one.turns_back && part == devices;
      map.links += turns ? 0 : 1;
      map.edge.push_back({.from = static_cast<std::int16_t>(s - 1),
                          .to = static_cast<std::int16_t>(s),
                          .link = static_cast<std::int16_t>(map.links - 1)});
    }
  }
  return map;
}

}  // namespace tandem

#endif
