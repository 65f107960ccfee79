// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpTable: the ops of all nodes of a graph, each of its own type, found by index at compile time.

#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/graph/leaves.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

namespace detail {

/// Inputs, views and what another node's op does compute nothing.
struct NoOp {
  explicit NoOp(OpSetup const&) {}
  [[nodiscard]] static OpNeeds needs() { return {}; }
};

template <NodeKind Kind, bool Computes, class Net, class Backend, int LeafIndex>
struct SelectOp {
  using type = NoOp;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, true, Net, Backend, LeafIndex> {
  using type = Op<Leaf<Net, LeafIndex>, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::concat, true, Net, Backend, LeafIndex> {
  using type = Op<ConcatJoin, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::add, true, Net, Backend, LeafIndex> {
  using type = Op<AddJoin, Backend>;
};

template <class Program, class Backend, int I>
using OpAt =
    typename SelectOp<Program::graph.node[I].kind, Program::graph.node[I].computes(),
                      typename Program::Network, Backend, Program::graph.node[I].leaf>::type;

template <int I, class O>
struct OpSlot {
  template <class Device>
  OpSlot(OpSetup const& setup, Device& device) : op{make(setup, device)} {}

  // Some ops need no device to be prepared.
  template <class Device>
  static O make(OpSetup const& setup, Device& device) {
    if constexpr (std::is_constructible_v<O, OpSetup const&, Device&>) {
      return O{setup, device};
    } else {
      return O{setup};
    }
  }

  O op;
};

template <int I, class O>
O& slot(OpSlot<I, O>& s) {
  return s.op;
}

template <class Program, class Backend, class Indices>
struct OpSlots;

template <class Program, class Backend, int... I>
struct OpSlots<Program, Backend, std::integer_sequence<int, I...>>
    : OpSlot<I, OpAt<Program, Backend, I>>... {
  template <class Device>
  OpSlots(std::vector<OpSetup> const& setup, Device& device)
      : OpSlot<I, OpAt<Program, Backend, I>>{setup[static_cast<std::size_t>(I)], device}... {}

  [[nodiscard]] std::vector<OpNeeds> needs() { return {slot<I>(*this).needs()...}; }
};

}  // namespace detail

/// Prepared ops of a program, one a node.
template <class Program, class Backend>
class OpTable {
 public:
  /// @param batch  samples in the largest microbatch
  OpTable(int batch, int threads, typename Backend::Device& device)
      : slots_{setups(batch, threads), device} {}

  template <int I>
  [[nodiscard]] auto& get() {
    return detail::slot<I>(slots_);
  }

  [[nodiscard]] std::vector<OpNeeds> needs() { return slots_.needs(); }

 private:
  static std::vector<OpSetup> setups(int batch, int threads) {
    static std::vector<Shape> const inputs = input_shapes();
    std::vector<OpSetup> list;
    for (int n = 0; n < Program::graph.nodes; ++n) {
      Node const& node = Program::graph.node[n];
      list.push_back(
          {.node = node,
           .index = node.origin,
           .inputs = inputs.data() + node.first_edge,
           .batch = batch,
           .threads = threads,
           .wants_input_gradient = gives_input_gradient(Program::graph, n),
           .reproducible = Program::batching.reproducible,
           .x_stride = node.edges > 0 ? stored_channels(Program::graph, source(node)) : 0,
           .y_stride = stored_channels(Program::graph, n),
           .merged = merged_into(n),
           .absorbed_bias = absorbed_bias(node)});
    }
    return list;
  }
  static int source(Node const& node) { return Program::graph.source[node.first_edge]; }
  static int absorbed_bias(Node const& node) {
    return node.absorbs < 0
               ? 0
               : Program::graph.node[node.absorbs].first_parameter + 1 - node.first_parameter;
  }
  static MergedOutputs merged_into(int leader) {
    Node const& first = Program::graph.node[leader];
    MergedOutputs merged{.count = 0};
    for (int n = leader; n < Program::graph.nodes; ++n) {
      Node const& node = Program::graph.node[n];
      if (n == leader || (node.merged && node.home == leader)) {
        merged.channels[merged.count] = node.out[0];
        merged.parameter[merged.count++] = node.first_parameter - first.first_parameter;
      }
    }
    return merged;
  }
  static std::vector<Shape> input_shapes() {
    std::vector<Shape> shapes;
    for (int e = 0; e < Program::graph.edges; ++e) {
      shapes.push_back(Program::graph.node[Program::graph.source[e]].out);
    }
    return shapes;
  }

  detail::OpSlots<Program, Backend, std::make_integer_sequence<int, Program::graph.nodes>> slots_;
};

}  // namespace tandem
