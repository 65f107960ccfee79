// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::share_of: the part of an array that one rank works on for all; and what collectives
/// check.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/contract.hpp>

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

/// Whether @p part is the @p rank -th of @p whole's equal parts, or not in it at all.
template <class T>
bool part_or_disjoint(int rank, std::span<T const> whole, std::span<T const> part) {
  return part.data() == whole.data() + static_cast<std::size_t>(rank) * part.size() ||
         disjoint(whole, part);
}

/// Preconditions of collectives, where buffers may overlap as comm/concepts.hpp says.
template <class T>
void check_all_reduce(std::span<T const> in, std::span<T const> out) {
  expects(in.size() == out.size(), "all_reduce: in and out must have the same number of elements");
  expects(in.data() == out.data() || disjoint(in, out),
          "all_reduce: in and out must be the same elements or not overlap at all");
}
template <class T>
void check_reduce_scatter(int rank, int ranks, std::span<T const> in, std::span<T const> out) {
  expects(in.size() == out.size() * static_cast<std::size_t>(ranks),
          "reduce_scatter: in must have as many elements as the ranks' outs together");
  expects(part_or_disjoint(rank, in, out),
          "reduce_scatter: out must be this rank's part of in or not overlap it at all");
}
template <class T>
void check_all_gather(int rank, int ranks, std::span<T const> in, std::span<T const> out) {
  expects(out.size() == in.size() * static_cast<std::size_t>(ranks),
          "all_gather: out must have as many elements as the ranks' ins together");
  expects(part_or_disjoint(rank, out, in),
          "all_gather: in must be this rank's part of out or not overlap it at all");
}

}  // namespace tandem::detail
