// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SyncBatchNorm2d: BatchNorm2d with the statistics of a microbatch of all replicas together.

#include <tandem/layers/batch_norm2d.hpp>

namespace tandem {

namespace detail {

template <class... Options>
struct SyncBatchNorm2dIsSound {
  static constexpr bool value = true;
  static_assert((NormOption<Options> && ...),
                "SyncBatchNorm2d<Options...>: options are Epsilon and Momentum");
};

}  // namespace detail

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of a channel over H, W and
/// the samples of the same microbatch of all replicas: m of the first with m of the second, and so
/// on. Replicas with fewer samples, or none, count as much as they have.
///
/// Shapes: x, y (B, C, H, W); weight, bias, running_mean, running_var (C), named as BatchNorm2d's.
/// Saves:  what BatchNorm2d saves, and 2 C + 1 doubles.
/// Cost:   that of BatchNorm2d and two small kernels a pass.
/// Comm:   over the replicas of its stage one all-reduce of 2 C + 1 doubles in each forward pass in
///         training, a recomputed one included, and one in each backward pass to its input, while
///         the device waits. None with one replica, in evaluation and where frozen: then its
///         numbers are BatchNorm2d's bit for bit.
/// Order:  the sums depend on the number of replicas, so Reproducible<> refuses it.
/// Source: PyTorch's SyncBatchNorm has the same formulas.
/// The primary template is the error path.
template <class... Options>
struct SyncBatchNorm2d {
  static constexpr std::string_view name = "SyncBatchNorm2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::SyncBatchNorm2dIsSound<Options...>::value);
};

template <class... Options>
  requires(NormOption<Options>&&...)
struct SyncBatchNorm2d<Options...> : BatchNorm2d<Options...> {
  using layer = SyncBatchNorm2d;
  static constexpr std::string_view name = "SyncBatchNorm2d";
  /// Tells the engine to add the op's sums over the replicas between the halves of its passes.
  static constexpr bool synchronizes_over_replicas = true;
};

}  // namespace tandem
