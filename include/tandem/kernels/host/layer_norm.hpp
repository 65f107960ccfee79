// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Layer norm and RMS norm over rows of C numbers; RMS norm is the one without Centered.
///
/// float and BFloat16 are computed in float, 16 at a time, double in double.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Rows are summed in parts, a function of their number only: at most 64, of 16 rows or more.
struct NormParts {
  std::int64_t each;
  std::int64_t count;

  explicit constexpr NormParts(std::int64_t rows)
      : each{std::max<std::int64_t>(16, (rows + 63) / 64)}, count{(rows + each - 1) / each} {}
};

/// Bytes of scratch of norm_gradient: for each part two sums a channel, of a block and of all.
template <class T>
constexpr std::int64_t norm_scratch_bytes(std::int64_t rows, int channels) {
  return NormParts{rows}.count * 2 * channels *
         static_cast<std::int64_t>(sizeof(double) + sizeof(Real<T>));
}

/// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, each row by its own mean and (biased)
/// variance; without Centered the mean is 0 and the variance that of squares.
///
/// Shapes: x (rows, C), gain, bias (C), bias or null; y (rows, C), which may be x; mean and
///         inverse, 1 / sqrt(variance + epsilon), (rows) each, mean without Centered null.
/// Cost:   reads and writes rows C elements once; bound by memory.
/// Order:  16 interleaved sums of a row, then a binary tree; in double one sum in index order.
/// Source: Ba, Kiros, Hinton, arXiv:1607.06450, section 3; Zhang, Sennrich, arXiv:1910.07467
template <bool Centered, class T, class P>
TANDEM_NOINLINE void norm_forward(Team& team, std::int64_t rows, int channels, T const* x,
                                  P const* gain, P const* bias, double epsilon, T* y, P* mean,
                                  P* inverse) {
  using R = Real<T>;
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T const* const in = x + row * channels;
      T* const out = y + row * channels;
      auto m = wide<T>(0);
      if constexpr (Centered) {
        auto sum = wide<T>(0);
        for_wide<T>(0, channels, [&](std::int64_t c, auto some) { sum += some.load(in + c); });
        R const average = lane_total(sum) / static_cast<R>(channels);
        mean[row] = average;
        m = wide<T>(average);
      }
      auto squares = wide<T>(0);
      for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
        auto const distance = some.keep(some.load(in + c) - m, wide<T>(0));
        squares += distance * distance;
      });
      R const variance = lane_total(squares) / static_cast<R>(channels);
      R const scale = R{1} / std::sqrt(variance + static_cast<R>(epsilon));
      inverse[row] = scale;
      auto const s = wide<T>(scale);
      for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
        auto const scaled = (some.load(in + c) - m) * s * some.load(gain + c);
        some.store(out + c, bias != nullptr ? scaled + some.load(bias + c) : scaled);
      });
    }
  });
}

namespace detail {

/// dx of a row, unless it is null, and what the row adds to the sums of dy xhat and of dy.
template <bool Centered, class T, class P>
[[gnu::always_inline]] inline void norm_gradient_row(int channels, T const* x, T const* dy,
                                                     P const* gain, Real<T> mean, Real<T> inverse,
                                                     T* dx, Real<T>* dy_xhat, Real<T>* dy_sum) {
  using R = Real<T>;
  auto const m = wide<T>(Centered ? mean : R{0});
  auto const s = wide<T>(inverse);
  auto a = wide<T>(0);
  auto b = wide<T>(0);
  if (dx != nullptr) {
    for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
      auto const g = some.load(dy + c) * some.load(gain + c);
      a += g;
      b += g * ((some.load(x + c) - m) * s);
    });
    a = wide<T>(Centered ? lane_total(a) / static_cast<R>(channels) : R{0});
    b = wide<T>(lane_total(b) / static_cast<R>(channels));
  }
  for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
    auto const d = some.load(dy + c);
    auto const xhat = (some.load(x + c) - m) * s;
    some.store(dy_xhat + c, some.load(dy_xhat + c) + d * xhat);
    if constexpr (Centered) {
      some.store(dy_sum + c, some.load(dy_sum + c) + d);
    }
    if (dx != nullptr) {
      some.store(dx + c, (d * some.load(gain + c) - a - xhat * b) * s);
    }
  });
}

}  // namespace detail

/// dx, and the sums over rows that are the gradients of gain and bias, in one pass.
///
/// With g = dy gain: dx = (g - mean(g) - xhat mean(g xhat)) inverse; without Centered mean(g) is
/// left out. dgain = sum(dy xhat), dbias = sum(dy).
///
/// Shapes: x, dy (rows, C), gain (C), mean, inverse (rows) from forward; dx (rows, C), which may be
///         dy, or null; dgain (C), dbias (C) or null, both overwritten.
/// Cost:   reads x and dy and writes dx once; bound by memory.
/// Order:  within a part blocks of 256 rows in T, blocks and then parts in order in double.
/// @pre    scratch has norm_scratch_bytes<T>(rows, C), aligned for double
template <bool Centered, class T, class P>
TANDEM_NOINLINE void norm_gradient(Team& team, std::int64_t rows, int channels, T const* x,
                                   T const* dy, P const* gain, P const* mean, P const* inverse,
                                   T* dx, P* dgain, P* dbias, std::byte* scratch) {
  using R = Real<T>;
  constexpr std::int64_t block = 256;
  NormParts const parts{rows};
  std::int64_t const width = 2 * std::int64_t{channels};
  double* const totals = reinterpret_cast<double*>(scratch);
  R* const sums = reinterpret_cast<R*>(totals + parts.count * width);
  team.parallel_for(parts.count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      double* const total = totals + part * width;
      R* const sum = sums + begin * width;  // one for all parts of this thread: it stays in cache
      std::fill_n(total, width, 0.0);
      std::int64_t const last = std::min(rows, (part + 1) * parts.each);
      for (std::int64_t first = part * parts.each; first < last; first += block) {
        std::fill_n(sum, width, R{0});
        for (std::int64_t row = first; row < std::min(first + block, last); ++row) {
          std::int64_t const at = row * channels;
          detail::norm_gradient_row<Centered>(
              channels, x + at, dy + at, gain, Centered ? mean[row] : P{0}, inverse[row],
              dx != nullptr ? dx + at : nullptr, sum, sum + channels);
        }
        for (std::int64_t c = 0; c < width; ++c) {
          total[c] += static_cast<double>(sum[c]);
        }
      }
    }
  });
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double of_gain = 0;
      double of_bias = 0;
      for (std::int64_t part = 0; part < parts.count; ++part) {
        of_gain += totals[part * width + c];
        of_bias += totals[part * width + channels + c];
      }
      dgain[c] = static_cast<P>(of_gain);
      if (dbias != nullptr) {
        dbias[c] = static_cast<P>(of_bias);
      }
    }
  });
}

}  // namespace tandem::host
