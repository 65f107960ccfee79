// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_bounded: search_all() that simulates only workers which may be in a best plan, for many
/// devices.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_strategies.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/schedule/orders/all.hpp>

namespace tandem {

/// Seconds of a worker's step, links of any speed: its devices have to do all passes, that with the
/// heaviest stage its own, of the best cut; and a pipeline has to fill and to drain. Infinity where
/// the network has fewer parts than stages; 0 where gradients are late.
/// @param graph  costs of one microbatch of the network, on one device
TANDEM_ONCE [[nodiscard]] double least_worker_seconds(StrategyValue const& worker,
                                                      CostGraph const& graph);

namespace detail {

/// How many times as long as one pass and its backward pass, w, a pipeline of p stages takes for m
/// of them at the least, however it is cut: with a stage's w_s, it waits for the stages before
/// during the first forward and the last backward pass, and does its own m times, so that a step
/// takes w_1 + … + w_(s-1) + m w_s. Of these p sums the mean with weights that give each w_s the
/// same factor is w / (1 - (1 - 1/m)^p). One stage: m.
inline double least_filling(int p, int m) { return 1 / (1 - std::pow(1 - 1.0 / m, p)); }

/// Whether a stage's backward pass is one, which the stage before waits for, and each device has
/// one stage.
TANDEM_ONCE bool fills_stage_by_stage(StrategyValue const& worker);

/// A search for some numbers of devices at once.
template <class Costs>
class BoundedSearch {
 public:
  BoundedSearch(SearchTask const& task, Costs const& costs, EpochCurve const& epochs,
                std::vector<int> const& devices)
      : costs_{costs}, epochs_{epochs}, steps_{task, costs(task.batch_per_worker)} {
    for (int const count : devices) {
      check_devices(task.machine, count);
      of_.push_back({.devices = count});
    }
    find_workers();
    for (std::size_t const w : by_bound()) {
      consider(w);
    }
  }

  [[nodiscard]] WorkerSteps const& steps() const { return steps_; }

  /// Of each number of devices.
  [[nodiscard]] std::vector<SearchResult::Devices> result() {
    std::vector<SearchResult::Devices> all;
    for (Sought& own : of_) {
      SearchResult::Devices found{.devices = own.devices, .bound = own.bound};
      found.bound.seconds = own.least;
      std::stable_sort(own.plans.begin(), own.plans.end(),
                       [](auto const& a, auto const& b) { return a.first < b.first; });
      for (auto& [order, plan] : own.plans) {
        found.plans.push_back(std::move(plan));
      }
      sort_plans(found.plans);
      all.push_back(std::move(found));
    }
    return all;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct Tried {
    StrategyValue worker{};
    double least = 0;  ///< seconds of its step
  };
  struct Sought {
    int devices = 1;
    double best = never;   ///< C of the best plan of workers with more devices than one
    double least = never;  ///< C of no plan that can be is less
    SearchBound bound{};
    std::vector<std::pair<std::size_t, Plan>> plans{};  ///< with their places among the tried
  };

  void find_workers() {
    SearchTask const& task = steps_.task();
    std::map<int, CostGraph> graphs;  // of so many samples
    WorkerKinds kinds;
    for (StrategyValue const& worker : tried_workers(task)) {
      bool const shown = worker.asynchrony().on() && !task.late_gradients;
      auto const [refusal, is_first] = kinds.find(worker, task);
      if (shown || (worker.rewrites() && !refusal.empty() && !is_first)) {
        continue;
      }
      int const samples = std::max(1, task.batch_per_worker / worker.batching.microbatches);
      auto const [graph, is_new] = graphs.try_emplace(samples);
      if (is_new) {
        graph->second = costs_(samples);
      }
      bool const refused = worker.rewrites() && !refusal.empty();
      tried_.push_back({worker, refused ? never : least_worker_seconds(worker, graph->second)});
    }
  }

  /// Those that keep their devices at work most come first.
  [[nodiscard]] std::vector<std::size_t> by_bound() const {
    std::vector<std::size_t> order(tried_.size());
    for (std::size_t w = 0; w < order.size(); ++w) {
      order[w] = w;
    }
    auto const work = [this](std::size_t w) {
      return tried_[w].least * tried_[w].worker.replica_devices();
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return work(a) < work(b); });
    return order;
  }

