// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Concatenation along the channels, channels-last: each part is a slice of every pixel.

#include <cstdint>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/divider.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/pointers.hpp>

namespace tandem::cuda {

namespace detail {

inline constexpr int concat_threads = 256;

/// Part i holds the channels [first[i], first[i + 1]) of the whole; all in packs.
template <class T>
struct ConcatParts {
  T* at[most_pointers];
  Divider packs[most_pointers];
  int first[most_pointers + 1];
};

/// Blocks (x, i) copy part i to its slice or, for Gather, the slice to the part.
template <int N, bool Gather, class Part, class Whole>
TANDEM_KERNEL void concat_kernel(std::uint32_t pixels, int whole_packs, ConcatParts<Part> parts,
                                 Whole* whole) {
  await_previous();
  int const part = static_cast<int>(blockIdx.y);
  int const packs = parts.first[part + 1] - parts.first[part];
  std::uint32_t const thread = blockIdx.x * concat_threads + threadIdx.x;
  std::uint32_t pack = thread;
  std::uint32_t const pixel = parts.packs[part].split(pack);
  if (pixel >= pixels || parts.at[part] == nullptr) {
    return;
  }
  Part* const a = parts.at[part] + (std::int64_t{pixel} * packs + pack) * N;
  Whole* const b = whole + (std::int64_t{pixel} * whole_packs + parts.first[part] + pack) * N;
  if constexpr (Gather) {
    store_pack(a, load_pack<N>(b));
  } else {
    store_pack(b, load_pack<N>(a));
  }
}

template <int N, bool Gather, class Part, class Whole>
void concat(Stream const& stream, std::int64_t pixels, Pointers<Part> const& parts,
            int const* channels, Whole* whole) {
  ConcatParts<Part> table{};
  std::int64_t widest = 0;
  for (int i = 0; i < parts.count; ++i) {
    std::int64_t const packs = channels[i] / N;
    table.packs[i] = Divider{packs};
    table.first[i + 1] = table.first[i] + static_cast<int>(packs);
    widest = packs > widest ? packs : widest;
  }
  int const whole_packs = table.first[parts.count];
  for_chunks(pixels, widest, [&](std::int64_t first, std::int64_t count) {
    for (int i = 0; i < parts.count; ++i) {
      bool const wanted = parts.at[i] != nullptr;
      table.at[i] = wanted ? parts.at[i] + first * channels[i] : nullptr;
    }
    launch(concat_kernel<N, Gather, Part, Whole>,
           Grid{blocks_for(count * widest, concat_threads), static_cast<unsigned>(parts.count)},
           concat_threads, stream, static_cast<std::uint32_t>(count), whole_packs, table,
           whole + first * whole_packs * N);
  });
}

template <bool Gather, class Part, class Whole>
void concat(Stream const& stream, std::int64_t pixels, Pointers<Part> const& parts,
            int const* channels, Whole* whole) {
  bool packed = parts.aligned() && aligned(whole);
  for (int i = 0; i < parts.count; ++i) {
    expects(channels[i] >= 1, "cuda::concat: every part has at least one channel");
    packed = packed && channels[i] % full_pack<Part> == 0;
  }
  if (packed) {
    concat<full_pack<Part>, Gather>(stream, pixels, parts, channels, whole);
  } else {
    concat<1, Gather>(stream, pixels, parts, channels, whole);
  }
}

}  // namespace detail

/// y = the parts behind one another in every pixel.
///
/// Shapes: part i (pixels, channels[i]); y (pixels, sum of channels); pixels are those of the
/// batch. Cost:   reads and writes each element once, in one launch; bound by memory.
/// @pre    `channels` is in host memory; at most 64 parts
template <class T>
void concat_forward(Stream const& stream, std::int64_t pixels, Pointers<T const> const& parts,
                    int const* channels, T* y) {
  detail::concat<false>(stream, pixels, parts, channels, y);
}

/// Each part's gradient out of its slice of the concatenated gradient; null parts are left out.
///
/// Shapes: dy (pixels, sum of channels); part i (pixels, channels[i]).
/// Cost:   reads and writes each wanted element once, in one launch; bound by memory.
/// @pre    `channels` is in host memory; at most 64 parts
template <class T>
void concat_gradient(Stream const& stream, std::int64_t pixels, Pointers<T> const& parts,
                     int const* channels, T const* dy) {
  detail::concat<true>(stream, pixels, parts, channels, dy);
}

}  // namespace tandem::cuda
