// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ChosenProgram: what a rank is made of where the strategy is chosen at start and the network is a
/// type: tables of a RuntimeProgram, and ops for whatever a strategy makes of the network's layers.

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/prepare/runtime_program.hpp>
#include <tandem/engine/rank/make_rank.hpp>
#include <tandem/engine/rank/op_list.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

namespace detail {

/// In which form a rank computes a layer.
enum class OpForm : std::uint8_t {
  whole,
  phased,  ///< all of it, and joins with other replicas
  rows,    ///< a slice of its inputs
  words,   ///< a slice of its words
  tiled,   ///< a tile of each image, and joins with the other tiles
  count
};

/// A device that has all layers, with each node that a rewrite of the backend gives an op.
template <class Net, class Backend>
struct WholeDevice {
  using Network = Net;
  static constexpr bool several_replicas = false;
  static constexpr auto graph = [] {
    if constexpr (rewrites_of<Backend>().channels_last) {
      return materialise_flatten(tandem::graph<Net>);
    } else {
      return tandem::graph<Net>;
    }
  }();
  static constexpr auto gives_input_gradient = input_gradients(graph);
};

template <class O, class Backend, OpForm Form, Wanted W>
constexpr OpFactory<Backend> factory_in_form() {
  constexpr bool joins = requires { typename O::ForwardPhases; };
  constexpr bool phased = joins && Form != OpForm::whole;
  static_assert(sizeof(O) > 0);  // a layer without kernels says so here, in few lines
  return make_op<O, Backend, OpCalls{.way = phased ? OpWay::phased : OpWay::whole, .wanted = W}>;
}

/// The factories of one group of nodes, one a form; null: there is no such form of the layer.
template <class Device, class Backend, int G>
constexpr std::array<OpFactory<Backend>, static_cast<std::size_t>(OpForm::count)> factories_of() {
  constexpr int n = op_groups<Device>.first[G];
  constexpr Wanted wanted = op_groups<Device>.calls[G].wanted;
  constexpr Node const& node = Device::graph.node[n];
  using Own = typename decltype(select_op<Device, Backend, n>())::type;
  std::array<OpFactory<Backend>, static_cast<std::size_t>(OpForm::count)> made{};
  auto const put = [&](OpForm form, OpFactory<Backend> factory) {
    made[static_cast<std::size_t>(form)] = factory;
  };
  put(OpForm::whole, factory_in_form<Own, Backend, OpForm::whole, wanted>());
  if constexpr (requires { typename Own::ForwardPhases; }) {
    put(OpForm::phased, factory_in_form<Own, Backend, OpForm::phased, wanted>());
  }
  if constexpr (node.kind == NodeKind::layer) {
    constexpr int leaf = node.leaf;
    using L = Leaf<typename Device::Network, leaf>;
    constexpr bool words =
        node.layer == LayerKind::embedding || node.layer == LayerKind::vocabulary;
    if constexpr (requires { typename L::without_bias; }) {
      using O = Op<typename L::without_bias, Backend>;
      put(OpForm::rows, factory_in_form<O, Backend, OpForm::rows, wanted>());
    }
    if constexpr (words && node.parameters > 0) {
      put(OpForm::words,
          factory_in_form<Op<WordSlice<L>, Backend>, Backend, OpForm::words, wanted>());
    }
    if constexpr (requires { typename L::synchronized; }) {
      using O = Op<typename L::synchronized, Backend>;
      put(OpForm::tiled, factory_in_form<O, Backend, OpForm::tiled, wanted>());
    }
  }
  return made;
}

/// Factories of a network's ops in all forms, group by group; behind them those of nodes that the
/// network has
/// not: RowBias, TileExchange and AddJoin, which also adds the slices of a rank that has several.
template <class Net, class Backend, class Groups>
struct ChosenFactories;
template <class Net, class Backend, int... G>
struct ChosenFactories<Net, Backend, std::integer_sequence<int, G...>> {
  using Device = WholeDevice<Net, Backend>;
  static constexpr int forms = static_cast<int>(OpForm::count);
  static constexpr auto of = [] {
    std::array<OpFactory<Backend>, sizeof...(G) * forms + 3> all{};
    std::size_t next = 0;
    auto const add = [&](auto const& own) {
      for (OpFactory<Backend> const factory : own) {
        all[next++] = factory;
      }
    };
    (add(factories_of<Device, Backend, G>()), ...);
    all[next++] = make_op<Op<RowBias, Backend>, Backend, OpCalls{.wanted = Wanted::weight}>;
    all[next++] = make_op<Op<TileExchange, Backend>, Backend,
                          OpCalls{.way = OpWay::exchange, .wanted = Wanted::input}>;
    all[next] = make_op<Op<AddJoin, Backend>, Backend, OpCalls{}>;
    return all;
  }();
};

/// Which of the factories makes the op of a node of a device's graph, or -1: it has none.
/// @param group   of each node of the network
/// @param groups  of nodes
TANDEM_ONCE int factory_of(Node const& node, int const* group, int groups, bool several_replicas);

/// @param mixed  parameters are kept a second time, rounded
/// @throws ContractError  the backend's one rank for all strategies lacks what these tables ask for
TANDEM_ONCE void check_chosen(DeviceTables const& tables, bool mixed);

}  // namespace detail