  /// C of workers whose step takes so many @p seconds, were sums of gradients free.
  [[nodiscard]] double least_of(StrategyValue const& worker, double seconds, int devices) const {
    SearchTask const& task = steps_.task();
    seconds *= 1 + waiting_share(task.machine, devices);
    return seconds < never
               ? convergence_of(task, epochs_, devices / worker.replica_devices(), devices, seconds)
                     .seconds()
               : never;
  }

  void consider(std::size_t w) {
    constexpr double rounding = 1 - 1e-9;
    Tried const& tried = tried_[w];
    bool simulated = false;
    for (Sought& own : of_) {
      if (!stands_on(tried.worker, steps_.task().machine, own.devices) ||
          !steps_.needs(tried.worker, own.devices / tried.worker.replica_devices())) {
        continue;
      }
      double const least = rounding * least_of(tried.worker, tried.least, own.devices);
      own.bound.workers += tried.least < never ? 1 : 0;
      bool const may_win = tried.worker.replica_devices() == 1 || least <= own.best;
      if (may_win && !simulated) {
        steps_.add(tried.worker, costs_);
        simulated = true;
      }
      if (!may_win) {
        own.least = std::min(own.least, least);
        continue;
      }
      own.bound.simulated += tried.least < never ? 1 : 0;
      own.plans.push_back({w, make_plan(steps_, steps_.all().back(), epochs_, own.devices)});
      Plan const& plan = own.plans.back().second;
      if (plan.can_win()) {
        own.least = std::min(own.least, least_of(tried.worker, plan.step.seconds, own.devices));
        own.best =
            tried.worker.replica_devices() > 1 ? std::min(own.best, plan.time.seconds()) : own.best;
      }
    }
  }

  Costs const& costs_;
  EpochCurve const& epochs_;
  WorkerSteps steps_;
  std::vector<Tried> tried_{};
  std::vector<Sought> of_{};
};

}  // namespace detail

/// The best data parallel plan and the best one of workers with more devices, as search_all() of
/// all workers has them for each number of devices, and what else was simulated on the way.
///
/// Each worker has a bound below its step, least_worker_seconds(), and with that one below C: E,
/// the steps of an epoch and failures depend on the numbers of workers and devices alone, and sums
/// of gradients take no time in it. Workers are taken by their bounds; one whose bound is above the
/// best C of the numbers of devices it stands on is not simulated. The bound of a result is the
/// least C there is if sums of gradients are free.
///
/// @param costs    as WorkerSteps
/// @param devices  ascending
/// @param sources  what search_sources() says, if a report is to have it
/// @throws ContractError  as search_plans()
template <class Costs>
[[nodiscard]] SearchResult search_bounded(SearchTask const& task, Costs const& costs,
                                          EpochCurve const& epochs, std::vector<int> const& devices,
                                          SearchSources sources = {}) {
  detail::BoundedSearch<Costs> search{task, costs, epochs, devices};
  SearchResult result = search_all(search.steps(), epochs, {}, std::move(sources));
  result.of = search.result();
  return result;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool fills_stage_by_stage(StrategyValue const& worker) {
  return worker.schedule == OneFOneB::name || worker.schedule == GPipe::name;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double least_worker_seconds(StrategyValue const& worker, CostGraph const& graph) {
  if (worker.asynchrony().on()) {
    return 0;
  }
  std::vector<double> loads = detail::part_times(graph);
  double pass = graph.time();
  for (CostNode const& node : graph.node) {
    double const again = worker.repeats_stages() || worker.checkpoint.every > 0 ? node.forward : 0;
    loads[static_cast<std::size_t>(node.part)] += again;
    pass += again;
  }
  int const stages = worker.cut == CutKind::placed ? 1 : worker.parts;
  if (static_cast<std::size_t>(stages) > loads.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double least = worker.batching.microbatches * pass / worker.replica_devices();
  bool const a_stage_each = stages == worker.devices() && !detail::has_two_copies(worker.schedule);
  if (stages > 1 && a_stage_each) {
    least = std::max(least, worker.batching.microbatches * partition_chain(loads, stages).max_load /
                                worker.tensor);
  }
  if (stages > 1 && detail::fills_stage_by_stage(worker)) {
    least = std::max(least, pass / worker.tensor / worker.batching.chunks *
                                detail::least_filling(stages, worker.batching.passes()));
  }
  return least;
}

}  // namespace tandem

#endif
