// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Divider: division by a number that is known before the kernel, as a product and a shift; and
/// for_chunks, which cuts a batch so that indices within a launch stay below 2³¹.
///
/// A kernel that turns a flat index into (sample, row, column, channel) would otherwise spend more
/// time in 64-bit divisions than in reading memory.

#include <bit>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem::cuda {

/// n / d and n mod d for 0 <= n < 2³¹.
///
/// With s = ceil(log2 d) and m = ceil(2^(31 + s) / d), floor(n m / 2^(31 + s)) is n / d: m d
/// exceeds 2^(31 + s) by less than d <= 2^s, so that n m / 2^(31 + s) exceeds n / d by less than n
/// / (2³¹ d) < 1 / d. Source: Granlund, Montgomery, PLDI 1994, theorem 4.2.
class Divider {
 public:
  Divider() = default;
  /// @pre 1 <= divisor < 2³¹
  explicit constexpr Divider(std::int64_t divisor)
      : divisor_{static_cast<std::uint32_t>(divisor)},
        shift_{static_cast<std::uint32_t>(31 + std::bit_width(divisor_ - 1))},
        factor_{
            static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor_ - 1) / divisor_)} {}

  /// n / d; @p n becomes n mod d.
  TANDEM_HOST_DEVICE constexpr std::uint32_t split(std::uint32_t& n) const {
    auto const quotient = static_cast<std::uint32_t>((std::uint64_t{n} * factor_) >> shift_);
    n -= quotient * divisor_;
    return quotient;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t shift_ = 31;
  std::uint32_t factor_ = std::uint32_t{1} << 31;  // m is below 2³², since 2^s < 2 d
};

/// The most threads of one launch; a power of two below 2³¹ by enough to round up to whole blocks.
inline constexpr std::int64_t most_threads = std::int64_t{1} << 30;

/// f(first, count) for consecutive runs of samples that cover [0, batch), of at most @p most items
/// each where a sample has @p items; one run in all but huge batches, none where there is no item.
/// @throws ContractError  a single sample has more than 2³⁰ items
template <class Function>
void for_chunks(std::int64_t batch, std::int64_t items, Function const& f,
                std::int64_t most = most_threads) {
  if (batch <= 0 || items <= 0) {
    return;
  }
  expects(items <= most_threads, "a kernel: one sample has more than 2^30 elements");
  std::int64_t const samples = most > items ? most / items : 1;
  for (std::int64_t first = 0; first < batch; first += samples) {
    f(first, batch - first < samples ? batch - first : samples);
  }
}

}  // namespace tandem::cuda
