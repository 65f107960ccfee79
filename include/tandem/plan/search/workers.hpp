// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SearchTask, WorkerSteps: the workers that a search tries, each simulated once for all numbers of
/// devices.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/row_finder.hpp>
#include <tandem/graph/spread/wishes.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/epochs/failures.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/scale/sharding.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_again.hpp>
#include <tandem/plan/search/worker_memory.hpp>
#include <tandem/plan/search/worker_placed.hpp>
#include <tandem/plan/search/worker_strategies.hpp>
#include <tandem/plan/search/worker_tensor.hpp>
#include <tandem/plan/search/worker_tiles.hpp>
#include <tandem/strategy/rules.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// What is planned for.
struct SearchTask {
  Machine machine{};
  int batch_per_worker = 64;           ///< whatever the devices of a worker
  double samples = 50'000;             ///< of an epoch
  double bytes_of_parameter = 3;       ///< as PlacementTask: 2, and arrays of states and averages
  double memory = 0;                   ///< of a device, bytes; 0: the machine's
  int most_devices_a_worker = 16;      ///< M
  bool wide = false;                   ///< any microbatches, more that compute passes again, and
                                       ///< sharded state that takes less time, not only memory
  bool late_gradients = false;         ///< asynchronous pipelines may be recommended
  std::optional<GraphView> network{};  ///< whose tensors are counted as fits<> does; if it is not
                                       ///< known, weights and outputs of the costs are
  MathPrecision precision = MathPrecision::fp32;  ///< of those tensors
  Failures failures{};                            ///< of devices; not known: none fails
  bool computed = false;  ///< costs are static_costs() of the network, so that those of slices of
                          ///< its layers and of chunks of time are known, too

  /// Bytes that a device has.
  [[nodiscard]] double device_memory() const {
    return memory > 0 ? memory : static_cast<double>(machine.memory);
  }
};

namespace detail {

/// A worker's step, for its memory. A placed device holds what it has, of one microbatch, however
/// its stages are numbered, so that one stage a device does.
TANDEM_ONCE WorkerCut worker_cut(GraphView network, StrategyValue const& worker,
                                 WorkerStep const& step, int batch);

/// The sentence of the first rule that is broken, so that none is recommended that the compiler
/// would refuse; else empty.
/// @param cut  none: how it is cut is not known, so that no two devices share a weight
TANDEM_ONCE std::string refusal_of(GraphView network, StrategyValue const& worker,
                                   WorkerCut const* cut = nullptr);

/// Bytes of the fullest device, as fits<> counts them.
TANDEM_ONCE double counted_memory(GraphView network, SearchTask const& task, WorkerCut const& cut);

TANDEM_ONCE WorkerStep step_of(StrategyValue const& worker, CostGraph const& graph,
                               SearchTask const& task);

/// A step of @p worker, which rewrites the network and is not refused.
TANDEM_ONCE WorkerStep rewritten_step_of(StrategyValue const& worker, SearchTask const& task);

/// Whether so many devices run PostValidated schedules: those of Host, in one process, whose
/// parameters are not rounded for products.
TANDEM_ONCE bool validates_behind(SearchTask const& task, int devices);

/// How many parts of the network a run of @p worker best has: all take as long, so that those that
/// need least memory are.
/// @param step  of the worker without runs
TANDEM_ONCE int best_runs(StrategyValue const& worker, WorkerStep const& step,
                          SearchTask const& task);

/// The workers that a search tries, in the order in which plans that are as fast stand; where
/// memory is counted, those of one stage also with runs, see WorkerSteps.
TANDEM_ONCE std::vector<StrategyValue> tried_workers(SearchTask const& task);

/// Why workers that rewrite the network cannot be, each kind of them looked at once.
class WorkerKinds {
 public:
  struct Known {
    std::string const& refusal;  ///< empty: none
    bool is_first;               ///< of its kind
  };

  TANDEM_ONCE Known find(StrategyValue const& worker, SearchTask const& task);

 private:
  // Of slices, rows, chunks of time and rows of tiles.
  std::map<std::array<int, 4>, std::string> refusal_;
};

}  // namespace detail

