// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// graph<Net>: a network type lowered to its Graph at compile time.
///
/// Two passes of one walk over the type: the first counts parameters, the second fills the arrays.

#include <tandem/graph/check.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_builder.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/graph/part_counts.hpp>

namespace tandem {

namespace detail {

template <class Input>
inline constexpr int input_count = 1;
template <class A, class B>
inline constexpr int input_count<Inputs<A, B>> = 2;

template <bool Keep, GraphSize Size, class Net, class Input>
constexpr auto walk_network() {
  constexpr bool has_second = input_count<Input> == 2;
  GraphBuilder<Graph<Size>, Keep> builder;
  Node input{.kind = NodeKind::input, .in = Input::shape, .out = Input::shape};
  input.name = "Input";
  if constexpr (requires { Input::limit; }) {
    input.limit = Input::limit;
  }
  if (!input.out.valid()) {
    builder.fail(Fault::no_input, input.out.rank, 0);
  }
  builder.add(input, {});
  if constexpr (has_second) {
    Shape shape = Input::second::shape;
    shape.clock = 1;
    Node second{.kind = NodeKind::input, .limit = Input::second::limit, .in = shape, .out = shape};
    second.input = 1;
    second.name = "Input";
    builder.inputs = 2;
    builder.add(second, {});
  }
  int const end = builder.walk(0, static_cast<typename Net::body const*>(nullptr));
  builder.graph.tops = builder.graph.tops > 0 ? builder.graph.tops : 1;
  if (has_second || builder.lets > 0) {
    builder.check_read(end);
  }
  return builder;
}

// Each step a variable of its own: each has the compiler's whole budget.
template <class Net, class Input>
struct LowerNetwork {
  static constexpr GraphSize parts =
      CountParts::of(static_cast<typename Net::body const*>(nullptr));
  static constexpr auto counted =
      walk_network<false, GraphSize{parts.nodes + input_count<Input>, parts.edges, 0}, Net,
                   Input>();
  static constexpr auto graph =
      walk_network<true,
                   GraphSize{parts.nodes + input_count<Input>, parts.edges, counted.parameters},
                   Net, Input>()
          .graph;
};

}  // namespace detail

/// The graph of @p Net on inputs of type @p Input; not checked, so that a fault can be looked at.
template <class Net, class Input = typename Net::input>
inline constexpr auto const& unchecked_graph = detail::LowerNetwork<Net, Input>::graph;

/// The graph of a network: `static_assert(graph<Net>.parameter_elements() == 6'166'250)`.
/// A network that cannot be is a compile error that says which layer and why.
template <class Net, class Input = typename Net::input>
inline constexpr auto const& graph = detail::CheckedGraph<Net, unchecked_graph<Net, Input>>::graph;

}  // namespace tandem
