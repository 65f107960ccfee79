// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Branches: which nodes of a graph may be computed at the same time, as those of an Inception
/// module; and a stream for each.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// Nodes [first, last) behind a fork and before the join of what comes of it: chains of which none
/// reads or writes what another does.
struct BranchRegion {
  int first = 0;
  int last = 0;
  int branches = 0;  ///< that compute something
};

/// The regions of a graph, the outermost of those that stand within another; at run time and at
/// compile time. A join is any node of several inputs, its fork the last node that all ways to it
/// come through. A region is of one stage and of one run that is computed again, and joins nothing
/// with other ranks. Where merged convolutions are its only tie, it begins behind them.
class Branches {
 public:
  int count = 0;
  detail::Scratch<BranchRegion> region;
  detail::Scratch<int> first;   ///< of a node: the first of its region; itself, if it is in none
  detail::Scratch<int> last;    ///< the last one
  detail::Scratch<int> branch;  ///< in the order of their first nodes; -1: it is in none
  detail::Scratch<int> stream;  ///< whose kernels run in order; 0: with all that is in no region

  /// @param streams  that there are; with 1 there are regions, and nothing runs at the same time
  /// @param segment  of each node: its run of nodes that is computed again; null: none is
  constexpr Branches(GraphView graph, int streams, int const* segment = nullptr)
      : region{graph.nodes},
        first{graph.nodes},
        last{graph.nodes},
        branch{graph.nodes, -1},
        stream{graph.nodes} {
    for (int n = 0; n < graph.nodes; ++n) {
      first[n] = last[n] = n;
    }
    find(graph, segment);
    for (int r = 0; r < count; ++r) {
      share_out(graph, region[r], std::max(streams, 1));
    }
  }

  /// Whether a node is in a region, begins or ends it.
  [[nodiscard]] constexpr bool inside(int n) const { return branch[n] >= 0; }
  [[nodiscard]] constexpr bool begins(int n) const { return inside(n) && first[n] == n; }
  [[nodiscard]] constexpr bool ends(int n) const { return inside(n) && last[n] == n; }
  /// Whether nothing orders two nodes.
  [[nodiscard]] constexpr bool apart(int a, int b) const {
    return inside(a) && inside(b) && first[a] == first[b] && stream[a] != stream[b];
  }

 private:
  constexpr void find(GraphView graph, int const* segment) {
    detail::Scratch<int> before{graph.nodes,
                                -1};           // the last node that all ways to one come through
    detail::Scratch<bool> leads{graph.nodes};  // computes what stands in other nodes, too
    for (int n = 0; n < graph.nodes; ++n) {
      Node const& node = graph.node[n];
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        int a = graph.source[e];
        int b = e == node.first_edge ? a : before[n];
        while (a != b) {
          int& later = a > b ? a : b;
          later = before[later];
        }
        before[n] = a;
      }
      if (node.fusion.merged) {
        leads[node.fusion.home] = true;
      }
    }
    detail::Scratch<int> part{graph.nodes};
    for (int join = graph.nodes - 1; join > 0; --join) {
      if (graph.node[join].edges < 2 || inside(join)) {
        continue;
      }
      BranchRegion best{};
      for (int begin = before[join] + 1; begin < join; ++begin) {
        if (begin == before[join] + 1 || leads[begin - 1]) {
          int const parts = divide(graph, segment, begin, join, part);
          best = parts > best.branches ? BranchRegion{begin, join, parts} : best;
        }
      }
      if (best.branches > 1) {
        divide(graph, segment, best.first, best.last, part);
        take(best, part);
      }
    }
  }

  // Puts nodes [begin, end) into the fewest parts between which there is no edge, each known by its
  // first node. @return how many of them compute; 0: they may not run beside one another
  static constexpr int divide(GraphView graph, int const* segment, int begin, int end,
                              detail::Scratch<int>& part) {
    auto const root = [&](int n) {
      while (part[n] != n) {
        n = part[n];
      }
      return n;
    };
    for (int n = begin; n < end; ++n) {
      Node const& node = graph.node[n];
      bool const together = node.stage == graph.node[begin].stage && !node.synchronizes &&
                            !node.is_end() && (segment == nullptr || segment[n] == segment[begin]);
      if (!together) {
        return 0;
      }
      part[n] = n;
      auto const tie = [&](int other) {
        if (other >= begin && other < end) {
          int const a = root(n);
          int const b = root(other);
          part[std::max(a, b)] = std::min(a, b);
        }
      };
      for (int e = node.first_edge; e < node.first_edge + node.edges && !node.fusion.merged; ++e) {
        tie(graph.source[e]);
      }
      tie(node.fusion.home < n ? node.fusion.home : -1);
      tie(node.fusion.absorbs);
      tie(node.fusion.activated_by);
      tie(node.fusion.sums);
    }
    for (int n = begin; n < end; ++n) {  // a placed join within: those that write into it
      int const home = graph.node[n].fusion.home;
      if (home > n && home < end) {
        int const a = root(n);
        int const b = root(home);
        part[std::max(a, b)] = std::min(a, b);
      }
    }
    int computing = 0;
    for (int p = begin; p < end; ++p) {
      bool computes = false;
      for (int n = p; n < end && !computes; ++n) {
        computes = graph.node[n].computes() && root(n) == p;
      }
      computing += computes ? 1 : 0;
    }
    return computing;
  }

  constexpr void take(BranchRegion const& own, detail::Scratch<int>& part) {
    int parts = 0;
    for (int n = own.first; n < own.last; ++n) {
      int p = n;
      while (part[p] != p) {
        p = part[p];
      }
      branch[n] = p == n ? parts++ : branch[p];
      first[n] = own.first;
      last[n] = own.last - 1;
    }
    region[count++] = own;
  }

  // The longest branch first, each to the stream that has least to do.
  constexpr void share_out(GraphView graph, BranchRegion const& own, int streams) {
    int const nodes = own.last - own.first;
    detail::Scratch<std::int64_t> work{nodes};
    detail::Scratch<std::int64_t> load{streams};
    for (int n = own.first; n < own.last; ++n) {
      Node const& node = graph.node[n];
      work[branch[n]] += node.computes() ? 1 + node.macs + node.out.elements() : 0;
    }
    for (int turn = 0; turn < nodes; ++turn) {
      int longest = 0;
      for (int b = 1; b < nodes; ++b) {
        longest = work[b] > work[longest] ? b : longest;
      }
      int least = 0;
      for (int s = 1; s < streams; ++s) {
        least = load[s] < load[least] ? s : least;
      }
      if (work[longest] == 0) {
        break;
      }
      load[least] += work[longest];
      work[longest] = 0;
      for (int n = own.first; n < own.last; ++n) {
        stream[n] = branch[n] == longest ? least : stream[n];
      }
    }
  }
};

}  // namespace tandem