/// The workers that search_plans() tries, made once and read for any number of devices. Those of
/// one stage are also tried with runs of layers that are computed again, Checkpoint<Every<k>>,
/// where the same worker that keeps all does not fit: where it does it sums the same gradients and
/// is faster.
class WorkerSteps {
 public:
  struct One {
    StrategyValue strategy{};
    WorkerStep step{};
  };

  /// With all of them.
  /// @param costs  costs(samples): a CostGraph of so many
  template <class Costs>
  WorkerSteps(SearchTask const& task, Costs const& costs)
      : WorkerSteps{task, costs(task.batch_per_worker)} {
    constexpr int most = 1 << 16;  // on some number of devices: rows' gradients are of all workers
    for (StrategyValue const& worker : detail::tried_workers(task)) {
      if (needs(worker, most)) {
        add(worker, costs);
      }
    }
  }
  /// With none.
  /// @param whole  costs of a worker's minibatch
  WorkerSteps(SearchTask const& task, CostGraph whole) : task_{task}, whole_{std::move(whole)} {}

  /// Simulates @p tried, and has it then; of a kind that cannot be only the first. Of one with runs
  /// their length is chosen.
  /// @pre of one with runs that without was added, and has no problem
  template <class Costs>
  void add(StrategyValue const& tried, Costs const& costs) {
    StrategyValue worker = tried;
    if (tried.checkpoint.every > 0) {
      One const& whole = *without_runs(tried);
      worker.checkpoint.every = detail::best_runs(whole.strategy, whole.step, task_);
    }
    detail::WorkerKinds::Known const kind = kinds_.find(worker, task_);
    if (!worker.rewrites()) {
      CostGraph graph = detail::costs_again(
          costs(std::max(1, task_.batch_per_worker / worker.batching.microbatches)),
          worker.checkpoint.every);
      all_.push_back({worker, detail::step_of(worker, graph, task_)});
      if (worker.replica_devices() == 1) {
        of_microbatch_.insert_or_assign({worker.batching.microbatches, worker.checkpoint.every},
                                        std::move(graph));
      }
    } else if (kind.refusal.empty()) {
      all_.push_back({worker, detail::rewritten_step_of(worker, task_)});
    } else if (kind.is_first) {  // it says so once
      all_.push_back({worker, {.problem = kind.refusal}});
    }
  }

  [[nodiscard]] std::vector<One> const& all() const { return all_; }
  /// Bytes of the fullest device where there are so many workers: what each holds of the others'
  /// GradientRows is more than step.memory, which is that of one.
  /// @pre the step has no problem
  /// @param shard  of what they have a part each
  TANDEM_ONCE [[nodiscard]] double memory(One const& one, int workers,
                                          Sharding shard = Sharding::none) const;
  /// Whether so many of @p worker are worth a look: those with runs where the same without could
  /// be, but for memory.
  TANDEM_ONCE [[nodiscard]] bool needs(StrategyValue const& worker, int workers) const;
  [[nodiscard]] SearchTask const& task() const { return task_; }
  [[nodiscard]] CostGraph const& graph() const { return whole_; }  ///< of a worker's minibatch
  /// Of a microbatch, with what is computed again.
  /// @pre the worker has one device, and was added
  [[nodiscard]] CostGraph const& graph(StrategyValue const& worker) const {
    return of_microbatch_.at({worker.batching.microbatches, worker.checkpoint.every});
  }

