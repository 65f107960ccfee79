// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// take_batch: the first kernel of a step, which takes the step's samples and targets from where
/// they have been staged to where all other kernels read them.
///
/// Where they are staged changes from step to step, and a recorded step may not: so the kernel
/// finds the addresses in device memory.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Where a step's data has been staged: samples as the user gave them, (n, C, H, W).
template <class P, class Target>
struct StagedBatch {
  P const* samples = nullptr;
  Target const* targets = nullptr;
  std::int32_t const* lengths = nullptr;
};

/// Which of the elements taken are rows behind their sample's length.
struct TakenRows {
  std::int64_t rows = 0;   ///< of a sample; 0: there are no lengths
  std::int64_t first = 0;  ///< the sample, of those with lengths, that they begin with

  /// Of element @p i. @param lengths  as staged
  [[nodiscard]] TANDEM_HOST_DEVICE bool is_padding(std::int64_t i,
                                                   std::int32_t const* lengths) const {
    return rows > 0 && i % rows >= lengths[first + i / rows];
  }
};

namespace detail {

template <class T, class P, class Target>
TANDEM_KERNEL void take_batch_kernel(StagedBatch<P, Target> const* staged, std::int64_t begin,
                                     std::int64_t elements, int channels, std::int64_t pixels,
                                     T* samples, TakenRows taken, std::int64_t target_count,
                                     Target* targets, std::int64_t length_count,
                                     std::int32_t* lengths) {
  await_previous();
  P const* const from = staged->samples + begin;
  Target const* const from_targets = staged->targets;
  std::int32_t const* const from_lengths = staged->lengths;
  std::int64_t const first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t const stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < elements; i += stride) {
    if constexpr (std::is_integral_v<T>) {
      samples[i] = taken.is_padding(i, from_lengths) ? T{0} : from[i];
      continue;
    }
    std::int64_t const pixel = i / channels;  // among those of all samples
    std::int64_t const channel = i - pixel * channels;
    std::int64_t const sample = pixel / pixels;
    samples[i] =
        store<T>(load(from[(sample * channels + channel) * pixels + (pixel - sample * pixels)]));
  }
  for (std::int64_t i = first; i < target_count; i += stride) {
    targets[i] = from_targets[i];
  }
  for (std::int64_t i = first; i < length_count; i += stride) {
    lengths[i] = from_lengths[i];
  }
}

}  // namespace detail

/// samples = (T) staged->samples from element @p begin on, with its axes turned from (n, C, pixels)
/// to (n, pixels, C); targets = staged->targets. Indices behind a sample's length become 0: the
/// order in which an embedding adds its gradient depends on all of them.
///
/// Shapes: staged is one value in device memory; begin is a multiple of C pixels; elements =
///         n C pixels. @p taken is of indices.
/// Cost:   reads and writes each element once; reads are coalesced for one channel, else `channels`
///         streams.
template <class T, class P, class Target>
void take_batch(Stream const& stream, StagedBatch<P, Target> const* staged, std::int64_t begin,
                std::int64_t elements, int channels, std::int64_t pixels, T* samples,
                TakenRows const& taken, std::int64_t target_count, Target* targets,
                std::int64_t length_count = 0, std::int32_t* lengths = nullptr) {
  std::int64_t most = elements > target_count ? elements : target_count;
  most = most > length_count ? most : length_count;
  launch(detail::take_batch_kernel<T, P, Target>, blocks_for(most, 256, 8192), 256, stream, staged,
         begin, elements, channels, pixels, samples, taken, target_count, targets, length_count,
         lengths);
}

}  // namespace tandem::cuda
