// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ways to use the devices of a worker that the search tries, and their names as types.

#include <string>
#include <string_view>
#include <vector>

#include <tandem/plan/search/worker.hpp>

namespace tandem::detail {

/// A name of make_schedule(), and the type that it stands for between the brackets of Pipeline.
struct ScheduleType {
  std::string_view name;
  std::string_view type;
};

inline constexpr ScheduleType synchronous_types[] = {
    {"gpipe", "GPipe"}, {"one_f_one_b", "OneFOneB"}, {"zero_bubble_h1", "ZeroBubbleH1"}};

/// Of one microbatch a step.
inline constexpr ScheduleType late_types[] = {{"pipedream", "PipeDream"},
                                              {"pipedream_vertical_sync", "PipeDreamVerticalSync"},
                                              {"delayed_gradient", "DelayedGradient"},
                                              {"weight_prediction", "WeightPrediction"},
                                              {"features_replay", "FeaturesReplay"},
                                              {"pmp", "PipelinedModel"}};

template <class = void>
void add_pipelines(std::vector<WorkerStrategy>& all, int devices, int microbatches) {
  int const m = microbatches;
  for (ScheduleType const& one : synchronous_types) {
    all.push_back(
        {.schedule = std::string{one.name}, .devices = devices, .microbatches = microbatches});
  }
  all.push_back({.schedule = "interleaved", .devices = devices, .microbatches = m, .chunks = 2});
  if (devices % 2 == 0) {
    all.push_back({.schedule = "chimera", .devices = devices, .microbatches = m});
  }
  all.push_back(
      {.schedule = "one_f_one_b", .devices = devices, .microbatches = m, .recomputes = true});
  all.push_back({.schedule = "pipedream_2bw", .devices = devices, .microbatches = m});
}

/// What is tried on so many devices of a worker.
template <class = void>
std::vector<WorkerStrategy> worker_strategies(int devices, int batch) {
  if (devices == 1) {
    return {WorkerStrategy{}};
  }
  std::vector<WorkerStrategy> all{{.schedule = "sequential", .devices = devices}};
  if (devices <= 4) {  // no network here has branches for more
    all.push_back({.schedule = "placed", .devices = devices});
  }
  if (batch % 2 == 0) {
    all.push_back({.schedule = "cross_model", .devices = devices, .microbatches = 2});
  }
  for (ScheduleType const& one : late_types) {
    all.push_back({.schedule = std::string{one.name}, .devices = devices});
  }
  for (int times : {1, 2, 4}) {
    int const m = times * devices;
    if (m <= batch && batch % m == 0) {  // equal microbatches
      add_pipelines(all, devices, m);
    }
  }
  return all;
}

template <class = void>
std::string splits_text(WorkerStrategy const& worker, std::vector<int> const& sizes) {
  std::string text;
  if (sizes.empty()) {
    return "Auto<" + std::to_string(worker.devices * worker.chunks) + ">";
  }
  for (int const size : sizes) {
    text += (text.empty() ? "Split<" : ", Split<") + std::to_string(size) + ">";
  }
  return text;
}

template <class = void>
std::string schedule_type(WorkerStrategy const& worker) {
  for (ScheduleType const& one : synchronous_types) {
    if (worker.schedule == one.name) {
      return std::string{one.type};
    }
  }
  for (ScheduleType const& one : late_types) {
    if (worker.schedule == one.name) {
      return std::string{one.type};
    }
  }
  return worker.schedule == "pipedream_2bw" ? "PipeDream2BW"
         : worker.schedule == "chimera"     ? "Chimera"
                                            : "Interleaved<" + std::to_string(worker.chunks) + ">";
}

/// @param table  what stands between the brackets of Placed
template <class = void>
std::string worker_type(WorkerStrategy const& worker, std::vector<int> const& sizes,
                        std::string const& table) {
  if (worker.is_placed()) {
    return "ModelParallel<Placed<" + table + ">>";
  }
  std::string const rest =
      splits_text(worker, sizes) + (worker.recomputes ? ", Checkpoint<Boundaries>" : "") + ">";
  return worker.schedule == "sequential"    ? "ModelParallel<" + rest
         : worker.schedule == "cross_model" ? "CrossModelParallel<AverageGradients, " + rest
                                            : "Pipeline<" + schedule_type(worker) + ", " +
                                                  std::to_string(worker.microbatches) + ", " + rest;
}

}  // namespace tandem::detail
