// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of products and convolutions share: numbers, and errors against derived bounds.

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cublaslt/matmul_shape.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

namespace tandem::test {

/// Half a unit in the last place of a type.
template <class T>
inline constexpr double unit = sizeof(T) == 8               ? 0x1p-53
                               : sizeof(T) == 4             ? 0x1p-24
                               : std::is_same_v<T, Float16> ? 0x1p-11
                                                            : 0x1p-8;
/// The same of its smallest numbers, where that is worth a word: halves end at 2^-24.
template <class T>
inline constexpr double least_unit = std::is_same_v<T, Float16> ? 0x1p-25 : 0.0;

/// What a product of one precision may be off by, as a share of the sum of the magnitudes.
///
/// Sums of k terms err by k units at most, two where a tensor core cuts off instead of rounding;
/// Tf32 cuts both factors to 10 fraction bits, which errs by 2^-10 of each at most.
template <class Precision>
double product_error(std::int64_t terms) {
  using Compute = cuda::ComputeType<typename Precision::Scalar>;
  double const rounding = std::is_same_v<Precision, Tf32> ? 0x1.01p-9 : 0.0;
  return 2.0 * static_cast<double>(terms + 4) * unit<Compute> + rounding;
}

template <class Precision>
inline constexpr cuda::MatmulMath math_of =
    std::is_same_v<Precision, Tf32> ? cuda::MatmulMath::tf32 : cuda::MatmulMath::full;

template <class T>
T from_double(double x) {
  return static_cast<T>(static_cast<cuda::ComputeType<T>>(x));
}
template <class T>
double to_double(T x) {
  return static_cast<double>(cuda::load(x));
}

/// @p n numbers in [-1, 1), rounded to T.
template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<T> x(static_cast<std::size_t>(n));
  std::uint64_t i = 0;
  for (T& value : x) {
    value = from_double<T>(2 * uniform(philox(seed, RandomUse::user, i++, 0).word[0]) - 1);
  }
  return x;
}

template <class T>
std::vector<double> in_double(std::vector<T> const& x) {
  std::vector<double> y;
  y.reserve(x.size());
  for (T const value : x) {
    y.push_back(to_double(value));
  }
  return y;
}

/// The same numbers as the type that parameters have.
template <class P, class T>
std::vector<P> in_master(std::vector<T> const& x) {
  std::vector<P> y;
  for (T const value : x) {
    y.push_back(static_cast<P>(to_double(value)));
  }
  return y;
}

inline std::vector<double> magnitudes(std::vector<double> x) {
  for (double& value : x) {
    value = std::fabs(value);
  }
  return x;
}

/// The largest |got - wanted| / bound, where bound = share * magnitude + one rounding to T of what
/// is wanted, and of @p rounded, what may be rounded on the way; at most 1 if all is well, NaN or
/// infinite if not.
template <class T>
double worst(std::vector<T> const& got, std::vector<double> const& wanted,
             std::vector<double> const& magnitude, double share,
             std::vector<double> const& rounded = {}) {
  if (got.size() != wanted.size() || got.size() != magnitude.size()) {
    return INFINITY;
  }
  double result = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double const off = std::fabs(to_double(got[i]) - wanted[i]);
    double const on_the_way = rounded.empty() ? 0.0 : std::fabs(rounded[i]);
    double const bound = share * magnitude[i] +
                         unit<T> * (std::fabs(wanted[i]) + on_the_way + share * magnitude[i]) +
                         2 * least_unit<T>;
    if (std::isnan(off)) {
      return NAN;
    }
    if (off > 0.0) {
      result = std::fmax(result, off / bound);
    }
  }
  return result;
}

/// The last GPU, which is not the current one where there are several.
inline cuda::Device last_device() { return cuda::Device{cuda::device_count() - 1}; }

/// As many bytes as an op says it needs, poisoned, set as the device's scratch while it lives.
class Scratch {
 public:
  Scratch(cuda::RankDevice& device, std::int64_t bytes) : device_{device}, memory_{device, bytes} {
    device.scratch = memory_.data();
    device.scratch_bytes = bytes;
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  ~Scratch() {
    device_.scratch = nullptr;
    device_.scratch_bytes = 0;
  }

  [[nodiscard]] std::byte* data() const { return memory_.data(); }
  /// @throws std::runtime_error  something was written beyond it
  void check() const { static_cast<void>(memory_.host()); }

 private:
  cuda::RankDevice& device_;
  DeviceArray<std::byte> memory_;
};

}  // namespace tandem::test
