// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpTable: the ops of all nodes of a graph, each of its own type, found by index at compile time.

#include <utility>
#include <vector>

#include <tandem/graph/leaves.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

namespace detail {

/// Inputs and views compute nothing.
struct NoOp {
  explicit NoOp(OpSetup const&) {}
  [[nodiscard]] static OpNeeds needs() { return {}; }
};

template <NodeKind Kind, bool View, class Net, class Backend, int LeafIndex>
struct SelectOp {
  using type = NoOp;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, false, Net, Backend, LeafIndex> {
  using type = Op<Leaf<Net, LeafIndex>, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::concat, false, Net, Backend, LeafIndex> {
  using type = Op<ConcatJoin, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::add, false, Net, Backend, LeafIndex> {
  using type = Op<AddJoin, Backend>;
};

template <class Program, class Backend, int I>
using OpAt =
    typename SelectOp<Program::graph.node[I].kind, Program::graph.node[I].view,
                      typename Program::Network, Backend, Program::graph.node[I].leaf>::type;

template <int I, class O>
struct OpSlot {
  explicit OpSlot(OpSetup const& setup) : op{setup} {}
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
  explicit OpSlots(std::vector<OpSetup> const& setup)
      : OpSlot<I, OpAt<Program, Backend, I>>{setup[static_cast<std::size_t>(I)]}... {}

  [[nodiscard]] std::vector<OpNeeds> needs() { return {slot<I>(*this).needs()...}; }
};

}  // namespace detail

/// Prepared ops of a program, one a node.
template <class Program, class Backend>
class OpTable {
 public:
  /// @param batch  samples in the largest microbatch
  OpTable(int batch, int threads) : slots_{setups(batch, threads)} {}

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
      list.push_back({node, n, inputs.data() + node.first_edge, batch, threads});
    }
    return list;
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
