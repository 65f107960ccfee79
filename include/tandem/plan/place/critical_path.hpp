// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// critical_path, step_lower_bound: what no placement of a dataflow graph is faster than.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem {

/// Seconds of the longest path through the graph, forward and backward: a step on as many devices
/// as there are nodes, with transfers that take no time.
///
/// Cost:   O(nodes + edges).
/// @throws ContractError  a number of the graph is out of range
TANDEM_ONCE [[nodiscard]] double critical_path(CostGraph const& graph);

namespace detail {

// What @p sink needs, and itself.
TANDEM_ONCE CostGraph sources_of(CostGraph const& graph, int sink);

}  // namespace detail

/// Seconds that no placement and no order of a step goes below, but for rounding: at least the
/// critical path and the work shared by all devices, and more where the graph narrows to one op.
/// Memory and waiting for links are left out.
///
/// With several sinks, such as an auxiliary classifier, also the bound of what each needs alone,
/// which narrows in more places: leaving out nodes that no other reads makes no step longer.
///
/// Cost:   O((nodes + edges) sinks), of so many sinks as that is some millions.
/// @throws ContractError  a number of the graph or the task is out of range
/// Source: the bounds of Graham 1969, applied to each window between two cuts.
TANDEM_ONCE [[nodiscard]] double step_lower_bound(CostGraph const& graph,
                                                  PlacementTask const& task);

}  // namespace tandem

namespace tandem::detail {

/// Of V nodes: op i is the forward of node i, op 2 V - 1 - i its backward, so that an op waits only
/// for ops of lower index. Transfers are no ops, and devices play no part.
struct StepOps {
  Numbered<double> time{};
  Numbered<std::vector<int>> before{};  ///< the ops that each waits for itself
  Numbered<std::vector<int>> after{};

  explicit StepOps(CostGraph const& graph)
      : time(2 * graph.node.size()), before(time.size()), after(time.size()) {
    for (int i = 0; i < graph.nodes(); ++i) {
      CostNode const& node = graph.node[static_cast<std::size_t>(i)];
      time[i] = node.forward;
      time[backward(i)] = node.backward;
      connect(i, backward(i));
    }
    for (CostEdge const& edge : graph.edge) {
      connect(edge.from, edge.to);
      connect(backward(edge.to), backward(edge.from));
    }
  }

  [[nodiscard]] int ops() const { return static_cast<int>(time.size()); }
  [[nodiscard]] int backward(int node) const { return ops() - 1 - node; }
  [[nodiscard]] int node(int op) const { return op < ops() / 2 ? op : backward(op); }

