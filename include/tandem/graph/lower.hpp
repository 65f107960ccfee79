// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// graph<Net>: a network type lowered to its Graph at compile time.
///
/// Two passes of one walk over the type: the first counts parameters, the second fills the arrays.

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_builder.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/graph/network.hpp>

namespace tandem {

namespace detail {

// Where the layers do not fit: the type at fault, its node in the graph, and the two numbers that
// do not meet are template arguments, so that the compiler prints them. `value` is always true: the
// sentence stays the only error.
template <Fault Why, class Where, int NodeIndex, int A, int B>
struct NetworkIsSound {
  static constexpr bool value = true;
  static_assert(
      Why != Fault::no_input,
      "the network's input has no elements: give positive numbers, as in Image<3, 32, 32>");
  static_assert(Why != Fault::rejected,
                "this layer does not accept its input: output(Shape) gave no shape");
  static_assert(Why != Fault::not_an_image,
                "this layer wants an image (C, H, W), but its input is a vector: put it before "
                "GlobalAvgPool, Flatten or Linear");
  static_assert(Why != Fault::not_a_vector,
                "Linear wants a vector: put GlobalAvgPool or Flatten before it");
  static_assert(
      Why != Fault::window_too_large,
      "the kernel is larger than its padded input: use a smaller kernel, more padding, or "
      "fewer strides before it");
  static_assert(Why != Fault::all_padding,
                "ConvTranspose2d: Padding leaves out all of the output; use less");
  static_assert(
      Why != Fault::groups,
      "the channels must be a multiple of the groups: a convolution's input and output, and "
      "a GroupNorm's input");
  static_assert(Why != Fault::padding, "a pool's padding must be at most half of its kernel");
  static_assert(Why != Fault::border,
                "Pad2d: the padding of Reflect must be smaller than the image's height and width, "
                "that of Circular at most as large; pad less, or use Replicate");
  static_assert(Why != Fault::concat_shapes,
                "Concat: every branch must give the same height and width");
  static_assert(Why != Fault::multiply_shapes,
                "Multiply: every branch must give the same shape; end a gate with as many channels "
                "as what it is for");
  static_assert(Why != Fault::residual_shapes,
                "Residual: body and shortcut must give the same shape; put a 1x1 Conv2d with the "
                "body's stride and channels on the shortcut");
  static_assert(Why != Fault::join_shapes,
                "Join: its rule does not join outputs of these shapes; an ElementJoin wants two of "
                "the same");
  static_assert(Why != Fault::channels,
                "Subsample2d: a shortcut cannot drop channels; give at least as many as its input "
                "has");
  static_assert(Why != Fault::not_tokens,
                "Embedding wants indices: make it the first layer of a Network<Tokens<T, V>, ...>");
  static_assert(Why != Fault::indices,
                "this layer wants numbers, but its input are the network's Tokens: put an "
                "Embedding before it");
  static_assert(Why != Fault::not_timed,
                "this layer wants a sequence (T, C): begin the network with Tokens<T, V> and an "
                "Embedding");
  static_assert(Why != Fault::a_sequence,
                "GroupNorm wants an image or a vector: LayerNorm and RmsNorm are for sequences");
  static_assert(Why != Fault::heads,
                "the channels of a row must be a multiple of its heads: Attention<Heads, "
                "KeyHeads<K>> wants (Heads + 2 K) D of them, and Heads a multiple of K");
  static_assert(Why != Fault::no_second_input,
                "Input<1>: this network has one input; write Network<Inputs<Tokens<T, V>, "
                "Tokens<T, V>>, Body>");
  static_assert(Why != Fault::unread,
                "a value of the network is read by no layer: join it with a Concat or a Residual, "
                "or leave out what makes it");
  static_assert(
      Why != Fault::no_let,
      "Use<Tag>: no Let<Tag> stands before it; put one behind the part whose output it is "
      "to read");
  static_assert(
      Why != Fault::let_twice,
      "Let<Tag>: this tag has named a value before; give each value a tag of its own, and "
      "none inside a Repeat");
  static_assert(Why != Fault::many_lets, "Let<Tag>: a network may name at most 32 values");
  static_assert(Why != Fault::clocks,
                "the parts that meet here are of different times, since each input has one of its "
                "own: let a layer that takes several inputs read them, or MeanOverTime or LastRow "
                "take the time away first");
  static_assert(Why != Fault::not_last,
                "a layer that gives the loss, such as Vocabulary, must be the network's last");
  static_assert(Why != Fault::no_owner,
                "Shares<W>: W must stand before it in the network, as a layer type of its own: "
                "struct W : Embedding<V, C> {};");
  static_assert(Why != Fault::shared_shapes,
                "Shares<W>: the weight of W has another shape; a Vocabulary<V, Shares<W>> on C "
                "channels shares an Embedding<V, C>");
  static_assert(Why != Fault::shared_frozen,
                "Shares<W>: one of both is Frozen and the other is trained; freeze both");
};

template <class Net, int LeafIndex>
struct FaultyPart {
  using type = Leaf<Net, LeafIndex>;
};
template <class Net>
struct FaultyPart<Net, -1> {
  using type = Net;  // no fault, or that of a join: the network itself is named
};

// `graph` stands before the assert, so that it is there also where that fails.
template <class Net, auto const& G>
struct CheckedGraph {
  static constexpr auto const& graph = G;
  using Where =
      typename FaultyPart<Net, G.fault <= Fault::reported ? -1 : G.node[G.fault_node].leaf>::type;
  static_assert(NetworkIsSound<G.fault, Where, G.fault_node, G.fault_a, G.fault_b>::value);
};

}  // namespace detail

}  // namespace tandem

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
