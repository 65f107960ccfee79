// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AccountDevice: what a device does in a step, as values, so that an account is compiled once for
/// all networks and strategies.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/ops/cuda/launch_sizes.hpp>
#include <tandem/strategy/memory/bucket_gaps.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem::detail {

/// Of a precision.
struct AccountPrecision {
  int scalar;
  int master;
  bool fp32;

  [[nodiscard]] bool mixed() const { return scalar != master; }
};

/// Gradients that are added up and reduced together.
struct AccountBucket {
  std::int64_t begin;  ///< in the flat arrays
  std::int64_t elements;
  int stage;
  int twin;     ///< the bucket of the other copy of the same part on this device, or -1
  bool shared;  ///< layers share a parameter of it
  std::vector<std::int64_t> gaps{};   ///< elements of each that no parameter has
  bool tiled = false;                 ///< some of its gradients are sums over tiles
  std::vector<std::int64_t> whole{};  ///< elements of each of the others, if so
};

/// A parameter that layers share.
struct AccountTie {
  int owner;        ///< in the network's graph
  bool crosses[2];  ///< of each copy of the model: other devices hold it, too
};

struct AccountDevice {
  GraphView graph;
  RankPlan plan;  ///< its whole row
  std::vector<LocalStage> stages;
  bool const* gives_input_gradient;
  int const* segment;          ///< of a node: its run that is computed again, or -1
  std::int16_t const* closes;  ///< of a node: the bucket that is whole after it, or -1
  std::int64_t const* offset;  ///< of a parameter
  std::vector<AccountBucket> buckets;
  std::vector<AccountTie> ties;
  std::vector<cuda::LaunchTraits> traits;
  std::int64_t elements;           ///< of all parameters
  std::int64_t dense;              ///< of those that have a gradient in the flat array
  std::int64_t trained;            ///< of these and of those whose gradients are GradientRows
  std::int64_t parameter_squares;  ///< of each slice, which ranks add where they clip
  int ranks;
  int slices;    ///< ranks that share its layers
  int parts;     ///< of the model
  int copies;    ///< likewise
  int replicas;  ///< over which other devices add this one's gradients
  bool keeps_two;
  bool alone;             ///< no other rank has parts of the model
  int shares;             ///< equal parts of each bucket, of which it has one's states; 1: all
  bool deals_gradients;   ///< it has their gradients alone, too
  bool deals_parameters;  ///< and these themselves, of which passes have others in turns:
  SlotTurns turns;
  int largest = 1;  ///< samples of a microbatch at most
  int slice = 0;    ///< of the ranks that share its layers

  /// Where one device has two copies of a part, their gradients are added here first.
  TANDEM_ONCE [[nodiscard]] bool has_twins() const;
};

template <class Device>
AccountDevice account_device() {
  using Whole = typename Device::Program;
  static constexpr auto const& graph = Device::graph;
  static constexpr auto const& layout = Device::layout;
  AccountDevice own{
      .graph = graph,
      .plan = make_rank_plan(device_tables<Device>, rows_of(Whole::table),
                             batching_with(device_tables<Device>, 0, 1)),
      .stages = {std::begin(Device::stages.stage), std::end(Device::stages.stage)},
      .gives_input_gradient = Device::gives_input_gradient.of,
      .segment = Device::segments.of,
      .closes = layout.closes,
      .offset = layout.offset,
      .buckets = {},
      .ties = {},
      .traits = {},
      .elements = layout.elements,
      .dense = layout.dense,
      .trained = layout.trained,
      .parameter_squares = std::int64_t{Whole::layer_slices} * GraphView{Whole::network}.parameters,
      .ranks = Whole::ranks,
      .slices = Whole::slices,
      .parts = Whole::map.parts(),
      .copies = Whole::map.copies,
      .replicas = Device::gradient_replicas(1),
      .keeps_two = Whole::averaging.keeps_two(),
      .alone = Whole::devices * Whole::slices == 1,
      .shares = Device::state_shares,
      .deals_gradients = Device::sharded_gradients,
      .deals_parameters = Device::sharded_parameters,
      .turns = {graph, layout, Device::segments.of}};
  for (int b = 0; b < layout.buckets; ++b) {
    ElementRange const range = bucket_range(layout, b);
    own.buckets.push_back({layout.bucket_begin[b], range.count(), layout.bucket_stage[b],
                           Device::has_twins ? Device::twin_buckets.of[b] : -1,
                           device_tables<Device>.shares_bucket(b)});
    AccountBucket& bucket = own.buckets.back();
    for (int p = 0; p < graph.parameters; ++p) {
      GraphParameter const& each = graph.parameter[p];
      if (range.has(layout.offset[p])) {
        bool const part = each.parameter.role == Role::weight && graph.node[each.node].is_tile();
        bucket.tiled = bucket.tiled || part;
        if (!part) {
          bucket.whole.push_back(each.parameter.shape.elements());
        }
      }
    }
  }
  for (ElementRange const& gap : bucket_gaps(graph, layout)) {
    auto const b = static_cast<std::size_t>(bucket_of(layout, gap.begin));
    own.buckets[b].gaps.push_back(gap.count());
  }
  if (own.has_twins()) {
    own.replicas = Whole::batching.replicas;
  }
  for (int t = 0; t < Whole::ties.count; ++t) {
    own.ties.push_back({Whole::ties.owner[t],
                        {Whole::ties.of[0][t].crosses(),
                         Whole::map.copies > 1 && Whole::ties.of[1][t].crosses()}});
  }
  [&]<int... I>(std::integer_sequence<int, I...>) {  // a list: clang folds no more than 256
    own.traits = {[] {
      if constexpr (graph.node[I].kind == NodeKind::layer) {
        return cuda::launch_traits<Leaf<typename Device::Network, graph.node[I].leaf>>(
            graph.node[I].in, graph.node[I].sharing.slices);
      } else {
        return cuda::LaunchTraits{};
      }
    }()...};
  }
  (std::make_integer_sequence<int, graph.nodes>{});
  return own;
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool AccountDevice::has_twins() const {
  bool any = false;
  for (AccountBucket const& bucket : buckets) {
    any = any || (bucket.twin >= 0 && !keeps_two);
  }
  return any;
}

}  // namespace tandem::detail

#endif