/// Not copied: what it gives refers to it.
template <class Net, class Backend, class Loss, class Metric>
class ChosenProgram {
 public:
  using Target = typename Loss::Target;

  /// @throws ContractError  RuntimeProgram does
  TANDEM_COLD explicit ChosenProgram(StrategyValue value)
      : tables_{graph<Net>, graph<Net>.tops, std::move(value), rewrites_of<Backend>(),
                static_cast<int>(sizeof(typename Backend::Master))} {
    detail::check_chosen(tables_.device(0), RankMemory<Backend>::mixed);
    for (int d = 0; d < tables_.devices(); ++d) {
      devices_.push_back(std::make_unique<OneDevice>(tables_.device(d)));
    }
  }
  ChosenProgram(ChosenProgram const&) = delete;
  ChosenProgram& operator=(ChosenProgram const&) = delete;

  [[nodiscard]] RuntimeProgram const& tables() const { return tables_; }
  [[nodiscard]] RankProgram<Backend, Target> const& device(int d) const {
    return devices_[static_cast<std::size_t>(d)]->program;
  }

 private:
  using Whole = detail::WholeDevice<Net, Backend>;
  static constexpr int groups = detail::op_groups<Whole>.count;
  using Factories = detail::ChosenFactories<Net, Backend, std::make_integer_sequence<int, groups>>;

  struct OneDevice {
    TANDEM_COLD explicit OneDevice(DeviceTables const& tables)
        : ops{Factories::of.data(), nullptr},
          program{tables, ops, criterion_type<Loss, Metric, Backend>(graph<Net>.output().out)} {
      for (int n = 0; n < tables.graph.nodes; ++n) {
        Node const& node = tables.graph.node[n];
        int const own =
            detail::factory_of(node, detail::op_groups<Whole>.of, groups, tables.several_replicas);
        bool const of_layer = own >= 0 && own < groups * Factories::forms;
        expects(
            own < 0 || Factories::of[static_cast<std::size_t>(own)] != nullptr,
            "AnyStrategy: a layer has no kernels for its part under this strategy; take another "
            "strategy");
        expects(!of_layer || graph<Net>.node[node.origin].kind == node.kind,
                "AnyStrategy: a node of the strategy's own has no op");
        group.push_back(own);
      }
      ops.group = group.data();
    }

    std::vector<int> group;  // of each node: its factory
    OpTypes<Backend> ops;
    RankProgram<Backend, Target> program;
  };

  RuntimeProgram tables_;
  std::vector<std::unique_ptr<OneDevice>> devices_;
};

/// The rank that is device @p d of its replica.
template <class Batch, class Communicator, class Net, class Backend, class Loss, class Metric>
TANDEM_COLD std::unique_ptr<RankInterface<Batch>> make_chosen_rank(
    ChosenProgram<Net, Backend, Loss, Metric> const& program, int d, RankOptions const& options,
    RankEnds<Communicator> const& ends) {
  RuntimeProgram const& tables = program.tables();
  DeviceTables const& device = tables.device(d);
  Batching const batching = batching_with(device, options.microbatches, options.replicas);
  ActionRows const& rows = options.rows != nullptr ? *options.rows : tables.cut().table;
  RankPlan plan = device.places.rule.on() ? make_asynchronous_plan(device, batching)
                                          : make_rank_plan(device, rows, batching);
  using Core = RankCore<Backend, Communicator, shared_rank_way<Communicator>()>;
  return construct_rank<Rank<Core, Batch>, Batch>(program.device(d), std::move(plan), options,
                                                  ends);
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_chosen(DeviceTables const& tables, bool mixed) {
  expects(tables.batching.wire == WireFormat::exact,
          "AnyStrategy: Wire<E> is of a strategy that is a type; write the strategy as a type, or "
          "leave Wire out");
  expects(!mixed || (tables.places.count() == 1 && !tables.post_validated),
          "AnyStrategy: there is one copy of rounded parameters, so that no update can be taken "
          "back and no version be kept; take a backend of one precision, or another schedule");
}

TANDEM_ONCE int factory_of(Node const& node, int const* group, int groups, bool several_replicas) {
  constexpr int forms = static_cast<int>(OpForm::count);
  if (!node.computes() || node.exchanges_rows()) {
    return -1;
  }
  if (node.kind == NodeKind::bias) {
    return groups * forms;
  }
  if (node.kind == NodeKind::exchange) {
    return groups * forms + 1;
  }
  if (node.kind == NodeKind::add) {
    return groups * forms + 2;
  }
  Dealt const own = op_of(node);
  bool const words = own == Dealt::embedding || own == Dealt::vocabulary;
  OpForm const form = own == Dealt::rows                           ? OpForm::rows
                      : words                                      ? OpForm::words
                      : own == Dealt::tiled                        ? OpForm::tiled
                      : phase_rule(node, several_replicas).joins() ? OpForm::phased
                                                                   : OpForm::whole;
  return group[node.origin] * forms + static_cast<int>(form);
}

}  // namespace tandem::detail

#endif
