// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSums: the loss and the metrics of each of a rank's microbatches, in double, and their sums
/// over the microbatches of all ranks.
///
/// Those are exact (core/exact_sum.hpp), so that they have the same bits on any number of ranks,
/// and what ranks exchange is as large for any number of microbatches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/exact_sum.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/metric_values.hpp>
#include <tandem/engine/step/state.hpp>

namespace tandem {

namespace detail {

/// Adds one number of each of @p count microbatches to its row of lanes, or two neighbouring
/// numbers to their rows. Numbers with the same sign and exponent are added as integers, all at
/// once; a run of others is halved.
/// @tparam Words  the bits of one number or of two
/// @param each    numbers that a microbatch has
template <class Words>
void add_microbatches(double const* sums, std::size_t count, std::size_t each, double* lanes) {
  constexpr std::size_t numbers = sizeof(Words) / sizeof(double);
  Words sum{};
  Words any{};
  Words all = ~any;
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)  // clang does so by itself
#pragma GCC unroll 8
#endif
  for (std::size_t i = 0; i < count; ++i) {
    Words bits;
    std::memcpy(&bits, sums + i * each, sizeof bits);
    sum += bits;
    any |= bits;
    all &= bits;
  }
  auto const number = [](Words const& words, std::size_t n) {
    std::uint64_t own[numbers];
    std::memcpy(own, &words, sizeof words);
    return own[n];
  };
  constexpr std::size_t most = 1024;  // mantissas below 2^53 whose sum has 63 bits
  bool alike = count <= most;
  for (std::size_t n = 0; n < numbers; ++n) {
    alike = alike && (number(any, n) ^ number(all, n)) >> 52 == 0 &&
            is_finite(__builtin_bit_cast(double, number(any, n)));
  }
  if (!alike && count > 4) {
    add_microbatches<Words>(sums, count / 2, each, lanes);
    add_microbatches<Words>(sums + count / 2 * each, count - count / 2, each, lanes);
    return;
  }
  for (std::size_t n = 0; n < numbers; ++n, lanes += exact_lanes) {
    if (alike) {
      std::uint64_t const first = number(all, n);
      // Signs and exponents are taken out of the sum, and the bits that are not stored are added.
      std::uint64_t const units =
          number(sum, n) + count * (exact_mantissa(first >> 52 << 52) - (first >> 52 << 52));
      add_units(units, exact_place(__builtin_bit_cast(double, first)), first >> 63 != 0, lanes);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      add_exactly(sums[i * each + n], lanes);
    }
  }
}

}  // namespace detail

/// The rows of sums of core/exact_sum.hpp: of each number that a microbatch has.
/// @param each   numbers that a microbatch has
/// @param lanes  (each, exact_lanes)
TANDEM_ONCE TANDEM_COLD void put_exact_lanes(std::span<double const> sums, std::size_t each,
                                             double* lanes);

/// The mean losses over result.weight and metrics over result.counted. Where the sum of the losses
/// is not finite, result.non_finite is the first of these microbatches whose loss is not, or their
/// number.
/// @param sums   of each microbatch of the rank its loss and @p metrics metrics
/// @param lanes  their sums over all ranks; null: there are no others
TANDEM_ONCE TANDEM_COLD void finish_sums(std::span<double const> sums, int metrics,
                                         StepResult& result, double const* lanes = nullptr);

/// In the memory of a device; the primary template is for devices that share the host's.
template <class Backend>
class StepSums {
 public:
  using Device = typename Backend::Device;

  /// @param microbatches  of the rank
  /// @param metrics       sums that each microbatch has besides its loss
  /// @param spreads       whether finish() reads what spread() has given away, summed by others
  StepSums(Device& /*device*/, int microbatches, int metrics = 1, bool spreads = false)
      : metrics_{metrics},
        sums_(each() * static_cast<std::size_t>(microbatches)),
        lanes_(spreads ? each() * exact_lanes : 0) {}

  void clear(Device& /*device*/) { std::fill(sums_.begin(), sums_.end(), 0.0); }

  /// Zeros for one microbatch.
  void clear(Device& /*device*/, int microbatch) { std::fill_n(loss(microbatch), each(), 0.0); }

