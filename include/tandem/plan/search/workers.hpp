// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SearchTask, WorkerSteps: the workers that a search tries, each simulated once for all numbers of
/// devices.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <tandem/graph/graph_view.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/epochs/failures.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_memory.hpp>
#include <tandem/plan/search/worker_placed.hpp>
#include <tandem/plan/search/worker_refusals.hpp>
#include <tandem/plan/search/worker_strategies.hpp>
#include <tandem/plan/search/worker_tensor.hpp>
#include <tandem/plan/search/worker_ties.hpp>

namespace tandem {

/// What is planned for.
struct SearchTask {
  Machine machine{};
  int batch_per_worker = 64;           ///< whatever the devices of a worker
  double samples = 50'000;             ///< of an epoch
  double bytes_of_parameter = 3;       ///< as PlacementTask: 2, and arrays of states and averages
  double memory = 0;                   ///< of a device, bytes; 0: the machine's
  int most_devices_a_worker = 16;      ///< M
  bool late_gradients = false;         ///< asynchronous pipelines may be recommended
  std::optional<GraphView> network{};  ///< whose tensors are counted as fits<> does; if it is not
                                       ///< known, weights and outputs of the costs are
  MathPrecision precision = MathPrecision::fp32;  ///< of those tensors
  Failures failures{};                            ///< of devices; not known: none fails
  RankGraphs ranks{};  ///< of the network, computed costs given; none: no devices share layers

  /// Bytes that a device has.
  [[nodiscard]] double device_memory() const {
    return memory > 0 ? memory : static_cast<double>(machine.memory);
  }
};

namespace detail {

/// A worker's step, for its memory. A placed device holds what it has, of one microbatch, however
/// its stages are numbered, so that one stage a device does.
template <class = void>
WorkerCut worker_cut(GraphView network, WorkerStrategy const& worker, WorkerStep const& step,
                     int batch) {
  WorkerCut cut{.asynchrony = worker.asynchrony(),
                .samples = std::max(1, batch / worker.microbatches),
                .recomputes = worker.recomputes};
  WorkerTable made = worker_table(worker.is_placed()   ? WorkerStrategy{.devices = worker.devices}
                                  : worker.is_tensor() ? WorkerStrategy{}
                                                       : worker);
  cut.map = std::move(made.map);
  cut.table = std::move(made.table);
  cut.part = step.placement;
  if (!worker.is_placed()) {
    int part = 0;
    int end = step.sizes[0];
    for (int n = 0; n < network.nodes; ++n) {
      while (network.node[n].top >= end) {
        end += step.sizes[static_cast<std::size_t>(++part)];
      }
      cut.part.push_back(part);
    }
  }
  return cut;
}

/// Bytes of the fullest device, as fits<> counts them.
template <class = void>
double counted_memory(GraphView network, SearchTask const& task, WorkerCut const& cut) {
  TensorSizes const sizes{
      .master_bytes = master_bytes(task.precision),
      .scalar_bytes = element_bytes(task.precision),
      .states = std::max(0, static_cast<int>(std::lround(task.bytes_of_parameter)) - 2)};
  std::int64_t most = 0;
  for (DeviceMemory const& device : worker_memory(network, cut, sizes)) {
    most = std::max(most, device.total());
  }
  return static_cast<double>(most);
}

/// Of devices that have @p rank each.
template <class = void>
WorkerStep tensor_step_of(WorkerStrategy const& worker, GraphView rank, SearchTask const& task) {
  WorkerStep step =
      tensor_worker_step(worker, rank, task.machine, task.precision, task.batch_per_worker);
  if (step.problem.empty()) {
    step.problem = refusal_of(*task.network, worker);
  }
  if (step.problem.empty()) {
    step.memory = counted_memory(rank, task, worker_cut(rank, worker, step, task.batch_per_worker));
  }
  return step;
}

template <class = void>
WorkerStep step_of(WorkerStrategy const& worker, CostGraph const& graph, SearchTask const& task) {
  WorkerStep step = worker.is_placed()
                        ? placed_worker_step(worker, graph, task.machine, task.bytes_of_parameter)
                        : worker_step(worker, graph, task.machine, task.bytes_of_parameter);
  if (task.network && step.problem.empty()) {
    step.problem = refusal_of(*task.network, worker);
  }
  if (task.network && step.problem.empty()) {
    WorkerCut const cut = worker_cut(*task.network, worker, step, task.batch_per_worker);
    step.memory = counted_memory(*task.network, task, cut);
    add_ties(*task.network, cut, task.machine, master_bytes(task.precision), step);
  }
  return step;
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
        all_.push_back({worker, detail::step_of(worker, costs(samples), task)});
      }
      if (m > 1 && task.ranks && task.network) {
        WorkerStrategy const worker{.schedule = WorkerStrategy::tensor, .devices = m};
        rank_[m] = task.ranks(m);
        all_.push_back({worker, detail::tensor_step_of(worker, network_of(worker), task)});
      }
    }
  }

  [[nodiscard]] std::vector<One> const& all() const { return all_; }
  /// Bytes of the fullest device where there are so many workers: what each holds of the others'
  /// GradientRows is more than step.memory, which is that of one.
  /// @pre the step has no problem
  /// @param shards_state  they have a part of the optimizer's state each
  [[nodiscard]] double memory(One const& one, int workers, bool shards_state = false) const {
    bool const alike =
        !shards_state && (!task_.network || !detail::has_row_gradients(*task_.network));
    if (workers == 1 || alike || !task_.network) {
      return one.step.memory;
    }
    GraphView const network = network_of(one.strategy);
    WorkerCut cut = detail::worker_cut(network, one.strategy, one.step, task_.batch_per_worker);
    cut.replicas = workers;
    cut.state_shares = shards_state ? workers : 1;
    return detail::counted_memory(network, task_, cut);
  }
  [[nodiscard]] SearchTask const& task() const { return task_; }
  [[nodiscard]] CostGraph const& graph() const { return whole_; }  ///< of a worker's minibatch

 private:
  // What is cut, or what each device has that shares its layers.
  [[nodiscard]] GraphView network_of(WorkerStrategy const& worker) const {
    return worker.is_tensor() ? rank_.at(worker.devices).view(*task_.network) : *task_.network;
  }

  SearchTask task_;
  CostGraph whole_;
  std::map<int, RankGraph> rank_{};
  std::vector<One> all_;
};

}  // namespace tandem
