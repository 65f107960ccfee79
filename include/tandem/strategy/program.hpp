// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Program: a network, a strategy and an element size lowered to everything that an engine runs.
///
/// Each step is a constexpr variable of its own, and none is a template argument: three variables
/// get three budgets of the compiler, and symbols stay short.

#include <tandem/core/geometry.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/graph/chunks.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/rewrite.hpp>
#include <tandem/graph/spread/rows.hpp>
#include <tandem/graph/spread/tile_plan.hpp>
#include <tandem/graph/spread/wishes.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/cut/relays.hpp>
#include <tandem/strategy/cut/ties.hpp>
#include <tandem/strategy/device_program.hpp>
#include <tandem/strategy/rules.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/layer_wishes.hpp>
#include <tandem/strategy/types/model_parallel.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/strategy/types/spatial_parallel.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>

namespace tandem {

namespace detail {

/// Whether a table has input gradients and weight gradients apart.
template <class Table>
constexpr bool splits_backward(Table const& table) {
  for (int device = 0; device < devices_of(table); ++device) {
    for (Action const& action : row_of(table, device)) {
      if (action.kind == ActionKind::weight_gradient) {
        return true;
      }
    }
  }
  return false;
}

/// How a strategy keeps two models together; only those that train two say so.
template <class S>
constexpr Averaging averaging_of() {
  if constexpr (requires { S::averaging; }) {
    return S::averaging;
  } else {
    return {};
  }
}

/// How an asynchronous strategy trains; the others are silent.
template <class S>
constexpr Asynchrony asynchrony_of() {
  if constexpr (requires { S::asynchrony; }) {
    return S::asynchrony;
  } else {
    return {};
  }
}

/// Whether the devices go on into the next step before an update is known to be right.
template <class S>
constexpr bool validates_behind() {
  if constexpr (requires { S::post_validated; }) {
    return S::post_validated;
  } else if constexpr (requires { typename S::Model; }) {
    return validates_behind<typename S::Model>();
  } else {
    return false;
  }
}

/// A network as it is cut: with relays, where it needs some.
template <class Net, class Cut, bool Needs>
struct RoutedNetwork {
  static constexpr auto const& graph = tandem::graph<Net>;
  static constexpr auto const& partition = Cut::partition;
};
template <class Net, class Cut>
struct RoutedNetwork<Net, Cut, true> {
  static constexpr GraphSize size = relayed_size(tandem::graph<Net>, Cut::partition, Cut::map);
  static constexpr auto made = relayed<size>(tandem::graph<Net>, Cut::partition);
  static constexpr auto const& graph = made.graph;
  static constexpr auto const& partition = made.partition;
};

}  // namespace detail

/// What each rank does, known to the compiler. The mesh says which device of which replica it is.
/// @tparam ElementBytes  of a parameter
/// @tparam R             what the backend wants of the graph
template <class Net, class S, int ElementBytes, Rewrites R = Rewrites{}>
struct Program {
  using Network = Net;
  using Strategy = S;
  using Cut = typename S::template Cut<Net>;
  static constexpr int element_bytes = ElementBytes;
  static constexpr Rewrites rewrites = R;
  static constexpr Batching batching = S::batching;
  static constexpr CheckpointRule checkpoint = S::checkpoint;
  static constexpr Averaging averaging = detail::averaging_of<S>();
  static constexpr Asynchrony asynchrony = detail::asynchrony_of<S>();
  /// Whether devices go on into the next step before an update is known to be right.
  static constexpr bool post_validated = detail::validates_behind<S>();
  static constexpr Mesh mesh = S::mesh;
  static constexpr int ranks = mesh.size();
  static constexpr int devices = mesh.extent(Axis::model);  ///< of one replica of the model
  static constexpr int slices = mesh.extent(Axis::tensor);  ///< ranks that share each device's part
  /// The same ranks, where each has one of these tiles of every image.
  static constexpr Extent2d tiles = detail::tiles_of<S>();
  static constexpr bool has_tiles = tiles.height * tiles.width > 1;
  /// In how many a layer is dealt out that is: each rank has as many. 1: none is.
  static constexpr int layer_slices = has_tiles ? 1
                                      : detail::slices_fit(detail::layer_slices_of<S>, slices)
                                          ? detail::layer_slices_of<S>
                                          : slices;
  /// Whether there are as many replicas as the program is started with; `batching`, `mesh` and
  /// `ranks` are those of one then.
  static constexpr bool any_replicas = detail::takes_any_replicas<S>;
  static constexpr bool several_replicas = any_replicas || batching.replicas > 1;
  /// What a transport is made for.
  static constexpr int transport_ranks = any_replicas ? by_world : ranks;
  static_assert(ranks == S::ranks && devices == S::devices &&
                    batching.replicas == mesh.extent(Axis::data),
                "Program<Net, S>: S::mesh must have S::ranks ranks, S::devices of them along "
                "Axis::model and S::batching.replicas along Axis::data; write S::ranks as "
                "mesh.size()");
  static constexpr auto const& network = tandem::graph<Net>;
  static constexpr auto const& partition = Cut::partition;
  static constexpr auto const& map = Cut::map;
  static constexpr auto const& table = Cut::table;
  /// What is cut: the network, and the relays of values that Let has named.
  using Routed =
      detail::RoutedNetwork<Net, Cut, detail::needs_relays(network, partition.part, map)>;
  /// Parameters that layers share, and the devices that hold them.
  static constexpr auto ties = find_ties<count_ties(network)>(network, partition.part, map);
  /// Whether gradients are GradientRows.
  static constexpr bool has_row_gradients = detail::has_row_gradients(network);
  /// Whether each replica has a part of the optimizer's states alone.
  static constexpr bool sharded_state = batching.sharded_state && batching.replicas > 1;
  /// Whether it has a part of the gradients alone, too.
  static constexpr bool sharded_gradients = batching.sharded_gradients && sharded_state;
  /// And of the parameters.
  static constexpr bool sharded_parameters = batching.sharded_parameters && sharded_state;
  /// Whether steps hand states on.
  static constexpr bool stateful = detail::carries_states(network);
  /// What is said of layers that ranks share. Tables of words stay whole where bits are not to
  /// depend on the ranks, or where one has several slices.
  static constexpr SpreadWishes asked_wishes = [] {
    SpreadWishes asked = detail::wishes_of<S>();
    asked.decided = batching.reproducible || layer_slices > slices;
    return asked;
  }();
  static constexpr SpreadWishes wishes = layer_slices == 1 || network.fault != Fault::none
                                             ? SpreadWishes{}
                                             : decide_tables(network, layer_slices, asked_wishes);
  static constexpr Dealing dealing{.slices = layer_slices,
                                   .own = has_tiles ? 1 : layer_slices / slices,
                                   .apart = batching.reproducible,
                                   .wishes = wishes};
  /// Whether these have their rows of what is whole between the layers that they share.
  static constexpr bool sequence_rows = slices > 1 && detail::deals_rows<S>;
  /// Only then are a stage's gradients compiled apart.
  static constexpr bool splits_backward = detail::splits_backward(table);
  static constexpr detail::BrokenRule broken = detail::broken_rule(
      detail::add_network({.slices = slices,
                           .layer_slices = has_tiles ? 1 : detail::layer_slices_of<S>,
                           .tiles = tiles,
                           .copies = map.copies,
                           .microbatches = batching.microbatches,
                           .chunks = batching.chunks,
                           .asynchronous = asynchrony.on(),
                           .post_validated = post_validated,
                           .keeps_two = averaging.keeps_two(),
                           .reproducible = batching.reproducible,
                           .rounds = batching.wire != WireFormat::exact,
                           .any_replicas = any_replicas,
                           .several_replicas = several_replicas,
                           .asks_sharded_state = batching.sharded_state,
                           .sharded_state = sharded_state,
                           .sharded_gradients = sharded_gradients,
                           .sequence_rows = sequence_rows,
                           .ties_cross = ties.crosses(),
                           .widest_tie = ties.widest()},
                          network, network, asked_wishes, partition.part, map.stages));
  static_assert(detail::RuleHolds<broken.rule, Net, broken.first, broken.second>::value);

  /// What device @p D of each replica does.
  template <int D>
  using Device = DeviceProgram<Program, D>;
};

}  // namespace tandem