  /// Zeros, or for a no a loss that leaves no sum finite.
  void vote(Device& device, bool yes) {
    clear(device);
    *loss(0) = yes ? 0.0 : std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] double* loss(int microbatch) {
    return &sums_[each() * static_cast<std::size_t>(microbatch)];
  }
  /// The first of its metrics.
  [[nodiscard]] double* metric(int microbatch) { return loss(microbatch) + 1; }

  /// The metrics of microbatch 0, and none of a loss.
  void put(Device& device, std::span<double const> metrics) {
    clear(device);
    std::copy(metrics.begin(), metrics.end(), metric(0));
  }
  /// @pre the device has done what is queued
  void get(Device& /*device*/, std::span<double> metrics) {
    std::copy_n(metric(0), metrics.size(), metrics.begin());
  }
  [[nodiscard]] std::span<double> all() { return sums_; }
  [[nodiscard]] int microbatches() const { return static_cast<int>(sums_.size() / each()); }

  /// The sums of all that is there, to be added up over the ranks; made without `spreads` nothing.
  std::span<double> spread(Device& /*device*/) {
    if (!lanes_.empty()) {
      put_exact_lanes(sums_, each(), lanes_.data());
    }
    return lanes_;
  }

  /// In place of spread(), where another rank has the same and gives it away.
  std::span<double> nothing(Device& /*device*/) {
    std::fill(lanes_.begin(), lanes_.end(), 0.0);
    return lanes_;
  }

  /// What finish() names where the sum over the ranks is not finite; of this rank's losses as they
  /// are now.
  [[nodiscard]] int first_bad() const {
    StepResult own;
    finish_sums(sums_, metrics_, own);
    return own.non_finite >= 0 ? own.non_finite : microbatches();
  }

  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Fills in *result, but for its norm; non_finite as finish_sums() does.
  /// @param state    in the device's memory
  /// @param samples  of the global batch
  void finish(Device& /*device*/, StepState const* state, int samples, StepResult* result) const {
    result->samples = samples;
    result->weight = state->targets >= 0.0 ? state->targets : samples;
    result->counted = state->counted >= 0.0 ? state->counted : samples;
    finish_sums(sums_, metrics_, *result, lanes_.empty() ? nullptr : lanes_.data());
  }

 private:
  [[nodiscard]] std::size_t each() const { return 1 + static_cast<std::size_t>(metrics_); }

  int metrics_;
  std::vector<double> sums_;   // (microbatches, 1 + metrics)
  std::vector<double> lanes_;  // (1 + metrics, exact_lanes)
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void put_exact_lanes(std::span<double const> sums, std::size_t each, double* lanes) {
  using Pair = std::uint64_t __attribute__((vector_size(16)));
  std::fill_n(lanes, each * exact_lanes, 0.0);
  if (sums.empty()) {
    return;
  }
  std::size_t const count = sums.size() / each;
  std::size_t which = 0;
  for (; which + 2 <= each; which += 2) {
    detail::add_microbatches<Pair>(&sums[which], count, each, lanes + which * exact_lanes);
  }
  if (which < each) {
    detail::add_microbatches<std::uint64_t>(&sums[which], count, each, lanes + which * exact_lanes);
  }
}

TANDEM_ONCE void finish_sums(std::span<double const> sums, int metrics, StepResult& result,
                             double const* lanes) {
  std::size_t const each = 1 + static_cast<std::size_t>(metrics);
  double own[(1 + most_metrics) * exact_lanes];
  if (lanes == nullptr) {
    put_exact_lanes(sums, each, own);
    lanes = own;
  }
  auto const sum = [&](std::size_t which) { return exact_total(lanes + which * exact_lanes); };
  auto const mean = [](double all, double over) {
    return over > 0.0 ? all / over : 0.0 * all;  // nothing counts: 0, or NaN as the sum
  };
  double const loss = sum(0);
  result.loss = mean(loss, result.weight);
  for (int m = 0; m < metrics; ++m) {
    result.metrics.value[m] = mean(sum(1 + static_cast<std::size_t>(m)), result.counted);
  }
  result.metric = result.metrics.value[0];
  if (!is_finite(loss)) {
    std::size_t first = 0;
    while (first < sums.size() && is_finite(sums[first])) {
      first += each;
    }
    result.non_finite = static_cast<int>(first / each);
  }
}

}  // namespace tandem

#endif
