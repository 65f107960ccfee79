// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// cast: numbers of one element type as another; cast_add: added to what is there.
///
/// float and BFloat16 or Float16, both ways: for gradients in mixed precision and for what
/// collectives put on the wire. Rounds to nearest, ties to even.

#include <cstdint>

#include <tandem/kernels/cuda/elementwise.cuh>

namespace tandem::cuda {

namespace detail {

struct AsItIs {
  template <class C>
  TANDEM_HOST_DEVICE C operator()(C x) const {
    return x;
  }
};

}  // namespace detail

/// y[i] = x[i], rounded to U.
///
/// Cost: reads and writes n elements; bound by memory.
/// @pre  x and y do not overlap; where the types are the same they may be equal
template <class T, class U>
void cast(Stream const& stream, T const* x, U* y, std::int64_t n) {
  if constexpr (std::is_same_v<T, U>) {
    copy(stream, x, y, n);
  } else {
    transform(stream, detail::AsItIs{}, x, y, n);
  }
}

/// y[i] += x[i], added in ComputeType and rounded to U once (in double where either is one).
///
/// Cost: reads 2 n elements and writes n; bound by memory.
/// @pre  x and y do not overlap; where the types are the same they may be equal
template <class T, class U>
void cast_add(Stream const& stream, T const* x, U* y, std::int64_t n) {
  transform(stream, detail::Plus{}, y, x, y, n);
}

}  // namespace tandem::cuda
