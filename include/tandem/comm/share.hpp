// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::share_of: the part of an array that one rank works on for all.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::detail {

/// A rank's share of @p count elements: whole cache lines, so that no two ranks write to one.
struct Share {
  std::size_t begin;
  std::size_t end;
};

/// The size of all shares but those at the end, which may be smaller or empty.
constexpr std::size_t share_size(int ranks, std::size_t count, std::size_t element_bytes) {
  std::size_t const line = element_bytes < 64 ? 64 / element_bytes : 1;
  auto const n = static_cast<std::size_t>(ranks);
  return ((count + n - 1) / n + line - 1) / line * line;
}

constexpr Share share_of(int rank, int ranks, std::size_t count, std::size_t element_bytes) {
  std::size_t const size = share_size(ranks, count, element_bytes);
  std::size_t const begin = std::min(count, size * static_cast<std::size_t>(rank));
  return {begin, std::min(count, begin + size)};
}

/// Whether two buffers have no byte in common.
template <class T>
bool disjoint(std::span<T const> a, std::span<T const> b) {
  auto const from = reinterpret_cast<std::uintptr_t>(a.data());
  auto const to = reinterpret_cast<std::uintptr_t>(b.data());
  return from + a.size_bytes() <= to || to + b.size_bytes() <= from;
}

/// Whether two buffers of one size are the same elements or have none in common.
template <class T>
bool equal_or_disjoint(std::span<T const> a, std::span<T const> b) {
  return a.data() == b.data() || disjoint(a, b);
}

/// Whether @p part is the @p rank -th of @p whole's equal parts, or not in it at all.
template <class T>
bool part_or_disjoint(int rank, std::span<T const> whole, std::span<T const> part) {
  return part.data() == whole.data() + static_cast<std::size_t>(rank) * part.size() ||
         disjoint(whole, part);
}

}  // namespace tandem::detail
