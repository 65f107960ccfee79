// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeviceProgram: what one device of a model replica runs, known to the compiler.

#include <cstdint>
#include <type_traits>

#include <tandem/graph/chunks.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/graph/spread/check.hpp>
#include <tandem/graph/spread/rewrite.hpp>
#include <tandem/graph/spread/rows.hpp>
#include <tandem/graph/spread/tile_check.hpp>
#include <tandem/graph/spread/tile_rewrite.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/device_graph.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/rules.hpp>

namespace tandem {

namespace detail {

/// Reproducible bits must not depend on which siblings a device has, so it computes them one by
/// one; nor on whether a convolution and the batch norm behind it are in one stage, or a Linear and
/// its activation. Weights that come and go in slots are not kept side by side as well.
constexpr Rewrites allowed(Rewrites wanted, bool reproducible, bool slots) {
  wanted.merge_pointwise = wanted.merge_pointwise && !reproducible && !slots;
  wanted.absorb_bias = wanted.absorb_bias && !reproducible;
  wanted.fuse_linear = wanted.fuse_linear && !reproducible;
  return wanted;
}

constexpr bool rewrites_anything(Rewrites r) {
  return r.fuse_relu || r.fuse_linear || r.fuse_sum || r.channels_last || r.merge_pointwise ||
         r.place_concat || r.absorb_bias;
}

/// A device's part of the network before rewrites; of one that has all of it, the network itself.
template <class Program, int D>
struct CutGraph {
  using Routed = typename Program::Routed;
  static constexpr GraphSize size = device_graph_size(
      Routed::graph, Routed::partition, Program::map, D, Program::batching.reproducible);
  static constexpr auto graph = device_graph<size>(Routed::graph, Routed::partition, Program::map,
                                                   D, Program::batching.reproducible);
};
template <class Program, int D>
  requires(Program::map.stages == 1)
struct CutGraph<Program, D> {
  static constexpr auto const& graph = Program::network;
};

/// The same where a pass has a chunk of each sequence.
template <class Program, int D, bool Chunks>
struct ChunkGraph : CutGraph<Program, D> {};
template <class Program, int D>
struct ChunkGraph<Program, D, true> {
  static constexpr auto graph =
      tandem::in_chunks(CutGraph<Program, D>::graph, Program::batching.chunks);
};

template <class Program, int D>
using PassGraph = ChunkGraph<Program, D, (Program::batching.chunks > 1)>;

/// The same of a rank that has its slices of some layers.
template <class Program, int D, bool Spreads>
struct SpreadGraph : PassGraph<Program, D> {};
template <class Program, int D, bool DealsRows>
struct DealtGraph {
  static constexpr auto const& whole = PassGraph<Program, D>::graph;
  static constexpr auto plan = plan_spread(whole, Program::layer_slices, Program::wishes);
  static constexpr BrokenRule broken = broken_rule(
      {.wish = Program::map.stages == 1 ? WishFault::none : plan.fault, .wish_index = plan.wish});
  static_assert(
      RuleHolds<broken.rule, typename Program::Network, broken.first, broken.second>::value);
  static constexpr GraphSize size = spread_size(whole, Program::dealing);
  static constexpr auto graph = spread<size>(whole, Program::dealing);
};
template <class Program, int D>
struct DealtGraph<Program, D, true> {
  static constexpr auto const& whole = DealtGraph<Program, D, false>::graph;
  static constexpr GraphSize size = dealt_size(whole, Program::slices);
  static constexpr auto graph = deal_rows<size>(whole, Program::slices);
};
template <class Program, int D>
struct SpreadGraph<Program, D, true> : DealtGraph<Program, D, Program::sequence_rows> {
  static constexpr SpreadVerdict verdict =
      check_spreads(DealtGraph<Program, D, Program::sequence_rows>::graph, Program::dealing.own);
  static_assert(SpreadsAreSound<verdict.fault, verdict.node>::value);
};

/// The same of a rank that has a tile of every image.
template <class Program, int D>
struct TileGraph {
  static constexpr auto const& whole = CutGraph<Program, D>::graph;
  static constexpr GraphSize size = tiled_size(whole, Program::tiles);
  static constexpr auto graph = spread_tiles<size>(whole, Program::tiles);
  static constexpr TileVerdict verdict = check_tiles(graph);
  static_assert(TilesAreSound<verdict.fault, verdict.node>::value);
};

template <class Program, int D>
using RankGraph = typename std::conditional_t<
    Program::has_tiles, std::type_identity<TileGraph<Program, D>>,
    std::type_identity<SpreadGraph<Program, D, (Program::layer_slices > 1)>>>::type;

template <class Program, int D, bool Rewrites>
struct RewrittenGraph : RankGraph<Program, D> {};
template <class Program, int D>
struct RewrittenGraph<Program, D, true> {
  static constexpr auto segments =
      checkpoint_segments(RankGraph<Program, D>::graph, Program::checkpoint);
  static constexpr auto graph = rewrite(
      RankGraph<Program, D>::graph,
      allowed(Program::rewrites, Program::batching.reproducible, Program::sharded_parameters),
      segments.of);
};

}  // namespace detail

/// What device @p D of each replica does. Each step is a constexpr variable of its own, and none is
/// a template argument.
template <class ProgramType, int D>
struct DeviceProgram {
  using Program = ProgramType;
  using Network = typename Program::Network;
  static constexpr int device = D;
  static constexpr Batching batching = Program::batching;
  static constexpr auto const& graph =
      detail::RewrittenGraph<Program, D, detail::rewrites_anything(Program::rewrites)>::graph;
  static constexpr auto stages =
      detail::find_stages<detail::count_stages(graph)>(graph, Program::map.parts());
  /// Ranks that each have a part of the optimizer's states; 1: all of them have all.
  static constexpr int state_shares = batching.sharded_state ? batching.replicas : 1;
  static constexpr auto layout =
      lay_out_parameters(graph, Program::element_bytes, batching.first_bucket_bytes,
                         batching.bucket_bytes, state_shares, Program::sharded_gradients);
  /// Of an array of states.
  static constexpr std::int64_t state_elements = layout.trained / state_shares;
  static constexpr bool sharded_gradients = Program::sharded_gradients;
  /// Where a rank keeps its part of the gradients alone, they are made in one of two slots of this
  /// size, each bucket in the one that the bucket before has not.
  static constexpr std::int64_t gradient_slot = sharded_gradients ? largest_bucket(layout) : 0;
  /// The same of the parameters, gathered.
  static constexpr bool sharded_parameters = Program::sharded_parameters;
  static constexpr std::int64_t parameter_slot = sharded_parameters ? largest_bucket(layout) : 0;
  /// Of the array of parameters: the rank's own part, the slots, then what is frozen.
  static constexpr std::int64_t parameter_elements =
      sharded_parameters ? state_elements + 2 * parameter_slot + layout.elements - layout.trained
                         : layout.elements;
  /// Of the array of rounded ones, where products read such: the slots, then what is frozen.
  static constexpr std::int64_t weight_elements =
      sharded_parameters ? parameter_elements - state_elements : layout.elements;
  /// Of an array of gradients: the rank's own part, then the slots.
  static constexpr std::int64_t gradient_elements =
      sharded_gradients ? state_elements + 2 * gradient_slot : layout.dense;
  /// Whether it has both copies of its part of the model, as a device in the middle may; then each
  /// bucket has a twin.
  static constexpr bool has_twins = tandem::has_twins(stages.stage);
  static constexpr auto twin_buckets = tandem::twin_buckets(layout, Program::map.parts());
  static constexpr bool several_replicas = Program::several_replicas;
  /// Gradients are summed over the replicas, and over the model's copies unless each has updates of
  /// its own.
  static constexpr int gradient_copies = Program::averaging.keeps_two() ? 1 : Program::map.copies;
  static constexpr bool sums_gradients = several_replicas || gradient_copies > 1;
  /// @param replicas  of the world, where the strategy takes any number
  [[nodiscard]] static constexpr int gradient_replicas(int replicas) {
    return (Program::any_replicas ? replicas : batching.replicas) * gradient_copies;
  }
  /// Copies of the device's weights; an asynchronous pipeline has stage k on device k.
  static constexpr WeightPlaces places{.rule = Program::asynchrony, .stage = D};
  static constexpr bool has_result = graph.result >= 0;
  static constexpr bool has_input = [] {
    bool has = false;
    for (int n = 0; n < graph.nodes; ++n) {
      has = has || graph.node[n].kind == NodeKind::input;
    }
    return has;
  }();
  /// Worked out once: a compiler's memory would grow with each question about a graph.
  static constexpr auto gives_input_gradient = input_gradients(graph);
  /// Of a node: which run of its stage's nodes is computed again together before their backward
  /// pass.
  static constexpr auto segments = checkpoint_segments(graph, Program::checkpoint);
};

namespace detail {

template <class Device, bool Sliced>
struct WholeParametersOf {
  static constexpr auto const& graph = Device::graph;
  static constexpr auto const& layout = Device::layout;
};
template <class Device>
struct WholeParametersOf<Device, true> {
  static constexpr auto const& graph = CutGraph<typename Device::Program, Device::device>::graph;
  static constexpr auto layout =
      lay_out_parameters(graph, Device::Program::element_bytes, Device::batching.first_bucket_bytes,
                         Device::batching.bucket_bytes);
};

}  // namespace detail

/// A device's parameters as the network has them, of which the rank may have slices: a graph and a
/// layout with the same parameters in the same order.
template <class Device>
using WholeParameters = detail::WholeParametersOf<Device, (Device::Program::layer_slices > 1)>;

}  // namespace tandem