 private:
  TANDEM_ONCE [[nodiscard]] One const* without_runs(StrategyValue worker) const;
  SearchTask task_;
  CostGraph whole_;
  // of workers of one device, by the number of microbatches and the parts of runs
  std::map<std::pair<int, int>, CostGraph> of_microbatch_{};
  detail::WorkerKinds kinds_{};
  std::vector<One> all_{};
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE WorkerCut worker_cut(GraphView network, StrategyValue const& worker,
                                 WorkerStep const& step, int batch) {
  WorkerCut cut{.value = worker,
                .samples = std::max(1, batch / worker.batching.microbatches),
                .spread = spread_of(network, worker)};
  WorkerTable made = worker_table(
      worker.cut == CutKind::placed ? chain_worker(SequentialStages::name, worker.replica_devices())
                                    : worker);
  cut.map = std::move(made.map);
  cut.table = std::move(made.table);
  if (worker.cut == CutKind::placed) {
    cut.part.assign(step.placement.begin(), step.placement.end());
  } else {
    cut.part = parts_of_nodes(network, step.sizes);
  }
  return cut;
}

/// The devices that hold a parameter of @p owner's values, in the first copy of the model.
TANDEM_ONCE std::set<int> holders_of(GraphView network, WorkerCut const& cut, int owner) {
  std::set<int> devices;
  for (int p = owner; p < network.parameters; ++p) {
    if (network.parameter[p].owner() == owner) {
      auto const part =
          static_cast<std::size_t>(cut.part[static_cast<std::size_t>(network.parameter[p].node)]);
      devices.insert(cut.map.device[part]);
    }
  }
  return devices;
}

/// Devices that share a weight add its gradients before the update, in each copy of the model. They
/// are taken to be as far apart as the first from the last, and those between to lie evenly.
/// @param master_bytes  of an element of a gradient
TANDEM_ONCE void add_ties(GraphView network, WorkerCut const& cut, Machine const& machine,
                          std::int64_t master_bytes, WorkerStep& step) {
  for (int p = 0; p < network.parameters; ++p) {
    if (network.parameter[p].shared >= 0 || network.parameter[p].frozen) {
      continue;
    }
    std::set<int> const devices = holders_of(network, cut, p);
    if (devices.size() < 2) {
      continue;
    }
    int const ranks = static_cast<int>(devices.size());
    DeviceGroup const group{ranks, (*devices.rbegin() - *devices.begin()) / (ranks - 1)};
    int const slices = cut.spread.dealing.wishes.has_table(p) ? cut.value.tensor : 1;
    auto const bytes = static_cast<double>(network.parameter[p].parameter.shape.elements()) *
                       static_cast<double>(master_bytes) / slices;
    step.ties += cut.map.copies * all_reduce_seconds(machine, group, bytes);
  }
}

TANDEM_ONCE std::string refusal_of(GraphView network, StrategyValue const& worker,
                                   WorkerCut const* cut) {
  int widest = 1;
  for (int p = 0; cut != nullptr && p < network.parameters; ++p) {
    widest = std::max(widest, static_cast<int>(holders_of(network, *cut, p).size()));
  }
  BrokenRule const broken = broken_rule(add_network(
      rule_facts(worker, widest), RuntimeGraph{network}, network, SpreadWishes{}, nullptr, 1));
  return broken.rule == Rule::none ? "" : sentence_of(broken);
}

TANDEM_ONCE double counted_memory(GraphView network, SearchTask const& task, WorkerCut const& cut) {
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

/// Refusals, memory, and what layers of several stages share.
TANDEM_ONCE void count_network(StrategyValue const& worker, SearchTask const& task,
                               WorkerStep& step) {
  if (!step.problem.empty()) {
    return;
  }
  WorkerCut const cut = worker_cut(*task.network, worker, step, task.batch_per_worker);
  step.problem = refusal_of(*task.network, worker, &cut);
  if (step.problem.empty()) {
    step.memory = counted_memory(*task.network, task, cut);
    add_ties(*task.network, cut, machine_of_groups(task.machine, worker.tensor),
             master_bytes(task.precision), step);
  }
}

TANDEM_ONCE WorkerStep step_of(StrategyValue const& worker, CostGraph const& graph,
                               SearchTask const& task) {
  WorkerStep step = worker.cut == CutKind::placed
                        ? placed_worker_step(worker, graph, task.machine, task.bytes_of_parameter)
                        : worker_step(worker, graph, task.machine, task.bytes_of_parameter);
  if (task.network) {
    count_network(worker, task, step);
  }
  return step;
}

TANDEM_ONCE WorkerStep rewritten_step_of(StrategyValue const& worker, SearchTask const& task) {
  WorkerStep step = worker.has_tiles()
                        ? tiled_worker_step(worker, *task.network, task.machine, task.precision,
                                            task.batch_per_worker)
                        : rewritten_worker_step(worker, *task.network, task.machine, task.precision,
                                                task.batch_per_worker);
  count_network(worker, task, step);
  return step;
}

TANDEM_ONCE bool validates_behind(SearchTask const& task, int devices) {
  return task.machine.cpus && devices <= task.machine.devices_per_node &&
         element_bytes(task.precision) == master_bytes(task.precision);
}

TANDEM_ONCE int best_runs(StrategyValue const& worker, WorkerStep const& step,
                          SearchTask const& task) {
  WorkerCut cut = worker_cut(*task.network, worker, step, task.batch_per_worker);
  int best = 0;
  double least = 0;
  for (int const every : tried_runs(step.sizes[0])) {
    cut.value.checkpoint = {every};
    double const memory = counted_memory(*task.network, task, cut);
    if (best == 0 || memory < least) {
      best = every;
      least = memory;
    }
  }
  return best;
}

TANDEM_ONCE std::vector<StrategyValue> tried_workers(SearchTask const& task) {
  std::vector<StrategyValue> all;
  for (int m = 1; m <= task.most_devices_a_worker; m *= 2) {
    std::vector<StrategyValue> const plain = worker_strategies(m, task.batch_per_worker, task.wide);
    all.insert(all.end(), plain.begin(), plain.end());
    if (validates_behind(task, m)) {
      std::vector<StrategyValue> const unbarred = unbarred_strategies(plain);
      all.insert(all.end(), unbarred.begin(), unbarred.end());
    }
    if (m > 1 && task.computed && task.network) {
      bool const sequences = time_to_deal(*task.network, 1) > 0;
      for (StrategyValue& worker :
           rewriting_strategies(m, task.batch_per_worker, sequences, task.wide)) {
        all.push_back(std::move(worker));
      }
      if (has_windows(*task.network)) {
        int const node = task.machine.devices_per_node;
        for (StrategyValue& worker : tile_strategies(m, task.batch_per_worker, node, task.wide)) {
          all.push_back(std::move(worker));
        }
      }
    }
  }
  return task.network ? with_runs(all) : all;
}

TANDEM_ONCE WorkerKinds::Known WorkerKinds::find(StrategyValue const& worker,
                                                 SearchTask const& task) {
  auto const [kind, is_new] =
      refusal_.try_emplace({worker.tensor, worker.sequence_rows ? 1 : 0, worker.batching.chunks,
                            worker.has_tiles() ? worker.tiles.height : 0});
  bool is_first = is_new;
  if (is_new && worker.tensor > 1 && worker.batching.chunks > 1) {  // each has its own words
    StrategyValue slices = worker;
    slices.batching.chunks = 1;
    StrategyValue chunks = worker;
    chunks.tensor = 1;
    kind->second = find(slices, task).refusal;
    kind->second = kind->second.empty() ? find(chunks, task).refusal : kind->second;
    is_first = kind->second.empty();
  }
  if (is_first && worker.rewrites()) {
    kind->second = refusal_of(*task.network, worker);
  }
  return {kind->second, is_first};
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double WorkerSteps::memory(One const& one, int workers, Sharding shard) const {
  if (workers == 1 || !task_.network ||
      (shard == Sharding::none && !detail::has_row_gradients(*task_.network))) {
    return one.step.memory;
  }
  GraphView const network = *task_.network;
  WorkerCut cut = detail::worker_cut(network, one.strategy, one.step, task_.batch_per_worker);
  cut.value = detail::replicated(one.strategy, workers, shard);
  return detail::counted_memory(network, task_, cut);
}

TANDEM_ONCE bool WorkerSteps::needs(StrategyValue const& worker, int workers) const {
  if (worker.checkpoint.every <= 0) {
    return true;
  }
  One const* const whole = without_runs(worker);
  return whole != nullptr && whole->step.problem.empty() && whole->step.sizes[0] > 1 &&
         memory(*whole, workers) > task_.device_memory();
}

TANDEM_ONCE WorkerSteps::One const* WorkerSteps::without_runs(StrategyValue worker) const {
  worker.checkpoint.every = 0;
  for (One const& one : all_) {
    if (one.strategy == worker) {
      return &one;
    }
  }
  return nullptr;
}

}  // namespace tandem

#endif
