// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpList: the prepared ops of a device's nodes; OpTypes: how they are made, of which only the
/// types are compiled for each network.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/rank/prepared_op.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Each node's op, or null: inputs, views, and nodes whose work another node's op or the engine
/// itself does, have none.
template <class Backend>
using OpList = std::vector<OpPointer<Backend>>;

namespace detail {

/// own_op() of a node; `tiled` of one that joins statistics with other tiles.
constexpr Dealt op_of(Node const& node) {
  return node.joins_tiles() ? Dealt::tiled : own_op(node.sharing.dealt);
}

/// The type of the op of node @p N, which has one.
template <class Device, class Backend, int N>
constexpr auto select_op() {
  constexpr Node const& node = Device::graph.node[N];
  constexpr Dealt own = op_of(node);
  if constexpr (node.kind == NodeKind::exchange) {
    return std::type_identity<Op<TileExchange, Backend>>{};
  } else if constexpr (node.kind == NodeKind::concat) {
    return std::type_identity<Op<ConcatJoin, Backend>>{};
  } else if constexpr (node.kind == NodeKind::add) {
    return std::type_identity<Op<AddJoin, Backend>>{};
  } else if constexpr (node.kind == NodeKind::multiply) {
    return std::type_identity<Op<MultiplyJoin, Backend>>{};
  } else if constexpr (node.kind == NodeKind::bias) {
    return std::type_identity<Op<RowBias, Backend>>{};
  } else {
    constexpr int leaf = node.leaf;
    using Own = Leaf<typename Device::Network, leaf>;
    if constexpr (own == Dealt::rows) {
      return std::type_identity<Op<typename Own::without_bias, Backend>>{};
    } else if constexpr (own == Dealt::embedding || own == Dealt::vocabulary) {
      return std::type_identity<Op<WordSlice<Own>, Backend>>{};
    } else if constexpr (own == Dealt::tiled) {
      return std::type_identity<Op<typename Own::synchronized, Backend>>{};
    } else {
      return std::type_identity<Op<Own, Backend>>{};
    }
  }
}

/// How node @p n of @p Device is called.
template <class Device>
constexpr OpCalls calls_of(int n) {
  Node const& node = Device::graph.node[n];
  bool const phased = phase_rule(node, Device::several_replicas).joins();
  return {.way = node.kind == NodeKind::exchange ? OpWay::exchange
                 : phased                        ? OpWay::phased
                                                 : OpWay::whole,
          .wanted = wanted_of(node, Device::gives_input_gradient.of[n])};
}

/// The nodes of a graph by the types of their ops.
template <int Nodes>
struct OpGroups {
  int of[static_cast<std::size_t>(Nodes)] = {};     ///< of a node: its group, or -1: it has no op
  int count = 0;                                    ///< groups
  int first[static_cast<std::size_t>(Nodes)] = {};  ///< of a group: its first node
  OpCalls calls[static_cast<std::size_t>(Nodes)] = {};  ///< of a group: of all its nodes
};

template <class Device>
constexpr auto group_ops() {
  constexpr auto const& graph = Device::graph;
  OpGroups<graph.nodes> groups;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    groups.of[n] = -1;
    if (!node.computes() || node.exchanges_rows()) {
      continue;
    }
    OpCalls const calls = calls_of<Device>(n);
    int g = 0;
    for (; g < groups.count; ++g) {
      Node const& other = graph.node[groups.first[g]];
      if (other.kind == node.kind && other.identity == node.identity &&
          op_of(other) == op_of(node) && groups.calls[g].way == calls.way) {
        break;
      }
    }
    if (g == groups.count) {
      groups.first[groups.count++] = n;
      groups.calls[g] = calls;
    }
    groups.of[n] = g;
    groups.calls[g].wanted = groups.calls[g].wanted | calls.wanted;
  }
  return groups;
}

/// Worked out once a program.
template <class Device>
inline constexpr auto op_groups = group_ops<Device>();

template <class Device, class Backend, int G>
constexpr OpFactory<Backend> op_factory() {
  using Own = typename decltype(select_op<Device, Backend, op_groups<Device>.first[G]>())::type;
  static_assert(sizeof(Own) > 0);  // a layer without kernels says so here, in few lines
  return make_op<Own, Backend, op_groups<Device>.calls[G]>;
}

template <class Device, class Backend, class Groups>
struct OpFactories;
template <class Device, class Backend, int... G>
struct OpFactories<Device, Backend, std::integer_sequence<int, G...>> {
  static constexpr OpFactory<Backend> of[] = {op_factory<Device, Backend, G>()..., nullptr};
};

}  // namespace detail

/// How the ops of a device's nodes are made.
template <class Backend>
struct OpTypes {
  OpFactory<Backend> const* make;  ///< of a group of nodes
  int const* group;                ///< of each node, or -1: it has no op
};

template <class Device, class Backend>
inline constexpr OpTypes<Backend> op_types{
    detail::OpFactories<Device, Backend,
                        std::make_integer_sequence<int, detail::op_groups<Device>.count>>::of,
    detail::op_groups<Device>.of};

