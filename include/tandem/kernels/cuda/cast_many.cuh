// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// cast_many: casts of several arrays in one launch.

#include <cstdint>

#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/cast_queue.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Which blocks belong to which array: those from first[i] on to entry i.
struct CastTable {
  CastQueue::Entry entry[CastQueue::most] = {};
  unsigned first[CastQueue::most] = {};
  unsigned blocks = 0;
  int count = 0;

  /// The array of a block.
  [[nodiscard]] TANDEM_HOST_DEVICE int of(unsigned block) const {
    int low = 0;
    for (int high = count; high - low > 1;) {
      int const middle = (low + high) / 2;
      if (first[middle] <= block) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

template <class T, class U, bool Adds>
TANDEM_KERNEL void cast_many_kernel(CastTable table) {
  await_previous();
  int const own = table.of(blockIdx.x);
  T const* const x = static_cast<T const*>(table.entry[own].from);
  U* const y = static_cast<U*>(table.entry[own].to);
  std::int64_t const n = table.entry[own].count;
  unsigned const block = blockIdx.x - table.first[own];
  unsigned const blocks =
      (own + 1 < table.count ? table.first[own + 1] : table.blocks) - table.first[own];
  auto const map = [&](auto const& body) {
    constexpr int width = full_pack<U, T>;
    bool const whole =
        (reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y)) % 16 == 0;
    if (whole) {
      map_block<width>(n, body, block, block == blocks - 1);
    } else {
      constexpr std::int64_t elements = std::int64_t{width} * map_block_packs;
      std::int64_t const end = (block + 1) * elements < n ? (block + 1) * elements : n;
      for (std::int64_t i = block * elements + static_cast<int>(threadIdx.x); i < end;
           i += map_threads) {
        body.template write<1>(i, body.template read<1>(i));
      }
    }
  };
  if constexpr (Adds) {
    map(BinaryBody<Plus, U, U, T>{Plus{}, y, x, y});
  } else {
    map(UnaryBody<AsItIs, U, T>{AsItIs{}, x, y});
  }
}

}  // namespace detail

/// Of each of @p count arrays to[i] = from[i], from of type T and to of type U; with @p adds
/// to[i] += from[i]: the numbers that cast and cast_add give.
///
/// Cost: reads and writes each element once; bound by memory. One launch.
/// @pre  0 <= count <= CastQueue::most; no two arrays overlap
template <class T, class U>
void cast_many(Stream const& stream, CastQueue::Entry const* entries, int count, bool adds) {
  detail::CastTable table;
  for (int i = 0; i < count; ++i) {
    if (entries[i].count > 0) {
      table.entry[table.count] = entries[i];
      table.first[table.count++] = table.blocks;
      table.blocks +=
          blocks_for(entries[i].count, std::int64_t{full_pack<U, T>} * detail::map_block_packs);
    }
  }
  if (adds) {
    launch(detail::cast_many_kernel<T, U, true>, table.blocks, detail::map_threads, stream, table);
  } else {
    launch(detail::cast_many_kernel<T, U, false>, table.blocks, detail::map_threads, stream, table);
  }
}

/// Has all that waits in @p queue written.
template <class T, class U>
void finish_casts(Stream const& stream, CastQueue& queue) {
  if (queue.entries > 0) {
    cast_many<T, U>(stream, queue.entry, queue.entries, queue.adds);
  }
  queue.clear();
}

}  // namespace tandem::cuda
