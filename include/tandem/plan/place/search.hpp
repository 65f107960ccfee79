// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PlacementSearch: simulated annealing over the devices of a graph's nodes, judged by the list
/// schedule. Knows nothing of clocks: whoever calls it says how hot it is.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem::detail {

/// Changes that it tries: one node; the end of an edge goes where the other end is; a run of nodes
/// in a chain, or two runs that change places; a range of nodes in which two devices change places.
class PlacementSearch {
 public:
  /// @pre check_placement_task() accepts both; @p graph lives as long as this
  PlacementSearch(CostGraph const& graph, PlacementTask const& task, std::uint32_t seed)
      : graph_{graph},
        task_{task},
        schedule_{graph, task},
        neighbours_{graph},
        random_{seed},
        scale_{graph.time() > 0 ? graph.time() : 1},
        bytes_(graph.node.size()),
        used_(static_cast<std::size_t>(task.devices)) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = bytes_on_device(graph.node[i], task);
    }
  }

  /// Goes on from @p device.
  TANDEM_ONCE void start(std::vector<int> device);

  /// Tries one change. A step that is longer by @p heat times what a node takes on average is
  /// accepted with probability 1/e.
  /// @pre start() was called, on a graph that is not empty and more than one device
  TANDEM_ONCE void move(double heat);

  /// The fastest of those that fit in memory; if none does, that of the least excess.
  [[nodiscard]] std::vector<int> const& best() const { return best_; }
  [[nodiscard]] double best_step() const { return best_step_; }
  /// Bytes that the devices of best() lack.
  [[nodiscard]] double best_excess() const { return best_excess_; }

 private:
  struct Change {
    int node;
    int before;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint32_t>(limit)); }

  TANDEM_ONCE double excess() const;

  // Seconds added where memory lacks, so that a search may pass through such placements.
  double penalty() const {
    double const bytes = excess();
    return bytes > 0 ? scale_ * (0.1 + bytes / (1.0 + static_cast<double>(task_.memory))) : 0;
  }

  TANDEM_ONCE void keep_best(double step);

  void put(int node, int device) {
    used_[device_[node]] -= bytes_[node];
    used_[device] += bytes_[node];
    device_[node] = device;
  }

  TANDEM_ONCE void change(int node, int device);

  int other_device(int device) { return (device + 1 + below(task_.devices - 1)) % task_.devices; }

  TANDEM_ONCE void propose();

  // A node goes where a neighbour is.
  TANDEM_ONCE void move_end_of_edge();

  // The node after it in a chain, or -1.
  int next(int node) const {
    auto const readers = neighbours_.readers(node);
    return readers.size() == 1 && neighbours_.sources(readers[0]).size() == 1 ? readers[0] : -1;
  }
  int previous(int node) const {
    auto const sources = neighbours_.sources(node);
    return sources.size() == 1 && neighbours_.readers(sources[0]).size() == 1 ? sources[0] : -1;
  }

  // The node and those before and after it in its chain, at most so many each way; of those before
  // it, a random number.
  TANDEM_ONCE void move_run(int node, int device, int length);

  TANDEM_ONCE void swap_runs(int a, int b);

  // Two devices change places in a range of nodes.
  TANDEM_ONCE void swap_range(int first, int length);

  CostGraph const& graph_;
  PlacementTask task_;
  ListSchedule schedule_;
  GraphNeighbours neighbours_;
  std::mt19937 random_;
  double scale_;            // seconds of one device
  Numbered<double> bytes_;  // of a node
  Numbered<double> used_;   // of a device
  Numbered<int> device_{};
  std::vector<Change> changes_{};
  double cost_ = 0;
  std::vector<int> best_{};
  double best_step_ = std::numeric_limits<double>::infinity();
  double best_excess_ = std::numeric_limits<double>::infinity();
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void PlacementSearch::start(std::vector<int> device) {
  device_ = std::move(device);
  std::ranges::fill(used_, 0);
  for (std::size_t i = 0; i < device_.size(); ++i) {
    used_[device_[i]] += bytes_[i];
  }
  double const step = schedule_.step(device_);
  cost_ = step + penalty();
  keep_best(step);
}

