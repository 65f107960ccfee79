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
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/layer_wishes.hpp>
#include <tandem/strategy/types/model_parallel.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/strategy/types/spatial_parallel.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>

namespace tandem {

namespace detail {

constexpr bool synchronizes_statistics(GraphView graph) {
  bool any = false;
  for (int n = 0; n < graph.nodes; ++n) {
    any = any || graph.node[n].synchronizes;
  }
  return any;
}

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

/// Whether a layer of @p graph is Stateful.
constexpr bool carries_states(GraphView graph) {
  bool any = false;
  for (int n = 0; n < graph.nodes; ++n) {
    any = any || graph.node[n].sequence.carried.any();
  }
  return any;
}

/// Trained parameters whose gradients are GradientRows.
constexpr bool has_row_gradients(GraphView graph) {
  bool any = false;
  for (int p = 0; p < graph.parameters; ++p) {
    any = any || (graph.parameter[p].parameter.touched.sparse() && !graph.parameter[p].frozen);
  }
  return any;
}

/// Whether some layer shares one of these.
constexpr bool shares_row_gradients(GraphView graph) {
  bool any = false;
  for (int p = 0; p < graph.parameters; ++p) {
    int const owner = graph.parameter[p].shared;
    any = any || (owner >= 0 && !graph.parameter[p].frozen &&
                  (graph.parameter[p].parameter.touched.sparse() ||
                   graph.parameter[owner].parameter.touched.sparse()));
  }
  return any;
}

template <bool Shared, bool IsAsynchronous, bool HasTwoCopies>
struct RowGradientsAreSound {
  static constexpr bool value = true;
  static_assert(!Shared,
                "Shares<W> with RowGradient: the weight that both layers share has one gradient, "
                "and the other layer's is dense; leave RowGradient out");
  static_assert(Shared || !IsAsynchronous,
                "RowGradient in an asynchronous pipeline: its stages keep several versions of all "
                "weights; leave RowGradient out, or take a synchronous schedule");
  static_assert(Shared || IsAsynchronous || !HasTwoCopies,
                "RowGradient where each device has parts of two copies of the model (Chimera, "
                "DualPipe, CrossModelParallel): whole arrays of gradients or weights are added "
                "there; leave RowGradient out, or take another schedule");
};

template <bool Sharded, bool AnyReplicas, bool HasRows, bool HasTwoCopies>
struct ShardedStateIsSound {
  static constexpr bool value = true;
  static_assert(!Sharded || !AnyReplicas,
                "DataParallel<by_world, ShardedState>: the compiler deals the optimizer's states, "
                "so write how many replicas there are, DataParallel<N, ShardedState>");
  static_assert(!HasRows,
                "ShardedState with RowGradient: a step changes the states of some rows only, "
                "wherever they are; leave RowGradient or ShardedState out");
  static_assert(HasRows || !HasTwoCopies,
                "ShardedState where a replica has two copies of the model (Chimera, DualPipe, "
                "CrossModelParallel): a device may have both of a part; leave ShardedState out, or "
                "take another schedule");
};

template <bool Rounds, bool IsReordered>
struct ShardedGradientsAreSound {
  static constexpr bool value = true;
  static_assert(!Rounds,
                "ShardedGradients with Wire<E>: rounded gradients would take the memory that it "
                "spares; leave Wire out, or take ShardedState");
  static_assert(Rounds || !IsReordered,
                "ShardedGradients with Reproducible<> and several microbatches a replica: each is "
                "added up over the replicas before the next, where Reproducible<> adds those of a "
                "replica first; take one microbatch a replica, or ShardedState");
};

template <bool Carries, bool IsAsynchronous>
struct StatesAreSound {
  static constexpr bool value = true;
  static_assert(!Carries || !IsAsynchronous,
                "Stateful in an asynchronous pipeline: its stages are at different steps, so that "
                "there is no moment between two of them at which a state could be kept or begin "
                "anew; take a synchronous schedule, such as OneFOneB");
};

template <bool Shards, bool Sliced, bool Carries, bool HasRows, bool Chunked, bool AnyReplicas>
struct PostValidationIsSound {
  static constexpr bool value = true;
  static_assert(!Shards,
                "PostValidated<Schedule> with ShardedState: parameters are gathered from all "
                "replicas behind an update, which may have to be taken back; leave one of both "
                "out");
  static_assert(Shards || !Sliced,
                "PostValidated<Schedule> with TensorParallel, SpatialParallel or Slices: leave one "
                "of both out");
  static_assert(!Carries,
                "PostValidated<Schedule> with Stateful layers: their states would have to be taken "
                "back with an update; leave one of both out");
  static_assert(!HasRows,
                "PostValidated<Schedule> with RowGradient: an update that is taken back would "
                "need the rows again, which the next step has overwritten; leave one of both out");
  static_assert(!Chunked,
                "Pipeline<PostValidated<Schedule>, Count, Chunks<K>, ...>: leave one of both out");
  static_assert(!AnyReplicas,
                "PostValidated<Schedule> in DataParallel<>: it runs in one process, whose replicas "
                "are known; name their number, DataParallel<N>");
};

template <class Net, int Slices, int Shared>
struct NetworkHasPairs {
  static constexpr bool value = true;
  static_assert(Slices == 1 || Shared > 0,
                "TensorParallel<N>: this network has nothing that N devices could share: no Linear "
                "or Conv2d whose output goes to another one through layers alone that need no "
                "whole rows (Attention, activations, Dropout, BatchNorm2d, pools), with a number "
                "of columns, channels or heads that N (or L of Slices<L>) divides, and no "
                "large table of words; take DataParallel, another N or L, or SplitInputs or "
                "SplitOutputs for a smaller "
                "table (NetworkHasPairs names the network and it)");
};

/// Whether so many devices may have @p count slices together: each has a branch of their tree.
constexpr bool slices_fit(int count, int devices) {
  int const own = count / devices;
  return count % devices == 0 && (devices == 1 || (own & (own - 1)) == 0);
}

template <int Count, int Devices>
struct SlicesFit {
  static constexpr bool value = true;
  static constexpr bool divide = Count % Devices == 0;
  static_assert(divide,
                "Slices<L> with TensorParallel<N>: each device has as many slices, so L must be a "
                "multiple of N (SlicesFit names both)");
  static_assert(
      !divide || slices_fit(Count, Devices),
      "Slices<L> with TensorParallel<N>: L / N must be a power of two, so that slices are "
      "added in one order on any number of devices (SlicesFit names both)");
};

template <class Net, bool IsReproducible, bool KeepsPairs>
struct CutKeepsPairs {
  static constexpr bool value = true;
  static_assert(
      !IsReproducible || KeepsPairs,
      "Reproducible with Slices<L> or TensorParallel<N>: a part of the model ends between "
      "two Linears that are dealt out together where it is whole, so that the bits would "
      "depend on the cut; cut in front of the first of them, or behind the second");
};

/// Strategies that have no slices.
template <bool Sliced, bool IsAsynchronous, bool KeepsTwo>
struct SlicesStandAlone {
  static constexpr bool value = true;
  static_assert(!Sliced || !IsAsynchronous,
                "Slices<L> in an asynchronous pipeline: its bits are its own anyway; leave Slices "
                "out");
  static_assert(!Sliced || IsAsynchronous || !KeepsTwo,
                "Slices<L> with an averaging rule that keeps two models: leave Slices out, or "
                "average gradients");
};

template <bool HasParts>
struct RowsAreAdded {
  static constexpr bool value = true;
  static_assert(!HasParts,
                "SequenceRows with ShardedGradients or ShardedParameters: gradients of a device's "
                "rows are added up whole, where a replica has a part of each bucket alone; take "
                "ShardedState, or leave SequenceRows out");
};

template <bool Varies>
struct RowsHaveOneOrder {
  static constexpr bool value = true;
  static_assert(!Varies,
                "SequenceRows with Reproducible<>, or with several slices a device: gradients of "
                "what stands between are sums of each device's rows, whose bits depend on how many "
                "there are; leave one of both out");
};

template <class Net, int Time, int Slices>
struct RowsDivide {
  static constexpr bool value = true;
  static_assert(Time > 0,
                "SequenceRows: this network has no sequences, whose rows of time could be dealt "
                "out; leave it out");
  static_assert(Time <= 0 || Time % Slices == 0,
                "SequenceRows: the rows of this network's sequences are no multiple of "
                "TensorParallel's N; take an N that divides them, or leave SequenceRows out "
                "(RowsDivide names the network, the rows and N)");
};

template <class Net, int Rows, int ColumnsOfTiles, int Windows>
struct NetworkHasTiles {
  static constexpr bool value = true;
  static_assert(Rows * ColumnsOfTiles == 1 || Windows > 0,
                "SpatialParallel<H, W>: this network has nothing that could be computed tile by "
                "tile: no Conv2d or pool of images whose rows H divides and whose columns W does, "
                "before and behind it, with as many of both as its stride makes of them; take "
                "another H and W, or DataParallel (NetworkHasTiles names the network, H and W)");
};

template <bool Sliced, bool HasRows, bool Carries>
struct SlicesAreSound {
  static constexpr bool value = true;
  static_assert(!Sliced || !HasRows,
                "RowGradient with TensorParallel, or Slices: each device would gather the rows of "
                "all; leave RowGradient out");
  static_assert(
      !Sliced || HasRows || !Carries,
      "Stateful with TensorParallel, or Slices: the devices that share a layer would each keep the "
      "states of all samples; leave Stateful out, or take DataParallel");
};

template <bool Chunked, bool IsReproducible, bool HasSlices, bool HasRows, bool ShardsGradients>
struct ChunksAreAlone {
  static constexpr bool value = true;
  static_assert(!Chunked || !IsReproducible,
                "Chunks<K> with Reproducible<>: gradients are added chunk by chunk, so that their "
                "bits depend on K; leave one of both out");
  static_assert(!Chunked || IsReproducible || !HasSlices,
                "Chunks<K> with Slices<L>: gradients are added chunk by chunk, so that their bits "
                "depend on K; leave one of both out");
  static_assert(!Chunked || !HasRows,
                "Chunks<K> with SequenceRows: both deal out the rows of time; leave one of both "
                "out");
  static_assert(!Chunked || !ShardsGradients,
                "Chunks<K> with ShardedGradients or ShardedParameters: a replica has room for the "
                "gradients of two buckets, but those of all are added up chunk by chunk; take "
                "ShardedState");
};

template <bool Shared, bool IsAsynchronous, bool IsOrdered>
struct TiesAreSound {
  static constexpr bool value = true;
  static_assert(!Shared || !IsAsynchronous,
                "Shares<W> between stages of an asynchronous pipeline: its stages update at "
                "different times, so that a shared weight would be another in each; give the layer "
                "a weight of its own, or take a synchronous schedule");
  static_assert(!Shared || IsOrdered,
                "Shares<W> with Reproducible<>: more than two devices hold this weight, whose "
                "gradients would be added in an order that their number changes; cut the network "
                "so that at most two do");
};

template <bool Synchronizes, bool IsReproducible, int Replicas, int Copies>
struct StatisticsAreSound {
  static constexpr bool value = true;
  static_assert(!Synchronizes || !IsReproducible,
                "SyncBatchNorm2d with Reproducible<>: its statistics are sums over the replicas, "
                "whose bits depend on how many there are; use BatchNorm2d, or leave out "
                "Reproducible<>");
  static_assert(!Synchronizes || IsReproducible || Replicas == 1 || Copies == 1,
                "SyncBatchNorm2d with Chimera: replicas of a stage run different microbatches at a "
                "time, so that they never meet; use another schedule, or BatchNorm2d");
};

}  // namespace detail

namespace detail {

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
  static_assert(has_tiles || detail::SlicesFit<detail::layer_slices_of<S>, slices>::value);
  /// Whether there are as many replicas as the program is started with; `batching`, `mesh` and
  /// `ranks` are those of one then.
  static constexpr bool any_replicas = detail::takes_any_replicas<S>;
  static constexpr bool several_replicas = any_replicas || batching.replicas > 1;
  static constexpr bool several_ranks = any_replicas || ranks > 1;
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
  static_assert(detail::TiesAreSound < ties.crosses(), asynchrony.on(),
                ties.widest() <= 2 || !batching.reproducible > ::value);
  /// Whether gradients are GradientRows.
  static constexpr bool has_row_gradients = detail::has_row_gradients(network);
  static_assert(detail::RowGradientsAreSound < has_row_gradients &&
                    detail::shares_row_gradients(network),
                has_row_gradients&& asynchrony.on(),
                has_row_gradients && (map.copies > 1) > ::value);
  /// Whether each replica has a part of the optimizer's states alone.
  static constexpr bool sharded_state = batching.sharded_state && batching.replicas > 1;
  static_assert(detail::ShardedStateIsSound < batching.sharded_state, any_replicas,
                sharded_state&& has_row_gradients, sharded_state && (map.copies > 1) > ::value);
  /// Whether it has a part of the gradients alone, too.
  static constexpr bool sharded_gradients = batching.sharded_gradients && sharded_state;
  static_assert(detail::ShardedGradientsAreSound<
                (sharded_gradients && batching.wire != WireFormat::exact),
                (sharded_gradients && batching.reproducible && batching.microbatches > 1)>::value);
  /// And of the parameters.
  static constexpr bool sharded_parameters = batching.sharded_parameters && sharded_state;
  /// Whether a rank has a piece of what a mirror of its parameters shows: they are brought together
  /// to be read.
  static constexpr bool has_pieces = sharded_state || layer_slices > 1;
  /// Whether steps hand states on.
  static constexpr bool stateful = detail::carries_states(network);
  static_assert(detail::StatesAreSound<stateful, asynchrony.on()>::value);
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
  static constexpr detail::SharedLayers shared =
      detail::shared_layers(network, layer_slices, asked_wishes, true);
  static_assert(detail::WishesAreSound<shared.fault, shared.wish>::value);
  static_assert(detail::NetworkHasPairs < Net, layer_slices,
                shared.fault == WishFault::none ? shared.count : 1 > ::value);
  static_assert(detail::NetworkHasTiles < Net, tiles.height, tiles.width,
                !has_tiles || network.fault != Fault::none
                    ? 1
                    : plan_tiles(network, tiles).windows > ::value);
  static constexpr Dealing dealing{.slices = layer_slices,
                                   .own = has_tiles ? 1 : layer_slices / slices,
                                   .apart = batching.reproducible,
                                   .wishes = wishes};
  /// Whether layers are dealt out where the network is cut as they are where it is not.
  static constexpr bool keeps_pairs =
      layer_slices == 1 || map.stages == 1 || network.fault != Fault::none ||
      tandem::keeps_pairs(network, layer_slices, wishes, partition.part);
  static_assert(detail::CutKeepsPairs<Net, batching.reproducible, keeps_pairs>::value);
  static_assert(
      detail::SlicesAreSound<(layer_slices > 1 || has_tiles), has_row_gradients, stateful>::value);
  static_assert(detail::SlicesStandAlone<(layer_slices > slices), asynchrony.on(),
                                         averaging.keeps_two()>::value);
  static_assert(
      detail::ChunksAreAlone<(batching.chunks > 1), batching.reproducible, (layer_slices > slices),
                             (slices > 1 && detail::deals_rows<S>), sharded_gradients>::value);
  static constexpr ChunkVerdict chunks = check_chunks(network, batching.chunks);
  static_assert(detail::NetworkComesInChunks<Net, network.node[0].out[0], batching.chunks,
                                             chunks.fault, chunks.node>::value);
  /// Whether these have their rows of what is whole between the layers that they share.
  static constexpr bool sequence_rows = slices > 1 && detail::deals_rows<S>;
  static_assert(detail::RowsAreAdded<(sequence_rows && sharded_gradients)>::value);
  static_assert(detail::RowsDivide < Net,
                sequence_rows&& network.fault == Fault::none ? time_to_deal(network, slices)
                                                             : slices,
                slices > ::value);
  static_assert(detail::RowsHaveOneOrder<(sequence_rows && (batching.reproducible ||
                                                            layer_slices > slices))>::value);
  static_assert(detail::PostValidationIsSound < post_validated && sharded_state,
                post_validated && (layer_slices > 1 || has_tiles), post_validated&& stateful,
                post_validated&& has_row_gradients, post_validated && (batching.chunks > 1),
                post_validated&& any_replicas > ::value);
  /// Only then are a stage's gradients compiled apart.
  static constexpr bool splits_backward = detail::splits_backward(table);
  static_assert(detail::StatisticsAreSound < detail::synchronizes_statistics(network),
                batching.reproducible, several_replicas ? 2 : 1, map.copies > ::value);

  /// The ranks of so many replicas, which a strategy that tells their number knows.
  [[nodiscard]] static constexpr Mesh mesh_of(int replicas) {
    return any_replicas ? Mesh{Axis::data, replicas} * mesh : mesh;
  }

  /// What device @p D of each replica does.
  template <int D>
  using Device = DeviceProgram<Program, D>;
};

}  // namespace tandem
