// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ways to use the devices of a worker that the search tries, and their names as types.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/plan/search/worker.hpp>
#include <tandem/schedule/orders/all.hpp>

namespace tandem::detail {

/// Whether more microbatches than one of each copy of the model are none of its own: its strategy
/// has no Count, or it updates behind every microbatch.
constexpr bool takes_one_wave(NamedSchedule const& schedule, int devices) {
  bool const has_count = std::string_view{schedule.words.type}.find("{count}") != std::string::npos;
  return !has_count || (schedule.is_asynchronous && schedule.fits(devices, 1));
}

/// What is tried on so many devices of a worker.
template <class = void>
std::vector<WorkerStrategy> worker_strategies(int devices, int batch) {
  if (devices == 1) {
    return {WorkerStrategy{}};
  }
  std::vector<WorkerStrategy> all;
  auto const add = [&](NamedSchedule const& schedule, int microbatches) {
    if (schedule.words.runs_on(devices) && schedule.fits(devices, microbatches)) {
      all.push_back({.schedule = std::string{schedule.name},
                     .devices = devices,
                     .microbatches = microbatches,
                     .chunks = schedule.words.tried_chunks});
    }
  };
  for (NamedSchedule const& schedule : all_schedules) {
    if (takes_one_wave(schedule, devices) && batch % schedule.copies == 0) {
      add(schedule, schedule.copies);
    }
  }
  if (devices <= 4) {  // no network here has branches for more
    all.push_back({.schedule = WorkerStrategy::placed, .devices = devices});
  }
  for (int times : {1, 2, 4}) {
    int const m = times * devices;
    if (m > batch || batch % m != 0) {  // microbatches would not be equal
      continue;
    }
    for (NamedSchedule const& schedule : all_schedules) {
      if (!takes_one_wave(schedule, devices)) {
        add(schedule, m);
      }
    }
    all.push_back(
        {.schedule = OneFOneB::name, .devices = devices, .microbatches = m, .recomputes = true});
  }
  return all;
}

template <class = void>
std::string splits_text(WorkerStrategy const& worker, std::vector<int> const& sizes) {
  std::string text;
  if (sizes.empty()) {
    return "Auto<" + std::to_string(worker.stages()) + ">";
  }
  for (int const size : sizes) {
    text += (text.empty() ? "Split<" : ", Split<") + std::to_string(size) + ">";
  }
  return text;
}

/// How the type begins: "Pipeline<Interleaved<2>, 8, ".
template <class = void>
std::string type_beginning(WorkerStrategy const& worker) {
  NamedSchedule const* const schedule = find_schedule(worker.schedule);
  expects(schedule != nullptr, "worker_type(worker): the worker has no schedule that there is");
  std::string text = schedule->words.type;
  auto const fill = [&](std::string_view what, int number) {
    if (std::size_t const at = text.find(what); at != std::string::npos) {
      text.replace(at, what.size(), std::to_string(number));
    }
  };
  fill("{count}", worker.microbatches);
  fill("{chunks}", worker.chunks);
  return text;
}

/// @param table  what stands between the brackets of Placed
template <class = void>
std::string worker_type(WorkerStrategy const& worker, std::vector<int> const& sizes,
                        std::string const& table) {
  if (worker.is_placed()) {
    return "ModelParallel<Placed<" + table + ">>";
  }
  if (worker.is_tensor()) {
    return "TensorParallel<" + std::to_string(worker.devices) + ">";
  }
  return type_beginning(worker) + splits_text(worker, sizes) +
         (worker.recomputes ? ", Checkpoint<Boundaries>" : "") + ">";
}

}  // namespace tandem::detail