TANDEM_ONCE void PlacementSearch::move(double heat) {
  changes_.clear();
  propose();
  if (changes_.empty()) {
    return;
  }
  // The threshold is drawn first, so that a schedule can stop when it is beyond it.
  double const limit =
      cost_ - heat * scale_ / graph_.nodes() * std::log((1.0 + below(1 << 30)) / (1 << 30));
  double const fine = penalty();
  double const step = fine > limit ? std::numeric_limits<double>::infinity()
                                   : schedule_.step(device_, limit - fine);
  if (step + fine <= limit) {
    cost_ = step + fine;
    keep_best(step);
  } else {
    std::ranges::reverse(changes_);  // a node may have changed twice
    for (Change const& change : changes_) {
      put(change.node, change.before);
    }
  }
}

TANDEM_ONCE double PlacementSearch::excess() const {
  double sum = 0;
  for (double const used : used_) {
    sum += task_.memory < 0 ? 0 : std::max(0.0, used - static_cast<double>(task_.memory));
  }
  return sum;
}

TANDEM_ONCE void PlacementSearch::keep_best(double step) {
  double const bytes = excess();
  if (std::pair{bytes, step} < std::pair{best_excess_, best_step_}) {
    best_ = device_;
    best_step_ = step;
    best_excess_ = bytes;
  }
}

TANDEM_ONCE void PlacementSearch::change(int node, int device) {
  if (device_[node] != device) {
    changes_.push_back({node, device_[node]});
    put(node, device);
  }
}

TANDEM_ONCE void PlacementSearch::propose() {
  int const node = below(graph_.nodes());  // one draw a statement, in the same order everywhere
  int const kind = below(10);
  int const device = other_device(device_[node]);
  if (kind < 2) {
    change(node, device);
  } else if (kind < 4) {
    move_end_of_edge();
  } else if (kind < 7) {
    move_run(node, device, below(2) == 0 ? 1 : graph_.nodes());
  } else if (kind < 8) {
    move_run(node, device, 1 + below(8));
  } else if (kind < 9) {
    swap_runs(node, below(graph_.nodes()));
  } else {
    swap_range(node, 1 + below(1 + graph_.nodes() / 4));
  }
}

TANDEM_ONCE void PlacementSearch::move_end_of_edge() {
  if (graph_.edge.empty()) {
    return;
  }
  CostEdge const& edge =
      graph_.edge[static_cast<std::size_t>(below(static_cast<int>(graph_.edge.size())))];
  bool const forward = below(2) == 0;
  change(forward ? edge.to : edge.from, device_[forward ? edge.from : edge.to]);
}

TANDEM_ONCE void PlacementSearch::move_run(int node, int device, int length) {
  change(node, device);
  int i = previous(node);
  for (int n = below(length); n > 0 && i >= 0; --n, i = previous(i)) {
    change(i, device);
  }
  i = next(node);
  for (int n = length; n > 1 && i >= 0; --n, i = next(i)) {
    change(i, device);
  }
}

TANDEM_ONCE void PlacementSearch::swap_runs(int a, int b) {
  int const to_a = device_[b];
  int const to_b = device_[a];
  if (to_a != to_b) {
    move_run(a, to_a, graph_.nodes());
    move_run(b, to_b, graph_.nodes());
  }
}

TANDEM_ONCE void PlacementSearch::swap_range(int first, int length) {
  int const a = below(task_.devices);
  int const b = other_device(a);
  for (int i = first; i < std::min(first + length, graph_.nodes()); ++i) {
    if (device_[i] == a || device_[i] == b) {
      change(i, device_[i] == a ? b : a);
    }
  }
}

}  // namespace tandem::detail

#endif
