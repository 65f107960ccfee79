// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TensorParallel, ChannelParallel: each device has a slice of each layer.

#include <concepts>

#include <tandem/core/mesh.hpp>
#include <tandem/graph/spread/wishes.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/types/layer_wishes.hpp>
#include <tandem/strategy/types/model_checks.hpp>
#include <tandem/strategy/types/model_options.hpp>

namespace tandem {

/// Between the pairs each device has its part of the rows of all samples: it computes LayerNorms,
/// dropouts and sums of these alone, and keeps 1/N of what they keep. In place of an all-reduce
/// stand an all-gather and a reduce-scatter, which together send as much.
/// Source: Korthikanti et al., arXiv:2205.05198, section 4.2
struct SequenceRows {};

namespace detail {

inline constexpr int most_slices = 1 << 10;

/// Says how layers are dealt out.
template <class Option>
concept DealingOption =
    IsLayerWish<Option> || IsSlices<Option> || std::same_as<Option, SequenceRows>;

template <class Option>
concept TensorOption =
    IsMicrobatches<Option> || IsCheckpoint<Option> || DealingOption<Option> || requires {
  Option::leaves;
};

template <int N, class... Options>
concept DealsOut = N >= 2 && N <= most_slices && (TensorOption<Options> && ...);

/// Where the options of the model stand elsewhere.
template <int N, class... Options>
concept DealsOutParts = DealsOut<N, Options...> &&(DealingOption<Options>&&...);

}  // namespace detail

/// Each device computes all samples, with its slice of each pair of Linears or Conv2ds: the first's
/// outputs and the second's inputs, and what stands between, as the heads of an Attention or the
/// channels of a BatchNorm2d; and its words of a large Embedding or Vocabulary. All other layers
/// are whole on every device.
///
///   rank 0 | LayerNorm | Linear, outputs 0 … k-1  | heads 0 … h-1  | Linear, inputs 0 … k-1  | sum
///   rank 1 | LayerNorm | Linear, outputs k … 2k-1 | heads h … 2h-1 | Linear, inputs k … 2k-1 | sum
///
/// A pair is a Linear or Conv2d whose output goes to another one through layers that need no whole
/// rows: Attention (where N divides its heads of keys), RotaryPositions, SwiGlu, activations,
/// Dropout; and, of channels, BatchNorm2d and SyncBatchNorm2d, whose statistics are each channel's
/// own, pools, GlobalAvgPool, Flatten, and a Conv2d whose Groups N divides.
/// A table of V words by C is dealt out where V C is a million (2^20) or more, or SplitInputs (of
/// an Embedding) or SplitOutputs (of a Vocabulary) says so: any V, padded to a multiple of N on the
/// devices, and nowhere else; none under Reproducible, or where a device has several slices.
/// Initial values, masks and checkpoints are those of one device; sums of N parts round otherwise,
/// unless other strategies have Slices<N>, or this one has Slices<L> as they have. With
/// Reproducible SingleDevice<Slices<4>>, TensorParallel<2, Slices<4>> and TensorParallel<4> have
/// the same bits.
///
/// Memory: of a pair 1/N of parameters, gradients, states, and of the activations between; of a
///         table likewise, and of a Vocabulary's logits.
/// Comm:   of each pair and microbatch two all-reduces of its rows, (B, T, C): its output in
///         forward, the gradient of its input in backward; of an Embedding one of its output in
///         forward, of a Vocabulary one of its input's gradient in backward, and in forward an
///         all-gather of four doubles a row and device, (B, T, 4).
/// Options: Microbatches, Reproducible, Checkpoint, Slices, SplitOutputs, SplitInputs, KeepWhole,
/// SequenceRows. On Host, and on Cuda.
/// Source: Shoeybi et al., "Megatron-LM", arXiv:1909.08053
/// The primary template is the error path.
template <int N, class... Options>
struct TensorParallel : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static constexpr bool counts = N >= 2 && N <= detail::most_slices;
  static_assert(detail::ArgumentIs<detail::Argument::tensor, counts, N>::value);
  static_assert(detail::ArgumentIs<detail::Argument::tensor_options,
                                   (detail::TensorOption<Options> && ...)>::value);
};

template <int N, class... Options>
  requires detail::DealsOut<N, Options...>
struct TensorParallel<N, Options...>
    : OneDeviceModel<detail::gather_batching<1, Options...>().microbatches> {
  using Model = OneDeviceModel<detail::gather_batching<1, Options...>().microbatches>;
  static constexpr Mesh mesh{Axis::tensor, N};
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Options...>();
  static constexpr SpreadWishes wishes = detail::gather_wishes<Options...>();
  /// In so many replicas, with options of the strategy around it.
  template <int Replicas, class... More>
  static constexpr Batching batching_for = detail::gather_batching<Replicas, Options..., More...>();
  static constexpr Batching batching =
      detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves,
                               batching_for<1>.microbatches, 1>::checked(batching_for<1>);
};

namespace detail {

/// Whether a strategy has SequenceRows, or one of those in it.
template <class S>
inline constexpr bool deals_rows = false;
template <int N, class... Options>
inline constexpr bool deals_rows<TensorParallel<N, Options...>> =
    (std::same_as<Options, SequenceRows> || ...);

}  // namespace detail

/// The same by the name that it has for images: the channels of each pair of Conv2ds are dealt out.
/// Source: Dryden et al., "Channel and filter parallelism for large-scale CNN training", SC 2019
template <int N, class... Options>
using ChannelParallel = TensorParallel<N, Options...>;

}  // namespace tandem
