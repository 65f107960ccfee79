// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The shortcut without parameters of a ResNet ("option A"), channels-last: every s-th pixel, new
/// channels zero.

#include <cstdint>

#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/functors/subsample_geometry.hpp>

namespace tandem::cuda {

namespace detail {

/// One thread for N channels of an output pixel.
template <int N, class T>
TANDEM_KERNEL void subsample_kernel(std::uint32_t count, ImageThreads threads, SubsampleGeometry g,
                                    T const* x, T* y) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex at = threads(thread);
  std::int64_t const to = at.offset(g.out(), g.out_channels);
  at.channel -= g.first();
  Pack<T, N> value = {};
  if (at.channel >= 0 && at.channel < g.in_channels) {
    value =
        load_pack<N>(x + at.offset(g.in, g.in_channels, at.row * g.stride, at.column * g.stride));
  }
  store_pack(y + to, value);
}

/// One thread for N channels of an input pixel.
template <int N, class T>
TANDEM_KERNEL void subsample_gradient_kernel(std::uint32_t count, ImageThreads threads,
                                             SubsampleGeometry g, T const* dy, T* dx) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex at = threads(thread);
  std::int64_t const to = at.offset(g.in, g.in_channels);
  at.channel += g.first();
  Pack<T, N> value = {};
  if (at.row % g.stride == 0 && at.column % g.stride == 0) {
    value = load_pack<N>(
        dy + at.offset(g.out(), g.out_channels, at.row / g.stride, at.column / g.stride));
  }
  store_pack(dx + to, value);
}

/// Whether a pack never holds both copied channels and others.
template <class T>
bool subsample_packs(SubsampleGeometry const& g, T const* a, T const* b) {
  return packs_channels(g.in_channels, a, b) && packs_channels(g.out_channels, a, b) &&
         packs_channels(g.first(), a, b);
}

}  // namespace detail

/// y[c] = x[c - first] at [::s, ::s]; the channels before and behind are zero.
///
/// Shapes: x (B, in, in_channels); y (B, out, out_channels).
/// Cost:   writes each element of y once; bound by memory.
/// @pre    in_channels <= out_channels
/// Source: He, Zhang, Ren, Sun, CVPR 2016, section 3.3, option (A)
template <class T>
void subsample_forward(Stream const& stream, SubsampleGeometry const& g, int batch, T const* x,
                       T* y) {
  if (detail::subsample_packs(g, x, y)) {
    constexpr int width = full_pack<T>;
    launch_images(detail::subsample_kernel<width, T>, stream, batch,
                  {g.out(), g.out_channels, width}, g, x, y);
  } else {
    launch_images(detail::subsample_kernel<1, T>, stream, batch, {g.out(), g.out_channels, 1}, g, x,
                  y);
  }
}

/// The gradient of subsample_forward: dx is dy at the pixels that were read, else 0.
///
/// Shapes: dy (B, out, out_channels); dx (B, in, in_channels).
/// Cost:   writes each element of dx once; bound by memory.
/// @pre    in_channels <= out_channels
template <class T>
void subsample_gradient(Stream const& stream, SubsampleGeometry const& g, int batch, T const* dy,
                        T* dx) {
  if (detail::subsample_packs(g, dy, dx)) {
    constexpr int width = full_pack<T>;
    launch_images(detail::subsample_gradient_kernel<width, T>, stream, batch,
                  {g.in, g.in_channels, width}, g, dy, dx);
  } else {
    launch_images(detail::subsample_gradient_kernel<1, T>, stream, batch, {g.in, g.in_channels, 1},
                  g, dy, dx);
  }
}

}  // namespace tandem::cuda
