// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// balance: a cut into consecutive top-level parts of the network that cost about the same.

#include <cstddef>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// What an element of an activation costs besides products, in multiply-accumulates: in a training
/// step it is written and read about six times, 24 bytes in fp32, and devices do about five
/// multiply-accumulates in the time of a byte (a core with AVX2: 48 G/s at 8 GB/s; H200 in fp32:
/// 33 T/s at 4.8 TB/s).
inline constexpr std::int64_t macs_per_activation = 120;

/// Static cost of a node for one sample's training step: backward multiplies twice as much as
/// forward.
constexpr std::int64_t static_cost(Node const& node) {
  bool const stored = !node.is_end() && !node.view;
  return 3 * node.macs + (stored ? macs_per_activation * node.out.elements() : 0);
}

namespace detail {

/// Counts of consecutive items, one a part, such that no cut has a lighter heaviest part; among
/// those, items stand as late as they can, since the first stages of a pipeline hold most
/// activations. Halves the interval of possible weights: items × log2(sum of weights) steps.
/// @param counts  of @p parts
/// @pre 1 <= parts <= items, weights are not negative
constexpr void balance(std::int64_t const* weight, int items, int parts, int* counts) {
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (int i = 0; i < items; ++i) {
    least = weight[i] > least ? weight[i] : least;
    most += weight[i];
  }
  auto const parts_of = [&](std::int64_t limit) {
    int needed = 1;
    std::int64_t sum = 0;
    for (int i = 0; i < items; ++i) {
      needed += sum + weight[i] > limit ? 1 : 0;
      sum = sum + weight[i] > limit ? weight[i] : sum + weight[i];
    }
    return needed;
  };
  while (least < most) {
    std::int64_t const middle = least + (most - least) / 2;
    if (parts_of(middle) <= parts) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  int left = items;
  for (int part = parts - 1; part >= 0; --part) {
    std::int64_t sum = 0;
    counts[part] = 0;
    while (left > part && (counts[part] == 0 || sum + weight[left - 1] <= most)) {
      sum += weight[--left];
      ++counts[part];
    }
  }
}

}  // namespace detail

/// How many top-level parts each of @p Parts parts has.
template <int Parts>
struct TopCounts {
  int of[static_cast<std::size_t>(Parts)] = {};
};

/// The cut whose costliest part is cheapest. @pre Parts <= graph.tops
/// @param counts  of each part, to be filled
constexpr void balance_tops(GraphView graph, int tops, int parts, int* counts) {
  detail::Scratch<std::int64_t> cost{tops};
  for (int n = 0; n < graph.nodes; ++n) {
    cost[graph.node[n].top] += static_cost(graph.node[n]);
  }
  detail::balance(cost.data(), tops, parts, counts);
}
template <int Parts, GraphSize Size>
constexpr TopCounts<Parts> balanced_tops(Graph<Size> const& graph) {
  TopCounts<Parts> counts;
  balance_tops(graph, graph.tops, Parts, counts.of);
  return counts;
}

}  // namespace tandem
