// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of batch norm share: cases, forward's results, and what they should be.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <tandem/kernels/cuda/batch_norm.cuh>

#include "cuda/normalize/support.hpp"

namespace tandem::test {

inline constexpr double epsilon = 0x1p-16;

/// The inputs of one case; x is rows by columns.
template <class T>
struct Case {
  using P = MasterOf<T>;
  Size n;
  std::vector<T> x;
  std::vector<P> gain = numbers<P>(n.columns, 2, 1, 0.5);
  std::vector<P> bias = numbers<P>(n.columns, 3, 0.5);
};

/// Forward's results, still on the device.
template <class T>
struct Trained {
  using P = MasterOf<T>;
  DeviceArray<T> x, y;
  DeviceArray<P> gain, bias;
  DeviceArray<std::byte> saved_bytes, scratch;
  BatchNormSaved<P> saved;

  Trained(Case<T> const& c, bool relu, bool unaligned = false)
      : x{gpu(), c.x, {.unaligned = unaligned}},
        y{gpu(), c.n.elements(), {.unaligned = unaligned}},
        gain{gpu(), c.gain},
        bias{gpu(), c.bias},
        saved_bytes{gpu(), BatchNormSaved<P>::bytes(c.n.columns)},
        scratch{gpu(), cuda::batch_norm_scratch_bytes<T>(c.n.rows, c.n.columns)},
        saved{BatchNormSaved<P>::at(saved_bytes.data(), c.n.columns)} {
    cuda::batch_norm_forward(gpu().compute, x.data(), c.n.rows, c.n.columns, gain.data(),
                             bias.data(), static_cast<P>(epsilon), relu, y.data(), saved,
                             scratch.data());
  }

  /// Array @p which of the five that are saved.
  [[nodiscard]] std::vector<P> read(int which) const {
    std::vector<std::byte> const bytes = saved_bytes.host();
    std::vector<P> all(bytes.size() / sizeof(P));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    auto const c = static_cast<std::ptrdiff_t>(all.size() / 5);
    return {all.begin() + which * c, all.begin() + (which + 1) * c};
  }
};

/// Forward in 64 bits of fraction, and bounds of what rounding does to each result.
template <class T>
struct Reference {
  static long double number(T x) { return test::number(x); }

  std::vector<double> y, mean, inverse, variance, mean_bound, variance_bound, inverse_bound, widest;

  explicit Reference(Case<T> const& c)
      : y(c.x.size()), mean(c.gain.size()), inverse(c.gain.size()), variance(c.gain.size()) {
    std::size_t const columns = mean.size();
    for (std::size_t j = 0; j < columns; ++j) {
      long double sum = 0;
      long double squares = 0;
      for (std::size_t at = j; at < c.x.size(); at += columns) {
        sum += number(c.x[at]);
      }
      long double const middle = sum / c.n.rows;
      for (std::size_t at = j; at < c.x.size(); at += columns) {
        squares += (number(c.x[at]) - middle) * (number(c.x[at]) - middle);
      }
      long double const one_over = 1 / std::sqrt(squares / c.n.rows + epsilon);
      for (std::size_t at = j; at < c.x.size(); at += columns) {
        y[at] = static_cast<double>((number(c.x[at]) - middle) * one_over * c.gain[j] + c.bias[j]);
      }
      mean[j] = static_cast<double>(middle);
      variance[j] = static_cast<double>(squares / c.n.rows);
      inverse[j] = static_cast<double>(one_over);
    }
    double const u = unit<T>;
    double const k = roundings<T>(c.n.rows, c.n.columns) + 2;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      double r = 0;  // largest distance from the mean; values are counted from one of them: <= 2 r
      for (std::size_t at = i; at < c.x.size(); at += mean.size()) {
        r = std::max(r, std::abs(test::number(c.x[at]) - mean[i]));
      }
      widest.push_back(r);
      mean_bound.push_back(2 * k * u * r + u * std::abs(mean[i]));
      // A distance is off by e = 2 k u r, its square by 2 e distance + e², and k roundings are in
      // the sum of squares; the mean of |distance| is at most the deviation.
      double const e = 2 * k * u * r;
      variance_bound.push_back(2 * e * std::sqrt(variance[i]) + e * e + 2 * k * u * variance[i]);
      double const relative = variance_bound[i] / 2 / (variance[i] + epsilon) + 2 * u;
      inverse_bound.push_back(relative * inverse[i]);
    }
  }
};

/// Ordinary numbers of each size; a large common offset; an outlier, first or last.
template <class T>
std::vector<Case<T>> cases() {
  std::vector<Case<T>> all;
  for (Size const& n : sizes) {
    all.push_back({n, numbers<T>(n.elements(), 1)});
  }
  for (Size const& n : {Size{1000, 17}, Size{3000, 8}}) {
    double const offset = sizeof(T) == 2 ? 8 : sizeof(T) == 4 ? 1000 : 1e9;
    double const scale = sizeof(T) == 2 ? 1 : 0.17;  // a deviation of 0.1
    all.push_back({n, numbers<T>(n.elements(), 4, scale, offset)});
  }
  for (bool first : {true, false}) {
    Case<T> c{{3000, 8}, numbers<T>(24000, 5)};
    for (std::ptrdiff_t i = 0; i < 8; ++i) {
      *(first ? c.x.begin() + i : c.x.end() - 1 - i) = static_cast<T>(MasterOf<T>{1000});
    }
    all.push_back(c);
  }
  return all;
}

}  // namespace tandem::test
