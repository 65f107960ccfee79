// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dropout with Host's mask, on channels-last activations; the mask is never stored.

#include <cstdint>

#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/functors/dropout_mask.hpp>

namespace tandem::cuda {

/// Where a mask is drawn. Seed and step are read by the kernel, from device memory, so that a
/// captured graph draws another mask at each replay.
struct DropoutSource {
  std::uint64_t const* seed = nullptr;
  std::int64_t const* step = nullptr;
  std::uint32_t layer = 0;
  std::uint32_t first_sample = 0;  ///< global index of the batch's first sample
  /// Which element of a whole sample the first one is, where these are a slice of its channels.
  std::int64_t first_element = 0;
};

namespace detail {

/// One thread for Words neighbouring elements of a map, which lie `channels` apart in memory.
///
/// Words = 4 uses all that a draw gives, and wants pixels to be a multiple of 4: element 4 q of a
/// sample, in the order (C, H, W), then is pixel 4 (q mod pixels / 4) of its channel.
template <int Words, class T>
TANDEM_KERNEL void dropout_kernel(std::uint32_t count, ImageThreads threads, int channels,
                                  int pixels, DropoutSource source, float rate, T const* x, T* y) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);  // of an image whose columns are groups of Words pixels
  std::int64_t const pixel = std::int64_t{at.column} * Words;
  std::int64_t const element = source.first_element + std::int64_t{at.channel} * pixels + pixel;
  DropoutPlace const place{*source.seed, static_cast<std::uint32_t>(*source.step), source.layer,
                           source.first_sample};
  Random4 const random = dropout_words(place, at.sample, element / 4);
  std::int64_t const first = (at.sample * pixels + pixel) * channels + at.channel;
  auto const scale = dropout_scale<ComputeType<T>>(rate);
  for (int j = 0; j < Words; ++j) {
    std::int64_t const i = first + std::int64_t{j} * channels;
    std::uint32_t const word = random.word[Words == 4 ? j : element % 4];
    y[i] = store<T>(dropped(word, rate, scale, load(x[i])));
  }
}

/// One thread for Words neighbouring elements of a row, which may have a slice of the columns.
template <int Words, class T>
TANDEM_KERNEL void drop_columns_kernel(std::uint32_t count, ImageThreads threads,
                                       DropoutColumns columns, DropoutRows rows,
                                       DropoutSource source, float rate, T const* x, T* y) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);  // a row is an image of one pixel
  std::int64_t const element =
      (columns.first_row + rows.in_sample(at.sample)) * columns.whole + columns.place(at.channel);
  DropoutPlace const place{*source.seed, static_cast<std::uint32_t>(*source.step), source.layer,
                           source.first_sample};
  Random4 const random = dropout_words(place, rows.sample(at.sample), element / 4);
  std::int64_t const first = at.sample * columns.own + at.channel;
  auto const scale = dropout_scale<ComputeType<T>>(rate);
  for (int j = 0; j < Words; ++j) {
    std::uint32_t const word = random.word[Words == 4 ? j : element % 4];
    y[first + j] = store<T>(dropped(word, rate, scale, load(x[first + j])));
  }
}

template <int Words, class T>
void drop_columns(Stream const& stream, DropoutRows const& rows, DropoutColumns const& columns,
                  DropoutSource const& source, float rate, T const* x, T* y) {
  launch_images(drop_columns_kernel<Words, T>, stream, rows.count, {{1, 1}, columns.own, Words},
                columns, rows, source, rate, x, y);
}

template <int Words, class T>
void dropout(Stream const& stream, int batch, int channels, int pixels, DropoutSource const& source,
             float rate, T const* x, T* y) {
  launch_images(dropout_kernel<Words, T>, stream, batch, {{1, pixels / Words}, channels, 1},
                channels, pixels, source, rate, x, y);
}

}  // namespace detail

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, pixels, C); y (B, pixels, C), which may be x. A vector of N: C = N, pixels = 1.
/// Cost:   one Philox block of 10 rounds for each four elements where the pixels of a map (the
///         elements of a vector) are a multiple of 4, else for each element; bound by arithmetic.
/// @pre    0 <= rate < 1; C pixels < 2³⁰; source.first_element is a multiple of pixels, and 0 of a
///         vector
/// Source: as host::dropout_forward, whose mask this is, element by element
template <class T>
void dropout_forward(Stream const& stream, int batch, int channels, int pixels,
                     DropoutSource const& source, float rate, T const* x, T* y) {
  if (rate == 0.0F) {
    copy(stream, x, y, std::int64_t{batch} * channels * pixels);
  } else if (pixels % 4 == 0) {
    detail::dropout<4>(stream, batch, channels, pixels, source, rate, x, y);
  } else if (pixels == 1 && channels % 4 == 0) {
    detail::dropout<4>(stream, batch, 1, channels, source, rate, x, y);
  } else {
    detail::dropout<1>(stream, batch, channels, pixels, source, rate, x, y);
  }
}

/// dx = dy / (1 - rate) where the element was kept, else 0: the same map, with the same mask.
///
/// Shapes: dy (B, pixels, C); dx (B, pixels, C), which may be dy.
template <class T>
void dropout_gradient(Stream const& stream, int batch, int channels, int pixels,
                      DropoutSource const& source, float rate, T const* dy, T* dx) {
  dropout_forward(stream, batch, channels, pixels, source, rate, dy, dx);
}

/// dropout_forward() of some rows of a batch, and of a slice of the columns of each, with the mask
/// that the whole batch has; likewise of gradients.
///
/// Shapes: x (rows, own); y (rows, own), which may be x.
/// Cost:   one Philox block of 10 rounds for each four elements where the runs of columns are
///         multiples of 4, else for each element; bound by arithmetic.
/// @pre    as of dropout_forward()
template <class T>
void drop_columns(Stream const& stream, DropoutRows const& rows, DropoutColumns const& columns,
                  DropoutSource const& source, float rate, T const* x, T* y) {
  if (rate == 0.0F) {
    copy(stream, x, y, rows.count * columns.own);
  } else if (columns.in_steps_of(4)) {
    detail::drop_columns<4>(stream, rows, columns, source, rate, x, y);
  } else {
    detail::drop_columns<1>(stream, rows, columns, source, rate, x, y);
  }
}

}  // namespace tandem::cuda
