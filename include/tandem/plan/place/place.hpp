// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// place_graph: the device of each node of a dataflow graph, so that a step is short. A search, not
/// a proof: only small graphs are placed as well as the list schedule allows.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/place/chain_groups.hpp>
#include <tandem/plan/place/critical_path.hpp>
#include <tandem/plan/place/greedy.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/place/search.hpp>

namespace tandem {

/// How long place_graph() searches.
struct PlaceOptions {
  double seconds = 10;     ///< by the clock, unless moves are given
  std::uint32_t seed = 1;  ///< of the random changes that are tried
  long moves = -1;         ///< how many changes; the result is then the same every time; -1: by the
                           ///< clock
};

namespace detail {

/// How much of a search is done, from 0 to 1.
class SearchBudget {
 public:
  explicit SearchBudget(PlaceOptions const& options)
      : seconds_{options.seconds}, moves_{options.moves} {}

  /// To be called before each move.
  TANDEM_ONCE double spend();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_;
  long moves_;
  long done_ = 0;
};

TANDEM_ONCE void check_memory(CostGraph const& graph, PlacementTask const& task);

/// Whether there are so few placements that all can be tried; the first node stays on device 0,
/// since all devices are alike.
inline bool has_few_placements(CostGraph const& graph, PlacementTask const& task) {
  return (graph.nodes() - 1) * std::log2(task.devices) <= 14;
}

/// Heat of a search, in mean times of a node, while the budget's share goes from begin to end.
struct Cooling {
  double begin;
  double end;
  double hottest;
  double coldest;
};

/// First the groups of chains, from hot to cold, then the nodes, from warm to cold. The heat was
/// chosen on a graph of Inception-V3 (2 devices, 25 and 50 GB/s, 300,000 moves, 2 seeds), whose
/// mean speedup it moves by less than 0.01 where it is half or twice as much.
TANDEM_ONCE void search_placement(CostGraph const& graph, PlacementTask const& task,
                                  SearchBudget& budget, double bound, std::uint32_t seed,
                                  PlacementSearch& search);

}  // namespace detail

/// Places @p graph: all nodes on one device, a greedy placement, and simulated annealing from
/// there; never slower than one device, if that has the memory. Of up to 2^14 placements (15 nodes
/// on 2 devices) the best. `step` is what schedule_step() says, to within rounding.
///
/// Cost: options.seconds, or O((V + E) log V) for each of options.moves; less where the bound is
///       met.
/// @throws ContractError  a number is out of range, or nothing fits in memory
TANDEM_ONCE [[nodiscard]] GraphPlacement place_graph(CostGraph const& graph,
                                                     PlacementTask const& task,
                                                     PlaceOptions const& options = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_memory(CostGraph const& graph, PlacementTask const& task) {
  double sum = 0;
  for (CostNode const& node : graph.node) {
    double const bytes = bytes_on_device(node, task);
    sum += bytes;
    if (task.memory >= 0 && bytes > static_cast<double>(task.memory)) {
      throw ContractError{"place_graph: node '" + node.name + "' needs " +
                          std::to_string(std::llround(bytes)) + " bytes, a device has " +
                          std::to_string(task.memory) + "; use a smaller batch"};
    }
  }
  if (task.memory >= 0 && sum > static_cast<double>(task.memory) * task.devices) {
    throw ContractError{"place_graph: the nodes need " + std::to_string(std::llround(sum)) +
                        " bytes, " + std::to_string(task.devices) + " devices have " +
                        std::to_string(task.memory) + " each; use more devices or a smaller batch"};
  }
}

TANDEM_ONCE void try_all(CostGraph const& graph, PlacementTask const& task,
                         PlacementSearch& search) {
  std::vector<int> device(graph.node.size());
  for (std::size_t i = 0; i < device.size();) {
    search.start(device);
    for (i = 1; i < device.size() && ++device[i] == task.devices; ++i) {
      device[i] = 0;
    }
  }
}

/// Ends early where the bound is met.
TANDEM_ONCE void anneal(PlacementSearch& search, SearchBudget& budget, Cooling const& cooling,
                        double bound) {
  auto const met = [&] {
    return search.best_excess() == 0 && search.best_step() <= bound * (1 + 1e-12);
  };
  for (double share = 0; !met() && (share = budget.spend()) < cooling.end;) {
    double const progress = std::max(0.0, share - cooling.begin) / (cooling.end - cooling.begin);
    search.move(cooling.hottest * std::pow(cooling.coldest / cooling.hottest, progress));
  }
}

TANDEM_ONCE void search_placement(CostGraph const& graph, PlacementTask const& task,
                                  SearchBudget& budget, double bound, std::uint32_t seed,
                                  PlacementSearch& search) {
  ChainGroups const groups{graph};
  PlacementSearch coarse{groups.graph, task, seed};
  coarse.start(place_greedy(groups.graph, task));
  anneal(coarse, budget, {0, 0.5, 1, 0.01}, bound);
  search.start(groups.devices(coarse.best()));
  anneal(search, budget, {0.5, 1, 0.3, 0.01}, bound);
}

TANDEM_ONCE double SearchBudget::spend() {
  long const done = done_++;
  if (moves_ >= 0) {
    return moves_ == 0 ? 1 : static_cast<double>(done) / static_cast<double>(moves_);
  }
  std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - start_;
  return elapsed.count() < seconds_ ? elapsed.count() / seconds_ : 1;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE GraphPlacement place_graph(CostGraph const& graph, PlacementTask const& task,
                                       PlaceOptions const& options) {
  detail::check_placement_task(graph, task);
  expects(options.seconds >= 0, "PlaceOptions: .seconds must be at least 0");
  expects(options.moves >= -1, "PlaceOptions: .moves must be at least 0, or -1 for .seconds");
  detail::check_memory(graph, task);
  detail::SearchBudget budget{options};  // what follows is of its time
  double const bound = step_lower_bound(graph, task);
  detail::PlacementSearch search{graph, task, options.seed};
  std::vector<int> const one(graph.node.size());
  search.start(one);
  bool const one_fits = search.best_excess() == 0;
  search.start(detail::place_greedy(graph, task));
  if (detail::has_few_placements(graph, task)) {
    detail::try_all(graph, task, search);
  } else {
    detail::search_placement(graph, task, budget, bound, options.seed, search);
  }
  if (search.best_excess() > 0) {
    throw ContractError{"place_graph: no placement was found in which each of " +
                        std::to_string(task.devices) + " devices holds at most " +
                        std::to_string(task.memory) + " bytes, the best exceeds that by " +
                        std::to_string(std::llround(search.best_excess())) +
                        "; search longer, use more devices or a smaller batch"};
  }
  double const all = graph.time();
  if (one_fits && search.best_step() > all * (1 - 1e-12)) {  // less is rounding
    return {one, all, std::min(bound, all)};
  }
  return {search.best(), search.best_step(), std::min(bound, search.best_step())};
}

}  // namespace tandem

#endif
