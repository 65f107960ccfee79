// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// launch_images: one thread for a few channels of each pixel of a batch of channels-last images.

#include <cstdint>
#include <type_traits>

#include <tandem/kernels/cuda/divider.hpp>
#include <tandem/kernels/cuda/image_index.hpp>
#include <tandem/kernels/cuda/launch.cuh>

namespace tandem::cuda {

inline constexpr int image_block = 256;

/// Calls kernel(count, threads, rest...) such that its threads below `count`, in blocks of
/// image_block, give each place of @p batch images once: threads(thread), sample included.
///
/// @tparam Most  the most threads of a launch; a batch with more takes several
/// @throws ContractError  a single image has more than 2³⁰ places
template <std::int64_t Most = most_threads, class... Rest>
void launch_images(void (*kernel)(std::uint32_t, ImageThreads, Rest...), Stream const& stream,
                   std::int64_t batch, ImageThreads const& threads,
                   std::type_identity_t<Rest>... rest) {
  auto const chunk = [&](std::int64_t first, std::int64_t samples) {
    std::int64_t const count = samples * threads.items();
    launch(kernel, Grid{blocks_for(count, image_block)}, image_block, stream,
           static_cast<std::uint32_t>(count), threads.from(first), rest...);
  };
  for_chunks(batch, threads.items(), chunk, Most);
}

}  // namespace tandem::cuda
