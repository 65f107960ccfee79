// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpTable: the ops of all nodes of a graph, found by index at compile time; those of one type are
/// neighbours, and are made by one loop.

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/rank/node_runs.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

namespace detail {

/// @tparam How  own_op() of a node
template <NodeKind Kind, Dealt How, class Net, class Backend, int LeafIndex>
struct SelectOp;
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, Dealt::whole, Net, Backend, LeafIndex> {
  using type = Op<Leaf<Net, LeafIndex>, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, Dealt::rows, Net, Backend, LeafIndex> {
  using type = Op<typename Leaf<Net, LeafIndex>::without_bias, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, Dealt::embedding, Net, Backend, LeafIndex> {
  using type = Op<WordSlice<Leaf<Net, LeafIndex>>, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, Dealt::vocabulary, Net, Backend, LeafIndex> {
  using type = Op<WordSlice<Leaf<Net, LeafIndex>>, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, Dealt::tiled, Net, Backend, LeafIndex> {
  using type = Op<typename Leaf<Net, LeafIndex>::synchronized, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::exchange, Dealt::whole, Net, Backend, LeafIndex> {
  using type = Op<TileExchange, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::concat, Dealt::whole, Net, Backend, LeafIndex> {
  using type = Op<ConcatJoin, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::add, Dealt::whole, Net, Backend, LeafIndex> {
  using type = Op<AddJoin, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::multiply, Dealt::whole, Net, Backend, LeafIndex> {
  using type = Op<MultiplyJoin, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::bias, Dealt::whole, Net, Backend, LeafIndex> {
  using type = Op<RowBias, Backend>;
};
template <NodeKind Kind, class Net, class Backend, int LeafIndex>
  requires(Node{.kind = Kind}.exchanges_rows())
struct SelectOp<Kind, Dealt::whole, Net, Backend, LeafIndex> {
  using type = NoOp;  // the engine does all that there is to do
};

/// Of a node that computes.
template <class Program, class Backend, int I>
using OpAt =
    typename SelectOp<Program::graph.node[I].kind, own_op(Program::graph.node[I]),
                      typename Program::Network, Backend, Program::graph.node[I].leaf>::type;

/// The ops of one type, in the order of their nodes.
template <class O, int Count>
class OpArray {
 public:
  /// @param setup   of each node of the graph
  /// @param first   of each node: the first one whose op has the same type
  /// @param wanted  of these
  template <class Device>
  OpArray(std::vector<OpSetup> const& setup, int const* first, int wanted, Device& device)
      : OpArray{} {  // whose destructor runs if one cannot be made
    for (std::size_t n = 0; n < setup.size(); ++n) {
      if (first[n] == wanted) {
        make(setup[n], device);
        ++made_;
      }
    }
  }
  OpArray(OpArray const&) = delete;
  OpArray& operator=(OpArray const&) = delete;
  ~OpArray() {
    while (made_ > 0) {
      (*this)[--made_].~O();
    }
  }

  O& operator[](int place) { return *(std::launder(reinterpret_cast<O*>(memory_)) + place); }

 private:
  OpArray() = default;

  // Some ops need no device to be prepared.
  template <class Device>
  TANDEM_COLD void make(OpSetup const& setup, Device& device) {
    void* const place = memory_ + static_cast<std::size_t>(made_) * sizeof(O);
    if constexpr (std::is_constructible_v<O, OpSetup const&, Device&>) {
      ::new (place) O{setup, device};
    } else {
      ::new (place) O{setup};
    }
  }

  alignas(O) std::byte memory_[static_cast<std::size_t>(Count) * sizeof(O)];
  int made_ = 0;
};

/// Those of nodes whose ops have the type of node @p First, which is the first of them.
template <int First, class O, int Count>
struct OpSlot {
  template <class Device>
  OpSlot(std::vector<OpSetup> const& setup, int const* first, Device& device)
      : ops{setup, first, First, device} {}

  TANDEM_COLD void add_needs(int const* first, std::vector<OpNeeds>& needs) {
    int place = 0;
    for (std::size_t n = 0; n < needs.size(); ++n) {
      if (first[n] == First) {
        needs[n] = ops[place++].needs();
      }
    }
  }

  OpArray<O, Count> ops;
};

template <int First, class O, int Count>
OpSlot<First, O, Count>& slot(OpSlot<First, O, Count>& s) {
  return s;
}

template <class Program, class Backend, class Groups>
struct OpSlots;

template <class Program, class Backend, int... G>
struct OpSlots<Program, Backend, std::integer_sequence<int, G...>>
    : OpSlot<op_groups<Program>.list[G], OpAt<Program, Backend, op_groups<Program>.list[G]>,
             op_groups<Program>.size[G]>... {
  template <class Device>
  TANDEM_COLD OpSlots(std::vector<OpSetup> const& setup, Device& device)
      : OpSlot<op_groups<Program>.list[G], OpAt<Program, Backend, op_groups<Program>.list[G]>,
               op_groups<Program>.size[G]>{setup, op_groups<Program>.first, device}... {}

  [[nodiscard]] TANDEM_COLD std::vector<OpNeeds> needs() {
    std::vector<OpNeeds> needs(static_cast<std::size_t>(Program::graph.nodes));
    (slot<op_groups<Program>.list[G]>(*this).add_needs(op_groups<Program>.first, needs), ...);
    return needs;
  }
};

}  // namespace detail

/// Prepared ops of a program, one a node.
template <class Program, class Backend>
class OpTable {
 public:
  /// @param batch  samples in the largest microbatch
  OpTable(int batch, int threads, Slice slice, typename Backend::Device& device)
      : slots_{setups(batch, threads, slice), device} {}

  /// Of node @p n, whose op has the type of node I's.
  /// @pre both compute
  template <int I>
  [[nodiscard]] auto& get(int n) {
    static constexpr auto const& groups = detail::op_groups<Program>;
    return detail::slot<groups.first[I]>(slots_).ops[groups.place[n]];
  }

  [[nodiscard]] TANDEM_COLD std::vector<OpNeeds> needs() { return slots_.needs(); }

 private:
  TANDEM_COLD static std::vector<OpSetup> setups(int batch, int threads, Slice slice) {
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
           .absorbed_bias = absorbed_bias(node),
           .dropout = dropped(node).rate,
           .dropout_index = dropped(node).origin,
           .slice = slice_of(node, slice)});
    }
    return list;
  }
  // Of all slices, where the rank is one of @p ranks that each have as many.
  static Slice slice_of(Node const& node, Slice const& ranks) {
    return {ranks.number * (node.slices / ranks.count) + node.slice, node.slices};
  }
  static int source(Node const& node) { return Program::graph.source[node.first_edge]; }
  static int absorbed_bias(Node const& node) {
    return node.absorbs < 0
               ? 0
               : Program::graph.node[node.absorbs].first_parameter + 1 - node.first_parameter;
  }
  // The dropout that a norm computes; if there is none, a node without a rate.
  static Node const& dropped(Node const& norm) {
    auto const& graph = Program::graph;
    int const first = norm.sums < 0 ? 0 : graph.source[graph.node[norm.sums].first_edge];
    bool const drops = norm.sums >= 0 && graph.node[first].layer == LayerKind::dropout &&
                       graph.node[first].summed_by >= 0;
    static constexpr Node none{};
    return drops ? graph.node[first] : none;
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
  TANDEM_COLD static std::vector<Shape> input_shapes() {
    std::vector<Shape> shapes;
    for (int e = 0; e < Program::graph.edges; ++e) {
      shapes.push_back(Program::graph.node[Program::graph.source[e]].out);
    }
    return shapes;
  }

  detail::OpSlots<Program, Backend,
                  std::make_integer_sequence<int, detail::op_groups<Program>.count>>
      slots_;
};

}  // namespace tandem