 private:
  void connect(int from, int to) {
    before[to].push_back(from);
    after[from].push_back(to);
  }
};

/// Seconds that the output of a node, or its gradient, takes from one device to another.
inline double transfer_time(CostNode const& node, PlacementTask const& task) {
  return task.latency + static_cast<double>(node.output_bytes) / task.bandwidth;
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

// The bound of one graph. A cut is an op that every other op runs before or after. What lies
// between two cuts, a window, runs alone, between the end of one and the begin of the other: the
// step takes at least the cuts' time and what each window takes by itself.
class StepBound {
 public:
  StepBound(CostGraph const& graph, PlacementTask const& task)
      : graph_{graph},
        task_{task},
        ops_{graph},
        window_(ops_.time.size(), left_out),
        head_(ops_.time.size()),
        tail_(ops_.time.size()) {
    leave_out_idle();
    find_cuts();
  }

  double seconds() {
    double sum = 0;
    int previous = none;
    std::vector<int> inside;
    for (int i = 0; i < ops_.ops(); ++i) {
      if (cut_[i] != 0) {
        sum += seconds_of(inside, previous, i) + ops_.time[i];
        inside.clear();
        previous = i;
      } else if (window_[i] != left_out) {
        window_[i] = previous;
        inside.push_back(i);
      }
    }
    return sum + seconds_of(inside, previous, none);
  }

 private:
  static constexpr int none = -1;
  static constexpr int cut_or_later = -2;
  static constexpr int left_out = -3;

  // Leaves out ops of no duration before or behind which there are only such. No path between two
  // others leads through them, so the others wait for each other as before.
  void leave_out_idle() {
    Numbered<char> first(ops_.time.size());
    Numbered<char> last(ops_.time.size());
    for (int i = 0; i < ops_.ops(); ++i) {
      first[i] = ops_.time[i] == 0;
      for (int const p : ops_.before[i]) {
        first[i] = first[i] != 0 && first[p] != 0;
      }
    }
    for (int i = ops_.ops(); i-- > 0;) {
      last[i] = ops_.time[i] == 0;
      for (int const s : ops_.after[i]) {
        last[i] = last[i] != 0 && last[s] != 0;
      }
      window_[i] = first[i] != 0 || last[i] != 0 ? left_out : cut_or_later;
    }
  }

  // All later ops come after op i if each of them waits for i itself or for one later than i: that
  // one comes after i by induction. In the same way for all earlier ones.
  void find_cuts() {
    cut_.resize(ops_.time.size());
    int latest = none;  // of the earlier ops, the latest of their first followers
    for (int i = 0; i < ops_.ops(); ++i) {
      if (window_[i] != left_out) {
        cut_[i] = latest <= i;
        int follower = ops_.ops();
        for (int const s : ops_.after[i]) {
          follower = window_[s] != left_out ? std::min(follower, s) : follower;
        }
        latest = std::max(latest, follower);
      }
    }
    int earliest = ops_.ops();  // of the later ops, the earliest of the last that they wait for
    for (int i = ops_.ops(); i-- > 0;) {
      if (window_[i] != left_out) {
        cut_[i] = cut_[i] != 0 && earliest >= i;
        int leader = none;
        for (int const p : ops_.before[i]) {
          leader = window_[p] != left_out ? std::max(leader, p) : leader;
        }
        earliest = std::min(earliest, leader);
      }
    }
  }

  // Of the window between two cuts. Either one device runs all of it, or its devices share its
  // work; then some op is not on the device of the cut before, and something is sent on the way
  // from there to this op; in the same way for the cut behind. The least over all that can be sent,
  // with the longest way to it and from it, is a bound.
  double seconds_of(std::vector<int> const& inside, int previous, int next) {
    double work = 0;
    double longest = 0;
    for (std::size_t at = inside.size(); at-- > 0;) {
      int const i = inside[at];
      tail_[i] = 0;
      for (int const s : ops_.after[i]) {
        tail_[i] = std::max(tail_[i], tail_[s]);  // behind the window it is still 0
      }
      tail_[i] += ops_.time[i];
      work += ops_.time[i];
      longest = std::max(longest, tail_[i]);
    }
    double const never = std::numeric_limits<double>::infinity();
    double from_previous = previous == none ? 0 : never;  // to where something is sent
    double to_next = next == none ? 0 : never;
    for (int const i : inside) {
      head_[i] = 0;
      for (int const p : ops_.before[i]) {
        bool const in_window = window_[p] == previous;
        head_[i] = std::max(head_[i], in_window ? head_[p] : 0);
        if (in_window || p == previous) {
          double const way = (in_window ? head_[p] : 0) + sending(p, i) + tail_[i];
          from_previous = std::min(from_previous, way);
          to_next = in_window ? std::min(to_next, way) : to_next;
        }
      }
      head_[i] += ops_.time[i];
    }
    if (next != none) {
      for (int const p : ops_.before[next]) {
        if (window_[p] == previous) {
          to_next = std::min(to_next, head_[p] + sending(p, next));
        }
      }
    }
    double const shared = std::max({longest, work / task_.devices, from_previous, to_next});
    return task_.devices == 1 ? work : std::min(work, shared);
  }

  // Of what goes from one op to the next: an output, or a gradient; forever within one node.
  double sending(int from, int to) const {
    int const node = ops_.node(from);
    int const other = ops_.node(to);
    return node == other
               ? std::numeric_limits<double>::infinity()
               : transfer_time(graph_.node[static_cast<std::size_t>(std::min(node, other))], task_);
  }

  CostGraph const& graph_;
  PlacementTask const& task_;
  StepOps ops_;
  Numbered<int> window_;   // of an op: the cut before it
  Numbered<char> cut_{};   // whether it is one
  Numbered<double> head_;  // the longest way through its window up to its end
  Numbered<double> tail_;  // and from its begin
};

TANDEM_ONCE CostGraph sources_of(CostGraph const& graph, int sink) {
  GraphNeighbours const neighbours{graph};
  Numbered<int> place(graph.node.size(), -1);
  place[sink] = 0;
  for (int i = sink; i > 0; --i) {
    for (int const source : neighbours.sources(i)) {
      place[source] = place[i] >= 0 ? 0 : place[source];
    }
  }
  CostGraph result;
  for (int i = 0; i <= sink; ++i) {
    if (place[i] >= 0) {
      place[i] = result.nodes();
      result.node.push_back(graph.node[static_cast<std::size_t>(i)]);
    }
  }
  for (CostEdge const& edge : graph.edge) {
    if (place[edge.to] >= 0) {
      result.edge.push_back({place[edge.from], place[edge.to]});
    }
  }
  return result;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double critical_path(CostGraph const& graph) {
  detail::check_placement_task(graph, {});
  detail::Numbered<double> rest(graph.node.size());  // of the paths that begin behind a node
  auto const time = [&](int i) { return graph.node[static_cast<std::size_t>(i)].time(); };
  double longest = 0;
  detail::GraphNeighbours const neighbours{graph};
  for (int i = graph.nodes(); i-- > 0;) {
    for (int const reader : neighbours.readers(i)) {
      rest[i] = std::max(rest[i], time(reader) + rest[reader]);
    }
    longest = std::max(longest, time(i) + rest[i]);
  }
  return longest;
}

TANDEM_ONCE double step_lower_bound(CostGraph const& graph, PlacementTask const& task) {
  detail::check_placement_task(graph, task);
  double bound = detail::StepBound{graph, task}.seconds();
  detail::GraphNeighbours const neighbours{graph};
  std::size_t sinks = 1 + 5'000'000 / (graph.node.size() + graph.edge.size() + 1);
  for (int i = graph.nodes(); i-- > 0 && sinks > 0;) {  // from the last, which needs most
    if (neighbours.readers(i).empty()) {
      --sinks;
      bound = std::max(bound, detail::StepBound{detail::sources_of(graph, i), task}.seconds());
    }
  }
  return bound;
}

}  // namespace tandem

#endif
