// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_plans: which N workers of M devices reach the target accuracy first, after Pal et al.
/// 2019.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tandem/plan/collectives.hpp>
#include <tandem/plan/convergence_time.hpp>
#include <tandem/plan/epochs.hpp>
#include <tandem/plan/worker.hpp>

namespace tandem {

/// What is planned for.
struct SearchTask {
  Machine machine{};
  int batch_per_worker = 64;       ///< whatever the devices of a worker
  double samples = 50'000;         ///< of an epoch
  double bytes_of_parameter = 3;   ///< as PlacementTask
  double memory = 0;               ///< of a device, bytes; 0: the machine's
  int most_devices_a_worker = 16;  ///< M
};

/// N workers of M devices.
struct Plan {
  WorkerStrategy worker{};
  int workers = 1;
  WorkerStep step{};
  double reduction = 0;  ///< seconds of a step in which devices wait for the sum of gradients
  ConvergenceTime time{};
  std::string problem{};  ///< why it cannot be; else empty

  [[nodiscard]] int devices() const { return workers * worker.devices; }
  [[nodiscard]] bool feasible() const { return problem.empty(); }
  /// What most of a step's time on the devices goes to: "computing", "waiting in the pipeline" or
  /// "gradients".
  [[nodiscard]] std::string bound() const {
    double const idle = step.idle * step.seconds;
    double const busy = step.seconds - idle;
    return reduction > std::max(busy, idle) ? "gradients"
           : idle > busy                    ? "waiting in the pipeline"
                                            : "computing";
  }
};

namespace detail {

/// Gradients of one device go while the others of its backward pass are computed, 25 MiB at a time
/// from the last layer to the first, one after another.
template <class = void>
double exposed_reduction(CostGraph const& graph, Machine const& machine, int workers) {
  constexpr double bucket = 25 * 1024 * 1024;
  double now = 0;  // since the begin of backward
  double sent = 0;
  double waiting = 0;
  for (std::size_t n = graph.node.size(); n-- > 0;) {
    now += graph.node[n].backward;
    waiting += static_cast<double>(graph.node[n].parameter_bytes);
    if (waiting > 0 && (waiting >= bucket || n == 0)) {
      sent = std::max(sent, now) + all_reduce_seconds(machine, {workers, 1}, waiting);
      waiting = 0;
    }
  }
  return std::max(0.0, sent - now);
}

/// A device of a pipeline sums its gradients when its last backward pass has ended.
template <class = void>
double exposed_reduction(WorkerStep const& step, Machine const& machine, int workers, int stride) {
  double last = step.seconds;
  for (std::size_t d = 0; d < step.done.size(); ++d) {
    last = std::max(last, step.done[d] + all_reduce_seconds(machine, {workers, stride},
                                                            step.gradient_bytes[d]));
  }
  return last - step.seconds;
}

/// The cuts of a network on M devices that are looked at.
template <class = void>
std::vector<WorkerStrategy> worker_strategies(int devices, int batch) {
  if (devices == 1) {
    return {WorkerStrategy{}};
  }
  std::vector<WorkerStrategy> all{{.schedule = "sequential", .devices = devices}};
  if (batch % 2 == 0) {
    all.push_back({.schedule = "cross_model", .devices = devices, .microbatches = 2});
  }
  for (int times : {1, 2, 4}) {
    int const m = times * devices;
    if (m > batch || batch % m != 0) {
      continue;  // equal microbatches
    }
    for (char const* const name : {"gpipe", "one_f_one_b", "zero_bubble_h1"}) {
      all.push_back({.schedule = name, .devices = devices, .microbatches = m});
    }
    all.push_back({.schedule = "interleaved", .devices = devices, .microbatches = m, .chunks = 2});
    if (devices % 2 == 0) {
      all.push_back({.schedule = "chimera", .devices = devices, .microbatches = m});
    }
    all.push_back(
        {.schedule = "one_f_one_b", .devices = devices, .microbatches = m, .recomputes = true});
  }
  return all;
}

}  // namespace detail

/// The workers that search_plans() tries, made once and read for any number of devices.
class WorkerSteps {
 public:
  struct One {
    WorkerStrategy strategy{};
    WorkerStep step{};
  };

  /// @param costs  costs(samples): a CostGraph of so many
  template <class Costs>
  WorkerSteps(SearchTask const& task, Costs const& costs)
      : task_{task}, whole_{costs(task.batch_per_worker)} {
    for (int m = 1; m <= task.most_devices_a_worker; m *= 2) {
      for (WorkerStrategy const& worker : detail::worker_strategies(m, task.batch_per_worker)) {
        int const samples = std::max(1, task.batch_per_worker / worker.microbatches);
        all_.push_back(
            {worker, worker_step(worker, costs(samples), task.machine, task.bytes_of_parameter)});
      }
    }
  }