/// What the ops of all nodes are prepared for; @p inputs has the shapes of the graph's edges.
/// @param batch  samples in the largest microbatch
TANDEM_ONCE TANDEM_COLD std::vector<OpSetup> op_setups(DeviceTables const& tables,
                                                       std::vector<Shape> const& inputs, int batch,
                                                       int threads, Slice const& slice);

/// Prepares the ops of all nodes.
/// @param slice  of layers that several ranks share, the rank's
template <class Backend>
TANDEM_COLD OpList<Backend> make_ops(DeviceTables const& tables, OpTypes<Backend> const& types,
                                     int batch, int threads, Slice const& slice,
                                     typename Backend::Device& device) {
  std::vector<Shape> inputs;
  for (int e = 0; e < tables.graph.edges; ++e) {
    inputs.push_back(tables.graph.node[tables.graph.source[e]].out);
  }
  OpList<Backend> ops;
  int n = 0;
  for (OpSetup const& setup : op_setups(tables, inputs, batch, threads, slice)) {
    Node const& node = tables.graph.node[n];
    int stage = 0;
    while (tables.stages[static_cast<std::size_t>(stage)].last <= n) {
      ++stage;
    }
    PhaseRule const rule = phase_rule(node, tables.several_replicas, stage);
    int const group = types.group[n++];
    ops.push_back(group < 0 ? nullptr : types.make[group](setup, device, rule));
  }
  return ops;
}

/// The memory that each node's op wants.
template <class Backend>
TANDEM_COLD std::vector<OpNeeds> op_needs(OpList<Backend> const& ops) {
  std::vector<OpNeeds> needs;
  for (OpPointer<Backend> const& op : ops) {
    needs.push_back(op == nullptr ? OpNeeds{} : op->needs());
  }
  return needs;
}

/// Scratch memory of the greediest pass.
TANDEM_ONCE std::int64_t most_scratch(std::vector<OpNeeds> const& needs);
/// Room for gradients that wait until their bucket is whole: for all of them, up to a size at which
/// nothing more is won.
TANDEM_ONCE std::int64_t staged_bytes(std::vector<OpNeeds> const& needs);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

namespace detail {

// The dropout that a norm computes; if there is none, a node without a rate.
TANDEM_ONCE Node const& dropped(GraphView graph, Node const& norm) {
  int const sum = norm.fusion.sums;
  int const first = sum < 0 ? 0 : graph.source[graph.node[sum].first_edge];
  bool const drops = sum >= 0 && graph.node[first].layer == LayerKind::dropout &&
                     graph.node[first].fusion.summed_by >= 0;
  static constexpr Node none{};
  return drops ? graph.node[first] : none;
}

TANDEM_ONCE MergedOutputs merged_into(GraphView graph, int leader) {
  Node const& first = graph.node[leader];
  MergedOutputs merged{.count = 0};
  for (int n = leader; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (n == leader || (node.fusion.merged && node.fusion.home == leader)) {
      merged.channels[merged.count] = node.out[0];
      merged.parameter[merged.count++] = node.first_parameter - first.first_parameter;
    }
  }
  return merged;
}

}  // namespace detail

TANDEM_ONCE std::vector<OpSetup> op_setups(DeviceTables const& tables,
                                           std::vector<Shape> const& inputs, int batch, int threads,
                                           Slice const& slice) {
  GraphView const& graph = tables.graph;
  std::vector<OpSetup> list;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    Sharing const& own = node.sharing;
    int const absorbs = node.fusion.absorbs;
    Node const& dropped = detail::dropped(graph, node);
    list.push_back(
        {.node = node,
         .index = node.origin,
         .inputs = inputs.data() + node.first_edge,
         .batch = batch,
         .threads = threads,
         .wants_input_gradient = gives_input_gradient(graph, n),
         .reproducible = tables.batching.reproducible,
         .x_stride = node.edges > 0 ? stored_channels(graph, graph.source[node.first_edge]) : 0,
         .y_stride = stored_channels(graph, n),
         .merged = detail::merged_into(graph, n),
         .absorbed_bias =
             absorbs < 0 ? 0 : graph.node[absorbs].first_parameter + 1 - node.first_parameter,
         .dropout = dropped.rate,
         .dropout_index = dropped.origin,
         // A rank that has several slices counts all slices of all ranks.
         .slice = {slice.number * (own.slices / slice.count) + own.slice, own.slices}});
  }
  return list;
}

TANDEM_ONCE std::int64_t most_scratch(std::vector<OpNeeds> const& needs) {
  std::int64_t most = 0;
  for (OpNeeds const& need : needs) {
    most = std::max(most, need.scratch_bytes);
  }
  return most;
}

TANDEM_ONCE std::int64_t staged_bytes(std::vector<OpNeeds> const& needs) {
  constexpr std::int64_t enough = std::int64_t{32} << 20;
  std::int64_t most = 0;
  std::int64_t all = 0;
  for (OpNeeds const& need : needs) {
    most = std::max(most, need.staged_bytes);
    all += need.staged_bytes;
  }
  return std::max(most, std::min(all, enough));
}

}  // namespace tandem

#endif
