// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CountParts: how many nodes and edges a network type has.

#include <tandem/graph/graph.hpp>
#include <tandem/graph/network.hpp>

namespace tandem::detail {

// Nodes and edges that a part adds; independent of shapes.
struct CountParts {
  template <Layer L>
  static constexpr GraphSize of(L const*) {
    return {1, 1, 0};
  }
  template <class... Parts>
    requires FewParts<Parts...>
  static constexpr GraphSize of(Sequential<Parts...> const*) {
    return sum({0, 0, 0}, of(static_cast<Parts const*>(nullptr))...);
  }
  template <class... Branches>
  static constexpr GraphSize of(Concat<Branches...> const*) {
    return sum({1, sizeof...(Branches), 0}, of(static_cast<Branches const*>(nullptr))...);
  }
  template <class... Branches>
  static constexpr GraphSize of(Multiply<Branches...> const*) {
    return sum({1, sizeof...(Branches), 0}, of(static_cast<Branches const*>(nullptr))...);
  }
  template <class Rule, class... Branches>
    requires JoinsBranches<Rule, Branches...>
  static constexpr GraphSize of(Join<Rule, Branches...> const*) {
    return sum({1, sizeof...(Branches), 0}, of(static_cast<Branches const*>(nullptr))...);
  }
  template <class Body, class Shortcut>
  static constexpr GraphSize of(Residual<Body, Shortcut> const*) {
    return sum({1, 2, 0}, of(static_cast<Body const*>(nullptr)),
               of(static_cast<Shortcut const*>(nullptr)));
  }
  template <int Count, class Part>
  static constexpr GraphSize of(Repeat<Count, Part> const*) {
    constexpr GraphSize one = of(static_cast<Part const*>(nullptr));
    return {Count * one.nodes, Count * one.edges, 0};
  }
  template <class Body>
  static constexpr GraphSize of(Frozen<Body> const*) {
    return of(static_cast<Body const*>(nullptr));
  }
  template <int Index>
  static constexpr GraphSize of(Input<Index> const*) {
    return {};
  }
  template <class Tag>
  static constexpr GraphSize of(Let<Tag> const*) {
    return {};
  }
  template <class Tag>
  static constexpr GraphSize of(Use<Tag> const*) {
    return {};
  }
  static constexpr GraphSize of(void const*) { return {}; }  // no part: has its sentence

 private:
  template <class... Sizes>
  static constexpr GraphSize sum(GraphSize total, Sizes... sizes) {
    for (GraphSize const& size : {GraphSize{}, sizes...}) {
      total = {total.nodes + size.nodes, total.edges + size.edges,
               total.parameters + size.parameters};
    }
    return total;
  }
};

}  // namespace tandem::detail
