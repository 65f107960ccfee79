// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// im2col: the matrix of patches of a convolution; col2im: the sums of a gradient of that matrix.
///
/// Channels-last. A row of the matrix is a position (sample, row, column of the output), its
/// columns are (group, kernel row, kernel column, channel of the group).

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/divider.hpp>
#include <tandem/kernels/cuda/im2col_index.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// One unit of N channels of the matrix of patches.
template <class T, int N>
struct GatherPatch {
  PatchIndex index;
  T const* x;
  T* patches;

  TANDEM_HOST_DEVICE void operator()(std::int64_t n) const {
    std::int64_t const source = index.source(static_cast<std::uint32_t>(n));
    store_pack<N>(patches + n * N, source < 0 ? Pack<T, N>{} : load_pack<N>(x + source * N));
  }
};

/// A sum over the places in the matrix of patches where a unit of x stands.
template <class T, int N>
struct PatchSum {
  T const* patches;
  Pack<ComputeType<T>, N> total;

  TANDEM_HOST_DEVICE void operator()(std::int64_t place) {
    Pack<ComputeType<T>, N> const term = loaded(load_pack<N>(patches + place * N));
    for (int i = 0; i < N; ++i) {
      total.value[i] += term.value[i];
    }
  }
};

/// One unit of N channels of dx.
template <class T, int N>
struct GatherGradient {
  PatchIndex index;
  T const* patches;
  T* dx;

  TANDEM_HOST_DEVICE void operator()(std::int64_t n) const {
    PatchSum<T, N> sum{patches, {}};
    index.each_place(static_cast<std::uint32_t>(n), sum);
    store_pack<N>(dx + n * N, stored<T>(sum.total));
  }
};

/// f(integral constant N) with the widest N that the channels of a group and the addresses allow.
template <class T, class Function>
void with_pack(ConvolutionGeometry const& g, T const* a, T const* b, Function const& f) {
  if (packs_channels(g.in_channels / g.groups, a, b)) {
    f(std::integral_constant<int, full_pack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

}  // namespace detail

/// Elements of one sample's matrix of patches.
constexpr std::int64_t patch_elements(ConvolutionGeometry const& g) {
  return std::int64_t{g.out.height} * g.out.width * g.window.kernel.height * g.window.kernel.width *
         g.in_channels;
}

/// patches = for each position what the window sees there, zeros outside the image.
///
/// Shapes: x (B, in, in_channels), patches (B, out, groups, kernel, in_channels / groups).
/// Cost:   writes the patches and reads x once or a few times, from cache; bound by memory.
/// @param most  units of a launch, for tests
template <class T>
void im2col(Stream const& stream, ConvolutionGeometry const& g, std::int64_t batch, T const* x,
            T* patches, std::int64_t most = most_threads) {
  std::int64_t const image = std::int64_t{g.in.height} * g.in.width * g.in_channels;
  std::int64_t const matrix = patch_elements(g);
  detail::with_pack(g, x, patches, [&](auto pack) {
    constexpr int width = decltype(pack)::value;
    PatchIndex const index{g, width};
    auto const run = [&](std::int64_t first, std::int64_t samples) {
      each(stream, samples * (matrix / width),
           detail::GatherPatch<T, width>{index, x + first * image, patches + first * matrix});
    };
    for_chunks(batch, matrix / width, run, most);
  });
}

/// dx = the sum of a gradient of the patches over all the places where a pixel stands.
///
/// Shapes: dpatches (B, out, groups, kernel, in_channels / groups), dx (B, in, in_channels),
///         overwritten.
/// Cost:   reads dpatches once and writes dx once; bound by memory.
/// Order:  each element of dx is summed by one thread, in the order of the kernel's cells.
/// @param most  units of a launch, for tests
template <class T>
void col2im(Stream const& stream, ConvolutionGeometry const& g, std::int64_t batch,
            T const* dpatches, T* dx, std::int64_t most = most_threads) {
  std::int64_t const image = std::int64_t{g.in.height} * g.in.width * g.in_channels;
  std::int64_t const matrix = patch_elements(g);
  detail::with_pack(g, dpatches, dx, [&](auto pack) {
    constexpr int width = decltype(pack)::value;
    PatchIndex const index{g, width};
    auto const run = [&](std::int64_t first, std::int64_t samples) {
      each(stream, samples * (image / width),
           detail::GatherGradient<T, width>{index, dpatches + first * matrix, dx + first * image});
    };
    for_chunks(batch, image / width, run, most);
  });
}

}  // namespace tandem::cuda
