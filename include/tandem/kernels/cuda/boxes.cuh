// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rectangles of channels-last images: put together for others, and made of what others have sent.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/core/tile_box.hpp>
#include <tandem/kernels/cuda/box_launches.hpp>
#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>

namespace tandem::cuda {

/// What of each of many images is in @p box, one behind the other.
template <class T>
struct BoxImages {
  T* data = nullptr;
  TileBox box{};
};

namespace detail {

template <class T>
struct PackedBoxes {
  BoxImages<T> at[static_cast<std::size_t>(most_packed_boxes)] = {};
  Divider rows[static_cast<std::size_t>(most_packed_boxes)] = {};
  Divider columns[static_cast<std::size_t>(most_packed_boxes)] = {};
  std::uint32_t items[static_cast<std::size_t>(most_packed_boxes)] = {};  // packs of the samples
};

template <class T>
struct JoinedBoxes {
  int count = 0;
  BoxImages<T const> at[static_cast<std::size_t>(most_joined_boxes)] = {};
};

/// Pixel (row, column) of the whole image, of the sample and channels of @p at.
template <class T>
TANDEM_HOST_DEVICE T* pixel_of(BoxImages<T> const& images, ImageIndex const& at, int channels,
                               int row, int column) {
  return images.data +
         at.offset(images.box.size, channels, row - images.box.row, column - images.box.column);
}

/// One thread for N channels of a pixel; blockIdx.y says of which box.
template <int N, class T>
TANDEM_KERNEL void pack_boxes_kernel(std::int64_t first_sample, int channels, Divider packs,
                                     BoxImages<T const> from, PackedBoxes<T> to) {
  await_previous();
  std::uint32_t const box = blockIdx.y;
  std::uint32_t pack = blockIdx.x * image_block + threadIdx.x;
  if (pack >= to.items[box]) {
    return;
  }
  std::uint32_t column = packs.split(pack);
  std::uint32_t row = to.columns[box].split(column);
  std::uint32_t const sample = to.rows[box].split(row);
  ImageIndex const at{first_sample + static_cast<std::int64_t>(sample), static_cast<int>(row),
                      static_cast<int>(column), static_cast<int>(pack) * N};
  BoxImages<T> const& own = to.at[box];
  store_pack(
      own.data + at.offset(own.box.size, channels),
      load_pack<N>(pixel_of(from, at, channels, at.row + own.box.row, at.column + own.box.column)));
}

/// One thread for N channels of a pixel of what is written.
/// @param begins  whether nothing has been written yet: no earlier launch had more boxes
template <int N, bool Add, class T>
TANDEM_KERNEL void join_boxes_kernel(std::uint32_t count, ImageThreads threads, int channels,
                                     BoxImages<T> to, JoinedBoxes<T> from, T outside, bool begins) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  int const row = at.row + to.box.row;
  int const column = at.column + to.box.column;
  T* const y = to.data + at.offset(to.box.size, channels);
  if constexpr (Add) {
    Pack<ComputeType<T>, N> sum = {};
    if (!begins) {
      sum = loaded(load_pack<N>(y));
    }
    for (int i = 0; i < from.count; ++i) {
      if (from.at[i].box.has(row, column)) {
        auto const value = loaded(load_pack<N>(pixel_of(from.at[i], at, channels, row, column)));
        for (int k = 0; k < N; ++k) {
          sum.value[k] += value.value[k];
        }
      }
    }
    store_pack(y, stored<T>(sum));
  } else {
    int source = 0;
    while (source < from.count && !from.at[source].box.has(row, column)) {
      ++source;
    }
    if (source < from.count) {
      store_pack(y, load_pack<N>(pixel_of(from.at[source], at, channels, row, column)));
    } else if (begins) {
      Pack<T, N> value;
      for (int k = 0; k < N; ++k) {
        value.value[k] = outside;
      }
      store_pack(y, value);
    }
  }
}

template <class T>
bool packs_boxes(int channels, std::span<BoxImages<T> const> boxes) {
  return std::all_of(boxes.begin(), boxes.end(), [channels](BoxImages<T> const& own) {
    return packs_channels(channels, own.data);
  });
}

template <int N, class T>
void pack_boxes(Stream const& stream, int batch, int channels, BoxImages<T const> from,
                std::span<BoxImages<T> const> to) {
  for (std::size_t begin = 0; begin < to.size(); begin += most_packed_boxes) {
    std::size_t const count = std::min(to.size() - begin, std::size_t{most_packed_boxes});
    PackedBoxes<T> boxes;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      boxes.at[i] = to[begin + i];
      boxes.rows[i] = Divider{boxes.at[i].box.size.height};
      boxes.columns[i] = Divider{boxes.at[i].box.size.width};
      most = std::max(most, std::int64_t{boxes.at[i].box.pixels()} * (channels / N));
    }
    for_chunks(batch, most, [&](std::int64_t first, std::int64_t samples) {
      for (std::size_t i = 0; i < count; ++i) {
        boxes.items[i] = static_cast<std::uint32_t>(
            samples * std::int64_t{boxes.at[i].box.pixels()} * (channels / N));
      }
      launch(pack_boxes_kernel<N, T>,
             Grid{blocks_for(samples * most, image_block), static_cast<unsigned>(count)},
             image_block, stream, first, channels, Divider{channels / N}, from, boxes);
    });
  }
}

