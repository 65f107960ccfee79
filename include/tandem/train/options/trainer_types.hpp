// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TrainerTypes: what a Trainer's types are lowered to, and one sentence where they do not go
/// together.

#include <tandem/core/geometry.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/options/check_types.hpp>
#include <tandem/train/options/default_metric.hpp>
#include <tandem/train/step_batches.hpp>

namespace tandem::detail {

template <class Net, class S, class Backend, class LossType, class MetricType,
          template <int> class Transport>
struct TrainerTypes {
  static_assert(LossFits<Net, LossType>::value);
  static_assert(OutputFits<Net, LossType, MetricType>::value);
  using Named = ComputingBackend<Backend>;
  static_assert(AsynchronyRuns<asynchrony_of<S>().on(), Named>::value);
  static constexpr bool shards = S::batching.sharded_state && S::batching.replicas > 1;
  static constexpr bool shards_gradients = shards && S::batching.sharded_gradients;
  static_assert(ShardedStateRuns < shards && !shards_gradients, Named > ::value);
  static constexpr bool shards_parameters = shards && S::batching.sharded_parameters;
  static_assert(ShardedGradientsRun < shards_gradients && !shards_parameters, Named > ::value);
  static_assert(ShardedParametersRun<shards_parameters, Named>::value);
  static constexpr bool slices = layer_slices_of<S> > 1;
  static constexpr bool deals_rows = tandem::detail::deals_rows<S>;
  static_assert(SequenceRowsRun<deals_rows, Named>::value);
  static constexpr bool has_tiles = tiles_of<S>() != Extent2d{};
  static_assert(TilesRun<has_tiles, Named>::value);
  static_assert(SlicesRun<(slices && !deals_rows && !has_tiles), Named>::value);
  static constexpr bool in_chunks = S::batching.chunks > 1;
  static_assert(ChunksRun<in_chunks, Named>::value);
  static constexpr bool of_host = asynchrony_of<S>().on();
  using Asked = AskedBackend<
      (!of_host || is_host<Named>()) && (!shards || deals_states<Named>()) &&
          (!shards_gradients || deals_gradients<Named>()) &&
          (!shards_parameters || deals_parameters<Named>()) &&
          (!slices || shares_layers<Named>()) && (!deals_rows || computes_rows<Named>()) &&
          (!has_tiles || computes_tiles<Named>()) && (!in_chunks || computes_chunks<Named>()),
      Named>;
  static_assert(BackendFits<Asked>::value);
  using Used = UsedBackend<Asked>;
  using T = typename Used::Master;
  using ProgramType = Program<Net, S, static_cast<int>(sizeof(T)), rewrites_of<Used>()>;
  static_assert(NamedTransportFits<Transport, Asked, ProgramType>::value);
  using Workers = UsedWorkers<ProgramType, Asked, LossType, MetricType, Transport>;
  using Batches = StepBatches<ProgramType, Used, LossType, MetricType>;
};

}  // namespace tandem::detail
