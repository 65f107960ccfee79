// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ComputeType: the type in which kernels do the arithmetic of elements stored as T.

#include <type_traits>

#include <tandem/core/config.hpp>

namespace tandem::cuda {

/// double for double, float for every other element type.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// An element as its kernels compute with it; exact.
template <class T>
TANDEM_HOST_DEVICE constexpr ComputeType<T> load(T x) {
  return static_cast<ComputeType<T>>(x);
}

/// A result as it is stored, rounded once, to nearest.
template <class T>
TANDEM_HOST_DEVICE constexpr T store(ComputeType<T> x) {
  return static_cast<T>(x);
}

}  // namespace tandem::cuda
