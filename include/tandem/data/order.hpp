// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The order in which an epoch visits the samples: a permutation that (seed, epoch) determine.

#include <cstdint>
#include <span>

#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {

/// Fills @p order with 0, 1, …, n - 1, n being its size: the order without shuffling.
constexpr void ascending_order(std::span<std::int64_t> order) {
  std::int64_t index = 0;
  for (std::int64_t& place : order) {
    place = index++;
  }
}

/// Fills @p order with a permutation of 0, …, n - 1, n being its size.
///
/// The same (n, seed, epoch) give the same permutation everywhere; it needs no state from the
/// epochs before, so that a resumed run continues with the order it left.
///
/// Cost:   n / 4 Philox blocks of ten rounds, n swaps.
/// Order:  sequential; place i draws word i % 4 of block i / 4. The bias of a place is below n /
/// 2^32.
/// @pre    n < 2^32
/// Source: Fisher, Yates, 1938, in the form of Durstenfeld, CACM 7(7), 1964, algorithm 235
constexpr void shuffled_order(std::span<std::int64_t> order, std::uint64_t seed,
                              std::int64_t epoch) {
  expects(order.size() < (std::uint64_t{1} << 32), "shuffled_order: at most 2^32 - 1 samples");
  ascending_order(order);
  Random4 block{};
  for (std::size_t i = order.size(), drawn = i; i-- > 1;) {
    if (i / 4 != drawn) {
      drawn = i / 4;
      block = philox(seed, RandomUse::order, drawn, static_cast<std::uint64_t>(epoch));
    }
    std::size_t const j = below(block.word[i % 4], static_cast<std::uint32_t>(i + 1));
    std::int64_t const swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

}  // namespace tandem
