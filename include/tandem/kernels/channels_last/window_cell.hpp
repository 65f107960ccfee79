// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WindowCells: for each of 16 channels, which cell of a window; saved in bytes where they suffice.

#include <bit>
#include <cstdint>
#include <cstring>

#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/functors/window_cells.hpp>

namespace tandem::host::channels_last {

/// 16 numbers of cells.
struct WindowCells {
  detail::IntVector v;

  /// @p cell in every lane.
  [[gnu::always_inline]] explicit WindowCells(int cell) : v{cell - detail::IntVector{}} {}

  [[gnu::always_inline]] WindowCells& operator+=(int step) {
    v += step;
    return *this;
  }
  [[gnu::always_inline]] friend Mask operator==(WindowCells const& a, WindowCells const& b) {
    return {a.v == b.v};
  }
  [[gnu::always_inline]] friend WindowCells select(Mask const& mask, WindowCells const& a,
                                                   WindowCells const& b) {
    WindowCells result{0};
    result.v = mask.v ? a.v : b.v;
    return result;
  }
};

namespace detail {

using ByteVector = std::uint8_t __attribute__((vector_size(16)));

// GCC 12 does not find these instructions by itself: its conversions between 8 and 32 bits go lane
// by lane.
#if defined(__AVX512F__) && !defined(__clang__) && \
    __has_builtin(__builtin_ia32_pmovzxbd512_mask) && __has_builtin(__builtin_ia32_pmovdb512_mask)
using SignedBytes = char __attribute__((vector_size(16)));

[[gnu::always_inline]] inline void widen(ByteVector const& bytes, IntVector& ints) {
  ints = __builtin_ia32_pmovzxbd512_mask(std::bit_cast<SignedBytes>(bytes), IntVector{}, 0xFFFF);
}
[[gnu::always_inline]] inline void narrow(IntVector const& ints, ByteVector& bytes) {
  bytes = std::bit_cast<ByteVector>(__builtin_ia32_pmovdb512_mask(ints, SignedBytes{}, 0xFFFF));
}
#else
[[gnu::always_inline]] inline void widen(ByteVector const& bytes, IntVector& ints) {
  auto const halves = __builtin_convertvector(bytes, HalfVector);
  ints = __builtin_convertvector(halves, IntVector);
}
[[gnu::always_inline]] inline void narrow(IntVector const& ints, ByteVector& bytes) {
  auto const halves = __builtin_convertvector(ints, HalfVector);
  bytes = __builtin_convertvector(halves, ByteVector);
}
#endif

}  // namespace detail

[[gnu::always_inline]] inline WindowCells load_cells(std::uint8_t const* p, AllLanes) {
  detail::ByteVector bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  WindowCells cells{0};
  detail::widen(bytes, cells.v);
  return cells;
}
[[gnu::always_inline]] inline WindowCells load_cells(std::int32_t const* p, AllLanes) {
  WindowCells cells{0};
  std::memcpy(&cells.v, p, sizeof cells.v);
  return cells;
}
template <class Cell>
[[gnu::always_inline]] inline WindowCells load_cells(Cell const* p, FirstLanes first) {
  Cell part[lanes] = {};
  for (int i = 0; i < first.n; ++i) {
    part[i] = p[i];
  }
  return load_cells(part, AllLanes{});
}

[[gnu::always_inline]] inline void store_cells(std::uint8_t* p, WindowCells const& cells,
                                               AllLanes) {
  detail::ByteVector bytes;
  detail::narrow(cells.v, bytes);
  std::memcpy(p, &bytes, sizeof bytes);
}
[[gnu::always_inline]] inline void store_cells(std::int32_t* p, WindowCells const& cells,
                                               AllLanes) {
  std::memcpy(p, &cells.v, sizeof cells.v);
}
template <class Cell>
[[gnu::always_inline]] inline void store_cells(Cell* p, WindowCells const& cells,
                                               FirstLanes first) {
  Cell part[lanes];
  store_cells(part, cells, AllLanes{});
  for (int i = 0; i < first.n; ++i) {
    p[i] = part[i];
  }
}

}  // namespace tandem::host::channels_last
