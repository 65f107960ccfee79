// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_same: a graph of sizes known at run time beside that of the type, for what planners read.

#include <doctest/doctest.h>

#include <tandem/graph/graph_view.hpp>

namespace tandem::test {

/// All but types, initial values, and what backends' rewrites look at.
inline void check_same(GraphView a, GraphView b) {
  REQUIRE(a.nodes == b.nodes);
  REQUIRE(a.edges == b.edges);
  REQUIRE(a.parameters == b.parameters);
  CHECK(a.result == b.result);
  for (int n = 0; n < a.nodes; ++n) {
    Node const& x = a.node[n];
    Node const& y = b.node[n];
    CAPTURE(n);
    CHECK(x.kind == y.kind);
    CHECK(x.layer == y.layer);
    CHECK(x.name == y.name);
    CHECK(to_string(x.path) == to_string(y.path));
    CHECK(x.top == y.top);
    CHECK((x.in == y.in && x.out == y.out));
    CHECK(x.macs == y.macs);
    CHECK((x.kept.known == y.kept.known && x.kept.input == y.kept.input &&
           x.kept.output == y.kept.output && x.kept.scalars == y.kept.scalars &&
           x.kept.numbers == y.kept.numbers && x.kept.sums == y.kept.sums));
    CHECK(x.kept.arrays == y.kept.arrays);
    CHECK(x.needs_gradient == y.needs_gradient);
    CHECK((x.sequence.carried.c == y.sequence.carried.c &&
           x.sequence.carried.h == y.sequence.carried.h));
    CHECK((x.sequence.hands_on.c == y.sequence.hands_on.c &&
           x.sequence.hands_on.h == y.sequence.hands_on.h));
    CHECK((x.sequence.in_chunks == y.sequence.in_chunks &&
           x.sequence.hands_back == y.sequence.hands_back));
    CHECK(x.sharing.columns.each == y.sharing.columns.each);
    CHECK((x.sharing.columns.in == y.sharing.columns.in &&
           x.sharing.columns.out == y.sharing.columns.out));
    CHECK((x.named == y.named && x.input == y.input && x.rate == y.rate));
    CHECK(x.criterion == y.criterion);
    CHECK(x.limit == y.limit);
    CHECK(x.first_edge == y.first_edge);
    CHECK(x.edges == y.edges);
    CHECK(x.parameters == y.parameters);
    CHECK((x.parameters == 0 || x.first_parameter == y.first_parameter));
  }
  for (int e = 0; e < a.edges; ++e) {
    CHECK(a.source[e] == b.source[e]);
    CHECK(a.edge_origin[e] == b.edge_origin[e]);
  }
  for (int p = 0; p < a.parameters; ++p) {
    CAPTURE(p);
    CHECK(parameter_name(a, p) == parameter_name(b, p));
    CHECK(a.parameter[p].parameter.shape == b.parameter[p].parameter.shape);
    CHECK(a.parameter[p].node == b.parameter[p].node);
    CHECK(a.parameter[p].parameter.touched == b.parameter[p].parameter.touched);
    CHECK(a.parameter[p].owner() == b.parameter[p].owner());
  }
}

}  // namespace tandem::test
