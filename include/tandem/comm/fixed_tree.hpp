// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// reduce_in_tree: several ranks' arrays joined element by element, in an order fixed by rank.
///
/// The order does not depend on who arrives first nor on how the elements are cut into chunks, so
/// the result has the same bits on every rank and in every run.

#include <algorithm>
#include <array>
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

/// Elements of a block of 4 KiB: what is kept of it between two passes stays in a first-level
/// cache.
template <class T>
inline constexpr std::size_t tree_block = sizeof(T) < 4096 ? 4096 / sizeof(T) : 1;

/// Elements of a cache line.
template <class T>
inline constexpr std::size_t tree_line = sizeof(T) < 64 ? 64 / sizeof(T) : 1;

/// Inputs that are joined in registers, and outputs that are written from them.
inline constexpr std::size_t tree_registers = 8;
inline constexpr std::size_t tree_written = 4;

/// outputs[r][begin + i] = f(i) for every i below @p count. A line is joined in registers and then
/// written to the outputs, which may be what f reads at the same i, but nothing that it reads at
/// another; those behind the fourth are copied, since a core writes few streams at once.
template <class T, class F>
void fill_lines(std::span<T* const> outputs, std::size_t begin, std::size_t count, F const& f) {
  constexpr std::size_t line = tree_line<T>;
  auto const written = outputs.first(std::min(outputs.size(), tree_written));
  std::size_t i = 0;
  for (; i + line <= count; i += line) {
    T joined[line];
    for (std::size_t e = 0; e < line; ++e) {
      joined[e] = f(i + e);
    }
    for (T* const output : written) {
      std::memcpy(output + begin + i, joined, sizeof joined);
    }
  }
  for (; i < count; ++i) {
    T const joined = f(i);
    for (T* const output : written) {
      output[begin + i] = joined;
    }
  }
  for (T* const output : outputs.subspan(written.size())) {
    std::memcpy(output + begin, outputs[0] + begin, count * sizeof(T));
  }
}

/// op over inputs[0][i] … inputs[N - 1][i].
template <std::size_t N, class T, class Op>
T join_one(T const* const* inputs, std::size_t i, Op op) {
  if constexpr (N == 1) {
    return inputs[0][i];
  } else {
    constexpr std::size_t half = std::bit_ceil(N) / 2;
    return op(join_one<half>(inputs, i, op), join_one<N - half>(inputs + half, i, op));
  }
}

/// outputs[r][to + i] = op over inputs[0][begin + i], inputs[1][begin + i], … for every i below
/// @p count, of N inputs.
template <std::size_t N, class T, class Op>
void join_few(std::span<T const* const> inputs, std::size_t begin, std::size_t count, Op op,
              std::span<T* const> outputs, std::size_t to) {
  if (inputs.size() != N) {
    if constexpr (N > 1) {
      join_few<N - 1>(inputs, begin, count, op, outputs, to);
    }
    return;
  }
  std::array<T const*, N> own;
  for (std::size_t rank = 0; rank < N; ++rank) {
    own[rank] = inputs[rank] + begin;
  }
  fill_lines(outputs, to, count,
             [own, op](std::size_t i) { return join_one<N>(own.data(), i, op); });
}

/// outputs[r][to + i] = op over inputs[0][begin + i], inputs[1][begin + i], … for every i below
/// @p count, at most a block. Of many inputs each half fills a block, *scratch and the one before
/// it, where its own first half has been before.
template <class T, class Op>
void join_block(std::span<T const* const> inputs, std::size_t begin, std::size_t count, Op op,
                T (*scratch)[tree_block<T>], std::span<T* const> outputs, std::size_t to) {
  if (inputs.size() <= tree_registers) {
    join_few<tree_registers>(inputs, begin, count, op, outputs, to);
    return;
  }
  std::size_t const half = std::bit_ceil(inputs.size()) / 2;
  T* const left = *scratch;
  T* const right = *(scratch - 1);
  join_block(inputs.first(half), begin, count, op, scratch, std::span<T* const>{&left, 1}, 0);
  join_block(inputs.subspan(half), begin, count, op, scratch - 1, std::span<T* const>{&right, 1},
             0);
  fill_lines(outputs, to, count, [=](std::size_t i) { return op(left[i], right[i]); });
}

}  // namespace detail

/// outputs[r][i] = op over inputs[0][i], inputs[1][i], … for every r and every i in [begin, end).
///
/// Order:  tree(n) = op(tree(the first p), tree(the rest)), p the largest power of two below n; for
///         n = 3, 5, 6: (0 1) 2, ((0 1)(2 3)) 4, ((0 1)(2 3))(4 5). A binary counter gives the
///         same.
/// Cost:   reads n and writes outputs.size() elements for each i, once where n <= 8; bound by
///         memory; no allocation, 24 KiB of the stack.
/// @pre    1 <= inputs.size() <= max_tree_ranks; an output is one of the inputs or overlaps none
/// @throws ContractError  too few or too many inputs
template <class T, class Op>
  requires Reduction<Op, T> && std::is_trivially_copyable_v<T>
void reduce_in_tree(std::span<T const* const> inputs, std::size_t begin, std::size_t end,
                    std::span<T* const> outputs, Op op) {
  expects(!inputs.empty() && inputs.size() <= max_tree_ranks,
          "reduce_in_tree: the number of ranks must be between 1 and 256");
  // 256 ranks are halved five times before there are eight.
  constexpr std::size_t blocks = std::bit_width(max_tree_ranks / detail::tree_registers - 1) + 1;
  alignas(64) T scratch[blocks][detail::tree_block<T>];
  for (std::size_t i = begin; i < end; i += detail::tree_block<T>) {
    std::size_t const count = std::min(detail::tree_block<T>, end - i);
    detail::join_block(inputs, i, count, op, &scratch[blocks - 1], outputs, i);
  }
}

}  // namespace tandem
