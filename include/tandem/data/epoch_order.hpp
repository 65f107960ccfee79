// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// KeyedPermutation: the order of an epoch without memory for it; EpochOrder: which sample of a
/// dataset stands where in an epoch; SampleNames: how errors name the samples of a batch.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {

/// A permutation of 0, …, n - 1 that (n, seed, epoch) determine, worked out place by place.
///
/// A place is a pair (l, r) of [0, a) × [0, b), a about the square root of n, a b >= n. Each round
/// adds to one of both a random number that the other one determines, which can be undone; where
/// the last round leaves [0, n), all are done again on what came out.
///
/// Cost:   some bytes; six Philox blocks an index, and at most a / n of that on average again.
/// Order:  none: any place at any time.
/// Source: Luby, Rackoff, "How to construct pseudorandom permutations from pseudorandom functions",
///         SIAM J. Comput. 17(2), 1988; Black, Rogaway, "Ciphers with arbitrary finite domains",
///         CT-RSA 2002, for pairs of any two sizes and for walking on to the next one inside
class KeyedPermutation {
 public:
  constexpr KeyedPermutation() = default;

  /// @throws ContractError  n is not in [0, 2^62)
  constexpr KeyedPermutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch)
      : n_{n}, seed_{seed}, epoch_{static_cast<std::uint64_t>(epoch)} {
    expects(n >= 0 && n < std::int64_t{1} << 62, "KeyedPermutation: n must be in [0, 2^62)");
    std::uint64_t root = 1;  // the least power of two whose square is n or more, then less
    while (root * root < static_cast<std::uint64_t>(n)) {
      root *= 2;
    }
    for (std::uint64_t step = root / 2; step > 0; step /= 2) {
      root -= (root - step) * (root - step) >= static_cast<std::uint64_t>(n) ? step : 0;
    }
    left_ = root;
    right_ = n > 0 ? (static_cast<std::uint64_t>(n) + root - 1) / root : 1;
  }

  [[nodiscard]] constexpr std::int64_t size() const { return n_; }

  /// What stands at @p place. @pre 0 <= place < size()
  [[nodiscard]] constexpr std::int64_t operator[](std::int64_t place) const {
    auto at = static_cast<std::uint64_t>(place);
    do {
      std::uint64_t left = at / right_;
      std::uint64_t right = at % right_;
      for (std::uint64_t round = 0; round < rounds; round += 2) {
        left = (left + number(round, right, left_)) % left_;
        right = (right + number(round + 1, left, right_)) % right_;
      }
      at = left * right_ + right;
    } while (at >= static_cast<std::uint64_t>(n_));
    return static_cast<std::int64_t>(at);
  }

 private:
  static constexpr std::uint64_t rounds = 6;

  // Of [0, below).
  [[nodiscard]] constexpr std::uint64_t number(std::uint64_t round, std::uint64_t other,
                                               std::uint64_t below) const {
    Random4 const drawn = philox(seed_, RandomUse::order, round << 32 | other, epoch_);
    return (std::uint64_t{drawn.word[0]} << 32 | drawn.word[1]) % below;
  }

  std::int64_t n_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t left_ = 1;   // a
  std::uint64_t right_ = 1;  // b
};

/// Which sample stands at each position of an epoch: each itself, as a table says, or by a
/// KeyedPermutation.
class EpochOrder {
 public:
  /// Samples of a shuffled dataset up to which the order is a table, by shuffled_order(): 8 MiB.
  static constexpr std::int64_t most_in_table = std::int64_t{1} << 20;

  /// Each of @p samples itself.
  explicit EpochOrder(std::int64_t samples = 0) : size_{samples} {}
  explicit EpochOrder(std::vector<std::int64_t> table)
      : size_{static_cast<std::int64_t>(table.size())}, table_{std::move(table)} {}
  explicit EpochOrder(KeyedPermutation const& permutation)
      : size_{permutation.size()}, permutation_{permutation}, is_permuted_{true} {}

  [[nodiscard]] std::int64_t size() const { return size_; }

  /// @pre 0 <= position < size()
  [[nodiscard]] std::int64_t operator[](std::int64_t position) const {
    if (is_permuted_) {
      return permutation_[position];
    }
    return table_.empty() ? position : table_[static_cast<std::size_t>(position)];
  }

 private:
  std::int64_t size_;
  std::vector<std::int64_t> table_{};
  KeyedPermutation permutation_{};
  bool is_permuted_ = false;
};

/// How an error names the samples of a batch: by their index in the dataset where the batch was
/// read from one, or else by their place in the batch.
struct SampleNames {
  EpochOrder const* order = nullptr;  ///< of the epoch that the batch is from; null: of none
  std::int64_t first = 0;             ///< where sample 0 is, in the epoch or in the batch

  /// "sample 812 of the dataset", or "sample 2 of the batch".
  [[nodiscard]] std::string operator()(std::int64_t sample) const {
    std::int64_t const place = first + sample;
    return "sample " + std::to_string(order != nullptr ? (*order)[place] : place) +
           (order != nullptr ? " of the dataset" : " of the batch");
  }
};

}  // namespace tandem
