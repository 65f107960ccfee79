// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// reduce_in_tree: several ranks' arrays joined element by element, in an order fixed by rank.
///
/// The order does not depend on who arrives first nor on how the elements are cut into chunks, so
/// the result has the same bits on every rank and in every run.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include <tandem/comm/reduction.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// The largest group of ranks that reduce_in_tree joins.
inline constexpr int max_tree_ranks = 256;

namespace detail {

/// For transports whose ranks are all in one process, which add up in one tree.
template <int Ranks>
struct OneProcessHolds {
  static constexpr bool value = true;
  static_assert(Ranks <= max_tree_ranks,
                "Transport<Ranks>: ranks in one process, by ThreadsTransport or VirtualTransport, "
                "are at most 256; take fewer devices");
};

}  // namespace detail

namespace detail {

/// Elements of a block of 4 KiB: those that a tree of 16 ranks works on stay in a first-level
/// cache.
template <class T>
inline constexpr std::size_t tree_block = sizeof(T) < 4096 ? 4096 / sizeof(T) : 1;

/// out = op(left, right); out overlaps neither.
template <class T, class Op>
void join(T const* left, T const* right, T* __restrict out, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = op(left[i], right[i]);
  }
}

/// left = op(left, right); they do not overlap.
template <class T, class Op>
void join_onto(T* __restrict left, T const* __restrict right, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) {
    left[i] = op(left[i], right[i]);
  }
}

/// Joins @p ranks >= 2 inputs into *block; the blocks before it are scratch, log2(ranks) in all.
template <class T, class Op>
void join_block(T const* const* inputs, int ranks, std::size_t begin, std::size_t count, Op op,
                T (*block)[tree_block<T>]) {
  int const half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)) / 2);
  if (half == 1) {
    join(inputs[0] + begin, inputs[1] + begin, *block, count, op);
    return;
  }
  join_block(inputs, half, begin, count, op, block);
  if (ranks - half == 1) {
    join_onto(*block, inputs[half] + begin, count, op);
  } else {
    join_block(inputs + half, ranks - half, begin, count, op, block - 1);
    join_onto(*block, *(block - 1), count, op);
  }
}

}  // namespace detail

/// outputs[r][i] = op over inputs[0][i], inputs[1][i], … for every r and every i in [begin, end).
///
/// Order:  tree(n) = op(tree(the first p), tree(the rest)), p the largest power of two below n; for
///         n = 3, 5, 6: (0 1) 2, ((0 1)(2 3)) 4, ((0 1)(2 3))(4 5). A binary counter gives the
///         same.
/// Cost:   reads n and writes outputs.size() elements for each i; bound by memory; no allocation.
/// @pre    1 <= inputs.size() <= max_tree_ranks; an output is one of the inputs or overlaps none
/// @throws ContractError  too few or too many inputs
template <class T, class Op>
  requires Reduction<Op, T> && std::is_trivially_copyable_v<T>
void reduce_in_tree(std::span<T const* const> inputs, std::size_t begin, std::size_t end,
                    std::span<T* const> outputs, Op op) {
  expects(!inputs.empty() && inputs.size() <= max_tree_ranks,
          "reduce_in_tree: the number of ranks must be between 1 and 256");
  constexpr std::size_t depth = std::bit_width(static_cast<unsigned>(max_tree_ranks) - 1);
  alignas(64) T blocks[depth][detail::tree_block<T>];
  for (std::size_t i = begin; i < end; i += detail::tree_block<T>) {
    std::size_t const count = std::min(detail::tree_block<T>, end - i);
    T const* joined = blocks[depth - 1];
    if (inputs.size() == 1) {
      joined = inputs[0] + i;
    } else {
      detail::join_block(inputs.data(), static_cast<int>(inputs.size()), i, count, op,
                         &blocks[depth - 1]);
    }
    for (T* const output : outputs) {
      if (output + i != joined) {
        std::memcpy(output + i, joined, count * sizeof(T));
      }
    }
  }
}

}  // namespace tandem
