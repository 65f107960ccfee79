// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A model's graph against a published table: parameters, work and shape of its top-level layers.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <tandem/graph/graph.hpp>

namespace tandem::test {

/// What the nodes of one top-level part have together.
struct TopSums {
  std::int64_t parameters = 0;
  std::int64_t macs = 0;
  Shape out{};
};

template <class G>
TopSums sums_of_top(G const& g, int top) {
  TopSums sums;
  for (int n = 1; n < g.nodes; ++n) {
    Node const& node = g.node[n];
    if (node.top != top) {
      continue;
    }
    sums.macs += node.macs;
    sums.out = node.out;
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      Parameter const& parameter = g.parameter[p].parameter;
      sums.parameters += parameter.role == Role::weight ? parameter.shape.elements() : 0;
    }
  }
  return sums;
}

/// How often a layer or join of this name stands in a graph.
template <class G>
int count_nodes(G const& g, std::string_view name) {
  return static_cast<int>(std::count_if(std::begin(g.node), std::end(g.node),
                                        [&](Node const& n) { return n.name == name; }));
}

/// Rows of a table of top-level layers, millions of multiply-accumulates with two digits.
struct TopRow {
  std::int64_t parameters;
  double mega_macs;
  Shape out;
};

template <class G, std::size_t N>
void check_tops(G const& g, TopRow const (&rows)[N]) {
  REQUIRE(g.tops == static_cast<int>(N));
  int top = 0;
  for (TopRow const& row : rows) {
    CAPTURE(top);
    TopSums const sums = sums_of_top(g, top++);
    CHECK(sums.parameters == row.parameters);
    CHECK(std::abs(static_cast<double>(sums.macs) / 1e6 - row.mega_macs) <= 0.00501);
    CHECK(sums.out == row.out);
  }
}

}  // namespace tandem::test
