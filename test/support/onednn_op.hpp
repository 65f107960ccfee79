// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What tests of oneDNN's ops share: numbers, a device's memory with guards, and bounds of errors.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/onednn/refusal.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::test {

/// Whether oneDNN computes in T on this processor; a test that goes without says so.
template <class T>
bool computes() {
  bool const can = !std::is_same_v<T, BFloat16> || onednn::detail::has_avx512();
  if (!can) {
    MESSAGE("skipped: this processor has no AVX-512, which oneDNN wants for bf16");
  }
  return can;
}

/// Numbers in [-1, 1) that T holds exactly.
template <class T>
std::vector<double> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 generator{seed};
  std::uniform_real_distribution<float> uniform{-1.0F, 1.0F};
  std::vector<double> list;
  for (std::int64_t i = 0; i < count; ++i) {
    list.push_back(static_cast<double>(static_cast<float>(T{uniform(generator)})));
  }
  return list;
}

template <class T>
std::vector<T> as(std::vector<double> const& list) {
  std::vector<T> cast;
  for (double const number : list) {
    if constexpr (std::is_same_v<T, double>) {
      cast.push_back(number);
    } else {
      cast.push_back(T{static_cast<float>(number)});
    }
  }
  return cast;
}

template <class T>
std::vector<double> as_doubles(std::vector<T> const& list) {
  std::vector<double> wide;
  for (T const& number : list) {
    if constexpr (std::is_same_v<T, double>) {
      wide.push_back(number);
    } else {
      wide.push_back(static_cast<double>(static_cast<float>(number)));
    }
  }
  return wide;
}

inline std::vector<double> magnitudes(std::vector<double> list) {
  for (double& number : list) {
    number = std::fabs(number);
  }
  return list;
}

/// What an op asks for, filled with bytes that make NaNs, and guards behind it.
class OpMemory {
 public:
  explicit OpMemory(OpNeeds const& needs)
      : scratch_{needs.scratch_bytes}, packed_{needs.packed_bytes} {}

  /// Hands the scratch to @p device.
  void give(host::Device& device) {
    device.scratch = scratch_.data();
    device.scratch_bytes = scratch_.bytes;
  }
  [[nodiscard]] std::byte* packed() const { return packed_.data(); }
  [[nodiscard]] bool guards_hold() const { return scratch_.holds() && packed_.holds(); }

 private:
  struct Guarded {
    explicit Guarded(std::int64_t wanted)
        : bytes{wanted}, buffer{static_cast<std::size_t>(wanted + guard)} {
      std::memset(buffer.data(), 0xFF, buffer.bytes());
    }
    [[nodiscard]] std::byte* data() const { return buffer.data(); }
    [[nodiscard]] bool holds() const {
      for (std::int64_t i = 0; i < guard; ++i) {
        if (buffer.data()[bytes + i] != std::byte{0xFF}) {
          return false;
        }
      }
      return true;
    }
    static constexpr std::int64_t guard = 4096;
    std::int64_t bytes;
    host::Buffer buffer;
  };

  Guarded scratch_;
  Guarded packed_;
};

/// The largest error over its bound: that of a sum of @p terms products in fp32, whose magnitudes
/// add up to @p sums, rounded once to the result's type. NaN if any number is.
///
/// Derivation: each of `terms` additions errs by half an ulp of a partial sum at most; errors of
/// random sign add up to about the root of their number.
template <class T>
double error_over_bound(std::vector<T> const& result, std::vector<double> const& wanted,
                        std::vector<double> const& sums, double terms) {
  if (result.size() != wanted.size() || sums.size() != wanted.size()) {
    return INFINITY;
  }
  double const rounding = std::is_same_v<T, BFloat16> ? 0x1P-8 : 0x1P-23;
  double const summing = (std::sqrt(terms) + 4.0) * 0x1P-23;
  std::vector<double> const got = as_doubles(result);
  double worst = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    double const bound = rounding * std::fabs(wanted[i]) + summing * sums[i] + 0x1P-126;
    double const ratio = std::fabs(got[i] - wanted[i]) / bound;
    if (!(ratio <= worst)) {
      worst = ratio;
    }
    if (std::isnan(worst)) {
      return worst;
    }
  }
  return worst;
}

}  // namespace tandem::test
