// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_plans: which N workers of M devices reach the target accuracy first, after Pal et al.
/// 2019.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/epochs/convergence_time.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/epochs/failures.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/scale/sharding.hpp>
#include <tandem/plan/search/gradient_buckets.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/strategy/value.hpp>
#include <tandem/strategy/value_text.hpp>

namespace tandem {

/// N workers of M devices.
struct Plan {
  StrategyValue worker{};
  int workers = 1;
  Sharding shard = Sharding::none;  ///< of what each worker has a part alone
  WorkerStep step{};
  double reduction = 0;  ///< seconds of a step in which devices wait for the sum of gradients
  double waiting = 0;    ///< seconds of a step for the slowest node, where some are slow
  ConvergenceTime time{};
  bool extrapolated = false;    ///< E is a guess: the global batch is outside the points
  bool late_gradients = false;  ///< E is that of synchronous training, its own is not known
  bool only_shown = false;      ///< gradients are late, and nobody asked for such
  std::string problem{};        ///< why it cannot be; else empty

  [[nodiscard]] int devices() const { return workers * worker.replica_devices(); }
  [[nodiscard]] bool feasible() const { return problem.empty(); }
  [[nodiscard]] bool can_win() const { return feasible() && !only_shown; }
  /// What most of a step's time on the devices goes to: "computing", "waiting in the pipeline",
  /// "sums of layers", "exchanges of tiles" or "gradients".
  TANDEM_ONCE [[nodiscard]] std::string bound() const;
};

namespace detail {

/// Gradients of one device go while the others of its last backward pass are computed, one bucket
/// after another. Where workers share the state, each gets the sum of its part, and all parameters
/// behind the update; where they share the gradients, the sums of each of so many @p passes; where
/// they share the parameters, these are gathered before forward and again before backward, each
/// bucket while the one before is at work: what is longer than that shows.
/// @param graph  of a pass
/// @param again  its runs are computed again: shared parameters are gathered for that, too
TANDEM_ONCE double exposed_reduction(CostGraph const& graph, Machine const& machine, int workers,
                                     Sharding shard = Sharding::none, int passes = 1,
                                     bool again = false);

/// A device of a pipeline sums its gradients when its last backward pass has ended, or those of
/// each of so many @p passes, where it keeps a part alone, and gathers its parameters for each of
/// them twice, where it has a part alone; all of it shows. Where steps have no barrier, the first
/// passes of the next step stand beside the last ones of this, so that devices end later than the
/// step is long: no more shows than the longest sum, by which each would begin a step later, and no
/// more than with a barrier.
TANDEM_ONCE double exposed_reduction(WorkerStep const& step, Machine const& machine, int workers,
                                     int stride, Sharding shard = Sharding::none, int passes = 1,
                                     bool again = false);

/// By which share of it a step takes longer for the slowest node.
TANDEM_ONCE double waiting_share(Machine const& machine, int devices);

/// Whether a worker can stand on so many devices: alone if its gradients are late, since Hybrid
/// takes none of these; in one node, where a process has them all, if its steps have no barrier.
TANDEM_ONCE bool stands_on(StrategyValue const& worker, Machine const& machine, int devices);

/// The fastest to converge first, those that cannot be last; before these asynchronous pipelines,
/// if they may not be recommended. Of equals the first stays so.
TANDEM_ONCE void sort_plans(std::vector<Plan>& plans);

TANDEM_ONCE void check_devices(Machine const& machine, int devices);

}  // namespace detail

/// C of so many @p workers on @p devices in all, whose step takes so many @p seconds.
TANDEM_ONCE [[nodiscard]] ConvergenceTime convergence_of(SearchTask const& task,
                                                         EpochCurve const& epochs, int workers,
                                                         int devices, double seconds);

/// The plan of one worker strategy on so many devices in all.
/// @pre the worker's devices divide @p devices
TANDEM_ONCE [[nodiscard]] Plan make_plan(WorkerSteps const& steps, WorkerSteps::One const& one,
                                         EpochCurve const& epochs, int devices);

/// All plans for @p devices, the fastest to converge first, those that cannot be last. Before
/// these stand asynchronous pipelines, if they may not be recommended; Hybrid takes none, so they
/// are only there where a worker has all devices.
/// @throws ContractError  devices < 1, or the machine has not so many
TANDEM_ONCE [[nodiscard]] std::vector<Plan> search_plans(WorkerSteps const& steps,
                                                         EpochCurve const& epochs, int devices);

/// The strategy of all workers, as they cut the network.
TANDEM_ONCE [[nodiscard]] StrategyValue strategy_value(Plan const& plan);

/// The type to paste: "Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>". Where nodes are
/// placed, "ModelParallel<Placed<table>>" with what placed_text() declares.
TANDEM_ONCE [[nodiscard]] std::string strategy_type(Plan const& plan);

/// The type in short, for a table: "ModelParallel<Placed<2 devices>>".
TANDEM_ONCE [[nodiscard]] std::string strategy_label(Plan const& plan);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE double exposed_reduction(CostGraph const& graph, Machine const& machine, int workers,
                                     Sharding shard, int passes, bool again) {
  DeviceGroup const group{workers, 1};
  double sent = -std::numeric_limits<double>::infinity();  // seconds behind the end of backward
  double gathered = 0;
  double longest = 0;
  for (GradientBucket const& bucket : gradient_buckets(graph, passes)) {
    sent = std::max(sent, -bucket.before_end) +
           (shard != Sharding::none
                ? reduce_scatter_seconds(machine, group, bucket.bytes)
                : gradient_seconds(machine, group, bucket.bytes, bucket.row_bytes));
    double const gather =
        shard != Sharding::none ? all_gather_seconds(machine, group, bucket.bytes) : 0;
    gathered += gather;
    longest = std::max(longest, gather);
  }
  if (shard == Sharding::parameters) {
    double forward = 0;
    double backward = 0;
    for (CostNode const& node : graph.node) {
      forward += node.forward;
      backward += node.backward;
    }
    return passes *
           (std::max(0.0, sent) + 2 * longest + std::max(0.0, gathered - longest - forward) +
            std::max(0.0, (again ? 2 : 1) * gathered - longest - backward));
  }
  return (shard == Sharding::gradients ? passes : 1) * std::max(0.0, sent) + gathered;
}

TANDEM_ONCE double exposed_reduction(WorkerStep const& step, Machine const& machine, int workers,
                                     int stride, Sharding shard, int passes, bool again) {
  DeviceGroup const group{workers, stride};
  double last = step.seconds;
  double last_pass = step.seconds;
  double longest = 0;
  for (std::size_t d = 0; d < step.done.size(); ++d) {
    double const bytes = step.gradient_bytes[d];
    int const scatters = shard >= Sharding::gradients ? passes : 1;
    int const gathers = shard == Sharding::parameters ? (again ? 3 : 2) * passes : 1;
    double const seconds = shard == Sharding::none
                               ? gradient_seconds(machine, group, bytes, step.row_bytes[d])
                               : scatters * reduce_scatter_seconds(machine, group, bytes) +
                                     gathers * all_gather_seconds(machine, group, bytes);
    last = std::max(last, step.done[d] + seconds);
    last_pass = std::max(last_pass, step.done[d]);
    longest = std::max(longest, seconds);
  }
  double const shown = last - step.seconds;
  return last_pass > step.seconds ? std::min(shown, longest) : shown;
}

/// Seconds of the sums of gradients among so many workers, and of the gathers of what they share.
TANDEM_ONCE double seconds_of_sums(WorkerSteps const& steps, WorkerSteps::One const& one,
                                   int workers, Sharding shard) {
  Machine const& machine = steps.task().machine;
  StrategyValue const& worker = one.strategy;
  return workers == 1 ? 0
         : worker.replica_devices() == 1
             ? exposed_reduction(steps.graph(worker), machine, workers, shard,
                                 worker.batching.microbatches, worker.checkpoint.every > 0)
             : exposed_reduction(one.step, machine, workers, worker.replica_devices(), shard,
                                 worker.batching.passes(), worker.checkpoint.every > 0);
}

/// Counts the memory; where all of it does not fit, workers share as little as does, if they can:
/// the optimizer's state, gradients too, parameters too. A wide search has them share more where
/// that takes less time.
TANDEM_ONCE void fit_memory(WorkerSteps const& steps, WorkerSteps::One const& one, Plan& plan) {
  SearchTask const& task = steps.task();
  double const memory = task.device_memory();
  plan.step.memory = steps.memory(one, plan.workers);
  bool const packs =
      task.machine.cpus && element_bytes(task.precision) < master_bytes(task.precision);
  for (Sharding const shard : {Sharding::state, Sharding::gradients, Sharding::parameters}) {
    constexpr double rounding = 1 - 1e-9;  // half an all-reduce twice is one
    bool const fits = plan.step.memory <= memory;
    if (plan.workers == 1 || !task.network || (packs && shard == Sharding::parameters) ||
        (fits &&
         !(task.wide && seconds_of_sums(steps, one, plan.workers, shard) <
                            rounding * seconds_of_sums(steps, one, plan.workers, plan.shard))) ||
        !refusal_of(*task.network, replicated(one.strategy, plan.workers, shard)).empty()) {
      continue;
    }
    double const shared = steps.memory(one, plan.workers, shard);
    if (!fits || shared <= memory) {
      plan.step.memory = shared;
      plan.shard = shard;
    }
  }
  if (plan.step.memory > memory) {
    plan.problem = "a device needs " + std::to_string(std::llround(plan.step.memory / 1e6)) +
                   " MB and has " + std::to_string(std::llround(memory / 1e6));
  }
}

TANDEM_ONCE double waiting_share(Machine const& machine, int devices) {
  return machine.slow.expected((devices - 1) / machine.devices_per_node + 1);
}

TANDEM_ONCE bool stands_on(StrategyValue const& worker, Machine const& machine, int devices) {
  return devices % worker.replica_devices() == 0 &&
         (worker.replica_devices() == devices || !worker.asynchrony().on()) &&
         (!worker.post_validated || devices <= machine.devices_per_node);
}

TANDEM_ONCE void sort_plans(std::vector<Plan>& plans) {
  std::stable_sort(plans.begin(), plans.end(), [](Plan const& a, Plan const& b) {
    return a.can_win() != b.can_win()     ? a.can_win()
           : a.feasible() != b.feasible() ? a.feasible()
                                          : a.time.seconds() < b.time.seconds();
  });
}

TANDEM_ONCE void check_devices(Machine const& machine, int devices) {
  expects(devices >= 1, "search_plans(steps, epochs, devices): give one device or more");
  expects(
      machine.has(devices),
      "search_plans(steps, epochs, devices): the machine has fewer devices; give it more nodes, "
      "or 0 nodes for as many as are asked for");
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE ConvergenceTime convergence_of(SearchTask const& task, EpochCurve const& epochs,
                                           int workers, int devices, double seconds) {
  double const batch = static_cast<double>(workers) * task.batch_per_worker;
  return {.step = seconds,
          .steps_per_epoch = std::max(1.0, task.samples / batch),
          .epochs = epochs.epochs(batch),
          .goodput = task.failures.known() ? goodput(task.failures, devices) : 1};
}

TANDEM_ONCE Plan make_plan(WorkerSteps const& steps, WorkerSteps::One const& one,
                           EpochCurve const& epochs, int devices) {
  SearchTask const& task = steps.task();
  Plan plan{.worker = one.strategy,
            .workers = devices / one.strategy.replica_devices(),
            .step = one.step,
            .late_gradients = one.strategy.asynchrony().on(),
            .problem = one.step.problem};
  plan.only_shown = plan.late_gradients && !task.late_gradients;
  if (plan.feasible() && plan.workers > 1 && task.network) {
    plan.problem = detail::refusal_of(
        *task.network, detail::replicated(one.strategy, plan.workers, Sharding::none));
  }
  if (plan.feasible()) {
    detail::fit_memory(steps, one, plan);
  }
  if (!plan.feasible()) {
    return plan;
  }
  plan.reduction = one.step.ties;
  if (detail::has_two_copies(
          one.strategy.schedule)) {  // their gradients are added in pairs of devices
    double most = 0;
    for (double const bytes : one.step.gradient_bytes) {
      most = std::max(most, bytes);
    }
    plan.reduction += exchange_seconds(task.machine, {2, one.strategy.replica_devices() - 1}, most);
  }
  plan.reduction += detail::seconds_of_sums(steps, one, plan.workers, plan.shard);
  plan.waiting = detail::waiting_share(task.machine, devices) * one.step.seconds;
  plan.time = convergence_of(task, epochs, plan.workers, devices,
                             one.step.seconds + plan.reduction + plan.waiting + one.step.copies);
  if (plan.time.goodput < 0.01) {
    plan.problem = "devices fail so often that less than 1 % of the time trains";
  }
  plan.extrapolated =
      epochs.extrapolates(static_cast<double>(plan.workers) * task.batch_per_worker);
  return plan;
}

TANDEM_ONCE std::vector<Plan> search_plans(WorkerSteps const& steps, EpochCurve const& epochs,
                                           int devices) {
  detail::check_devices(steps.task().machine, devices);
  std::vector<Plan> plans;
  for (WorkerSteps::One const& one : steps.all()) {
    if (detail::stands_on(one.strategy, steps.task().machine, devices) &&
        steps.needs(one.strategy, devices / one.strategy.replica_devices())) {
      plans.push_back(make_plan(steps, one, epochs, devices));
    }
  }
  detail::sort_plans(plans);
  return plans;
}

TANDEM_ONCE StrategyValue strategy_value(Plan const& plan) {
  StrategyValue value = detail::replicated(plan.worker, plan.workers, plan.shard);
  if (value.cut == CutKind::placed) {
    value.device.assign(plan.step.placement.begin(), plan.step.placement.end());
  } else if (value.cut == CutKind::balanced && !plan.step.sizes.empty()) {
    value.cut = CutKind::splits;
    value.tops = plan.step.sizes;
  } else if (value.checkpoint.every > 0 && value.tensor == 1) {  // SingleDevice has no such option
    value.cut = CutKind::balanced;
  }
  return value;
}

TANDEM_ONCE std::string strategy_type(Plan const& plan) { return type_text(strategy_value(plan)); }

TANDEM_ONCE std::string strategy_label(Plan const& plan) {
  return type_text(strategy_value(plan),
                   std::to_string(plan.worker.replica_devices()) + " devices");
}

TANDEM_ONCE std::string Plan::bound() const {
  double const idle = step.idle * step.seconds;
  double const busy = step.seconds - idle;
  return reduction > std::max(busy, idle) ? "gradients"
         : idle > busy ? worker.has_tiles() && worker.shares_all() ? "exchanges of tiles"
                         : worker.shares_all()                     ? "sums of layers"
                                                                   : "waiting in the pipeline"
                       : "computing";
}

}  // namespace tandem

#endif