template <bool Add, class T>
void join_boxes(Stream const& stream, int batch, int channels, BoxImages<T> to,
                std::span<BoxImages<T const> const> from, T outside) {
  bool const packs = packs_channels(channels, to.data) && packs_boxes(channels, from);
  std::size_t begin = 0;
  do {
    JoinedBoxes<T> boxes;
    for (; boxes.count < most_joined_boxes &&
           begin + static_cast<std::size_t>(boxes.count) < from.size();
         ++boxes.count) {
      boxes.at[boxes.count] = from[begin + static_cast<std::size_t>(boxes.count)];
    }
    if (packs) {
      constexpr int width = full_pack<T>;
      launch_images(join_boxes_kernel<width, Add, T>, stream, batch, {to.box.size, channels, width},
                    channels, to, boxes, outside, begin == 0);
    } else {
      launch_images(join_boxes_kernel<1, Add, T>, stream, batch, {to.box.size, channels, 1},
                    channels, to, boxes, outside, begin == 0);
    }
    begin += most_joined_boxes;
  } while (begin < from.size());
}

}  // namespace detail

/// Each of @p to becomes what @p from has there.
///
/// Shapes: from (B, from's box, C); each of to (B, its box, C), no empty one.
/// Cost:   reads and writes each element of @p to once; bound by memory; one launch for 8 boxes.
/// @pre    the box of @p from has all of these
/// @throws ContractError  one box of a single image has more than 2³⁰ elements
template <class T>
void pack_boxes(Stream const& stream, int batch, int channels, BoxImages<T const> from,
                std::span<BoxImages<T> const> to) {
  if (packs_channels(channels, from.data) && detail::packs_boxes(channels, to)) {
    detail::pack_boxes<full_pack<T>>(stream, batch, channels, from, to);
  } else {
    detail::pack_boxes<1>(stream, batch, channels, from, to);
  }
}

/// @p to becomes what the others have there, which none of them has twice, or @p outside.
///
/// Shapes: to (B, its box, C); each of from (B, its box, C).
/// Cost:   reads each element that is taken once, and writes each of @p to once; bound by memory;
///         one launch for 16 of @p from.
/// @throws ContractError  a single image has more than 2³⁰ elements
template <class T>
void place_boxes(Stream const& stream, int batch, int channels, BoxImages<T> to,
                 std::span<BoxImages<T const> const> from, T outside) {
  detail::join_boxes<false>(stream, batch, channels, to, from, outside);
}

/// @p to becomes the sum of what the others have there, 0 where none has anything: the gradient of
/// place_boxes().
///
/// Shapes: as place_boxes.
/// Cost:   likewise.
/// Order:  that of @p from, in ComputeType; rounded after each 16 of them.
/// @throws ContractError  likewise
template <class T>
void add_boxes(Stream const& stream, int batch, int channels, BoxImages<T> to,
               std::span<BoxImages<T const> const> from) {
  detail::join_boxes<true>(stream, batch, channels, to, from, T{});
}

}  // namespace tandem::cuda
