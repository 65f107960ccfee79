// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SpatialParallel: each device has a tile of every image.

#include <tandem/core/geometry.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/types/model_options.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>

namespace tandem {

namespace detail {

template <class Option>
concept TileOption = IsMicrobatches<Option> || IsCheckpoint<Option>;

template <int H, int W, class... Options>
concept DealsTiles = H >= 1 && W >= 1 && H <= most_slices&& W <= most_slices&& H* W >= 2 &&
                     H* W <= most_slices && (TileOption<Options> && ...);

/// Rows and columns of tiles; of most strategies one.
template <class S>
constexpr Extent2d tiles_of() {
  if constexpr (requires { S::tiles; }) {
    return S::tiles;
  } else {
    return {};
  }
}

}  // namespace detail

/// Each device computes its tile of every image of all samples, H rows of W tiles; convolutions and
/// pools exchange with their neighbours what is around a tile, a halo, and batch norms their sums.
///
///   rank 0 | rows 0 … k-1  | ⇅ halo | Conv2d | BatchNorm2d, sums of all | … | all tiles | Linear
///   rank 1 | rows k … 2k-1 | ⇅ halo | Conv2d | BatchNorm2d, sums of all | … | all tiles | Linear
///
/// In tiles are Conv2d and pools whose stride makes as many rows and columns as it divides theirs
/// by (3×3 with padding 1, 7×7 with padding 3, 1×1, and their like), where H and W divide those;
/// and behind them BatchNorm2d, SyncBatchNorm2d, activations, Concat, Residual and Multiply. All
/// else is whole on every device, as are images that tiles do not divide, 7×7 among 2×2: before it
/// the tiles are brought together. Initial values, statistics and checkpoints are those of one
/// device; sums of tiles round otherwise.
///
/// Memory: of layers in tiles 1/(H W) of the activations, and halos; parameters, gradients and
///         states whole.
/// Comm:   of each microbatch: of a window the halo of its tile in forward, and of its gradient in
///         backward; of a batch norm 2 C + 1 doubles each; whole images once each way where tiles
///         begin and end. Of each step one all-reduce of the gradients of these layers.
/// Options: Microbatches, Checkpoint. On Host and Cuda.
/// Source: Dryden et al., "Improving strong-scaling of CNN training by exploiting finer-grained
///         parallelism", arXiv:1903.06681
/// The primary template is the error path.
template <int H, int W, class... Options>
struct SpatialParallel : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static constexpr bool repeats = (requires { Options::leaves; } || ...);
  static constexpr bool fit = repeats || (detail::TileOption<Options> && ...);
  static_assert(detail::ArgumentIs<detail::Argument::tiles, detail::DealsTiles<H, W>, H, W>::value);
  static_assert(detail::ArgumentIs<detail::Argument::tiles_leaves, !repeats>::value);
  static_assert(detail::ArgumentIs<detail::Argument::tiles_options, fit>::value);
};

template <int H, int W, class... Options>
  requires detail::DealsTiles<H, W, Options...>
struct SpatialParallel<H, W, Options...>
    : OneDeviceModel<detail::gather_batching<1, Options...>().microbatches> {
  using Model = OneDeviceModel<detail::gather_batching<1, Options...>().microbatches>;
  static constexpr Extent2d tiles{H, W};
  static constexpr Mesh mesh{Axis::tensor, H* W};
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Options...>();
  /// In so many replicas, with options of the strategy around it.
  template <int Replicas, class... More>
  static constexpr Batching batching_for = detail::gather_batching<Replicas, Options..., More...>();
  static constexpr Batching batching = batching_for<1>;
};

}  // namespace tandem
