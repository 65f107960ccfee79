// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// profiled_step: what a step takes on this machine under a synchronous strategy, from a profile.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/cost/chain_stages.hpp>
#include <tandem/plan/cost/measured_costs.hpp>
#include <tandem/plan/cost/profile.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// The parts of a step, in seconds, one after another.
struct ProfiledStep {
  double passes = 0;     ///< until the last device has ended its passes
  double reduction = 0;  ///< gradients are summed over replicas, or over two copies of the model
  double update = 0;     ///< of the device with most parameters
  double rest = 0;       ///< as DeviceTimes

  [[nodiscard]] double seconds() const { return passes + reduction + update + rest; }
};

namespace detail {

inline Ticks nanoseconds(double seconds) { return static_cast<Ticks>(std::llround(seconds * 1e9)); }

}  // namespace detail

/// The step of @p workers equal replicas of the model, each as @p worker.
///
/// Passes and messages are those of the schedule's table. While two devices work both are slower
/// than one alone: the step is that of devices alone and, for the share of it in which several
/// work, that of devices together. All devices meet before the update. Gradients are summed by
/// threads that share the devices' cores, so that this takes its time wherever in the step it is
/// done; for more than two replicas, that of a ring.
/// @param sizes    top-level parts of each stage, as Split
/// @param workers  of more than one device only where @p worker has one copy of the model
/// @param batch    of all workers together
/// @pre two copies of a model are kept together by AverageGradients, and nothing is recomputed
/// @throws ContractError  the sizes are not those of so many stages of the network, the batch is
///                        smaller than its microbatches, or make_schedule() refuses the numbers
TANDEM_ONCE [[nodiscard]] ProfiledStep profiled_step(NetworkProfile const& profile,
                                                     StrategyValue const& worker,
                                                     std::vector<int> const& sizes, int workers,
                                                     int batch);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The share of the step in which two devices or more have passes.
TANDEM_ONCE double shared_time(ActionRows const& table, TimelineRows const& timeline) {
  struct Change {
    Ticks at;
    int devices;  // more that are at work from then on
  };
  std::vector<Change> changes;
  for (std::size_t d = 0; d < table.size(); ++d) {
    for (std::size_t i = 0; i < table[d].size(); ++i) {
      if (is_compute(table[d][i].kind)) {
        changes.push_back({timeline.action[d][i].begin, 1});
        changes.push_back({timeline.action[d][i].end, -1});
      }
    }
  }
  std::sort(changes.begin(), changes.end(), [](Change const& a, Change const& b) {
    return a.at < b.at || (a.at == b.at && a.devices < b.devices);
  });
  Ticks shared = 0;
  Ticks last = 0;
  int at_work = 0;
  for (Change const& change : changes) {
    shared += at_work > 1 ? change.at - last : 0;
    last = change.at;
    at_work += change.devices;
  }
  return static_cast<double>(shared) / static_cast<double>(std::max<Ticks>(timeline.makespan, 1));
}

/// The timeline of a worker's passes.
TANDEM_ONCE TimelineRows profiled_timeline(ActionRows const& table, RuntimeMap const& map,
                                           std::vector<ChainStage> const& stages,
                                           LinkSpeed const& link) {
  std::vector<ActionCosts> of_stage;
  double largest = 0;
  for (std::size_t s = 0; s < map.device.size(); ++s) {
    ChainStage const& stage = stages[s % stages.size()];
    of_stage.push_back({.forward = nanoseconds(stage.forward),
                        .input_gradient = nanoseconds(stage.backward / 2),
                        .weight_gradient = nanoseconds(stage.backward / 2)});
    largest = std::max(largest, stage.sent_bytes);
  }
  double const message = map.devices > 1 ? link.seconds(largest) : 0;
  return simulate(table, map, {.transfer = nanoseconds(message), .of_stage = of_stage.data()});
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE ProfiledStep profiled_step(NetworkProfile const& profile, StrategyValue const& worker,
                                       std::vector<int> const& sizes, int workers, int batch) {
  expects(!profile.node.empty() && !sizes.empty() &&
              sizes.size() == static_cast<std::size_t>(worker.parts) &&
              *std::min_element(sizes.begin(), sizes.end()) > 0 &&
              std::accumulate(sizes.begin(), sizes.end(), 0) == profile.node.back().part + 1,
          "profiled_step(profile, worker, sizes, workers, batch): give each stage of a worker its "
          "number of top-level parts, all parts of the network together");
  expects(workers >= 1 && batch >= workers * worker.batching.microbatches,
          "profiled_step(profile, worker, sizes, workers, batch): give 1 worker or more, and a "
          "sample for each microbatch");
  RuntimeMap const map =
      make_map(worker.schedule, worker.replica_devices(), worker.stages_a_device);
  ActionRows const table =
      lower(make_schedule(worker.schedule, worker.replica_devices(), worker.batching.microbatches,
                          worker.stages_a_device),
            map);
  int const parts = workers * worker.batching.microbatches;
  int const samples = (batch + parts - 1) / parts;  // of the largest microbatch
  auto const stages_of = [&](DeviceLoad load) {
    return detail::chain_stages(
        measured_costs(profile, samples, load, worker.batching.microbatches / map.copies), sizes);
  };
  std::vector<detail::ChainStage> const alone = stages_of(DeviceLoad::alone);
  std::vector<detail::ChainStage> const together = stages_of(DeviceLoad::together);

  TimelineRows const timeline = detail::profiled_timeline(table, map, alone, profile.message);
  TimelineRows const slowed = detail::profiled_timeline(table, map, together, profile.message);
  double const shared = workers > 1 ? 1 : detail::shared_time(table, timeline);
  double const passes = static_cast<double>(timeline.makespan) +
                        shared * static_cast<double>(slowed.makespan - timeline.makespan);

  std::vector<double> parameters(table.size());
  for (std::size_t s = 0; s < map.device.size(); ++s) {
    parameters[static_cast<std::size_t>(map.device[s])] +=
        together[s % together.size()].parameter_bytes;
  }
  double const bytes = *std::max_element(parameters.begin(), parameters.end());
  int const replicas = workers * map.copies;
  DeviceTimes const& times = profile.times(
      workers * worker.replica_devices() > 1 ? DeviceLoad::together : DeviceLoad::alone);
  return {.passes = passes * 1e-9,
          .reduction =
              replicas > 1 ? profile.reduction.seconds(bytes * 2 * (replicas - 1) / replicas) : 0,
          .update = times.update * bytes,
          .rest = times.rest.of(static_cast<double>(batch) / replicas)};
}

}  // namespace tandem

#endif