  [[nodiscard]] std::vector<One> const& all() const { return all_; }
  [[nodiscard]] SearchTask const& task() const { return task_; }
  [[nodiscard]] CostGraph const& graph() const { return whole_; }  ///< of a worker's minibatch

 private:
  SearchTask task_;
  CostGraph whole_;
  std::vector<One> all_;
};

/// The plan of one worker strategy on so many devices in all.
/// @pre the worker's devices divide @p devices
template <class = void>
[[nodiscard]] Plan make_plan(WorkerSteps const& steps, WorkerSteps::One const& one,
                             EpochCurve const& epochs, int devices) {
  SearchTask const& task = steps.task();
  Plan plan{.worker = one.strategy,
            .workers = devices / one.strategy.devices,
            .step = one.step,
            .problem = one.step.problem};
  double const memory = task.memory > 0 ? task.memory : static_cast<double>(task.machine.memory);
  if (plan.feasible() && one.step.memory > memory) {
    plan.problem = "a device needs " + std::to_string(std::llround(one.step.memory / 1e6)) +
                   " MB and has " + std::to_string(std::llround(memory / 1e6));
  }
  if (!plan.feasible()) {
    return plan;
  }
  if (one.strategy.keeps_two_copies()) {  // their gradients are added in pairs of devices
    double most = 0;
    for (double const bytes : one.step.gradient_bytes) {
      most = std::max(most, bytes);
    }
    plan.reduction = exchange_seconds(task.machine, {2, one.strategy.devices - 1}, most);
  }
  if (plan.workers > 1) {
    plan.reduction +=
        one.strategy.devices == 1
            ? detail::exposed_reduction(steps.graph(), task.machine, plan.workers)
            : detail::exposed_reduction(one.step, task.machine, plan.workers, one.strategy.devices);
  }
  double const batch = static_cast<double>(plan.workers) * task.batch_per_worker;
  plan.time = {.step = one.step.seconds + plan.reduction,
               .steps_per_epoch = std::max(1.0, task.samples / batch),
               .epochs = epochs.epochs(batch)};
  return plan;
}

/// All plans for @p devices, the fastest to converge first, those that cannot be last.
/// @throws ContractError  devices < 1, or the machine has not so many
template <class = void>
[[nodiscard]] std::vector<Plan> search_plans(WorkerSteps const& steps, EpochCurve const& epochs,
                                             int devices) {
  expects(devices >= 1, "search_plans(steps, epochs, devices): give one device or more");
  expects(steps.task().machine.has(devices),
          "search_plans(steps, epochs, devices): the machine has fewer devices");
  std::vector<Plan> plans;
  for (WorkerSteps::One const& one : steps.all()) {
    if (devices % one.strategy.devices == 0) {
      plans.push_back(make_plan(steps, one, epochs, devices));
    }
  }
  std::stable_sort(plans.begin(), plans.end(), [](Plan const& a, Plan const& b) {
    return a.feasible() != b.feasible() ? a.feasible() : a.time.seconds() < b.time.seconds();
  });
  return plans;
}

namespace detail {

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
std::string worker_text(WorkerStrategy const& worker, std::vector<int> const& sizes) {
  std::string const rest =
      splits_text(worker, sizes) + (worker.recomputes ? ", Checkpoint<Boundaries>" : "") + ">";
  if (worker.schedule == "sequential") {
    return "ModelParallel<" + rest;
  }
  if (worker.schedule == "cross_model") {
    return "CrossModelParallel<AverageGradients, " + rest;
  }
  std::string const name = worker.schedule == "gpipe"            ? "GPipe"
                           : worker.schedule == "one_f_one_b"    ? "OneFOneB"
                           : worker.schedule == "zero_bubble_h1" ? "ZeroBubbleH1"
                           : worker.schedule == "chimera"
                               ? "Chimera"
                               : "Interleaved<" + std::to_string(worker.chunks) + ">";
  return "Pipeline<" + name + ", " + std::to_string(worker.microbatches) + ", " + rest;
}

}  // namespace detail

/// The type to paste: "Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>".
template <class = void>
[[nodiscard]] std::string strategy_type(Plan const& plan) {
  std::string const workers = std::to_string(plan.workers);
  if (plan.worker.devices > 1) {
    std::string const worker = detail::worker_text(plan.worker, plan.step.sizes);
    return plan.workers == 1 ? worker : "Hybrid<DataParallel<" + workers + ">, " + worker + ">";
  }
  return plan.workers == 1 ? "SingleDevice<>" : "DataParallel<" + workers + ">";
}

}  // namespace tandem
