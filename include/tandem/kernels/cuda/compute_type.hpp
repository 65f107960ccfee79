// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ComputeType: the type in which kernels do the arithmetic of elements stored as T.

#include <type_traits>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/float16.hpp>

namespace tandem::cuda {

/// double for double, float for every other element type.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// An element as its kernels compute with it; exact.
template <class T>
TANDEM_HOST_DEVICE constexpr ComputeType<T> load(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Float16>) {  // one instruction, subnormal numbers too
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
  }
#endif
  return static_cast<ComputeType<T>>(x);
}

/// a + b, where a or b may be a product: that is rounded first, in every kernel. Else nvcc makes
/// them one instruction where it finds both in one basic block, and fused kernels have other bits.
template <class T>
TANDEM_HOST_DEVICE constexpr T add_rounded(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, double>) {
    return __dadd_rn(a, b);
  } else {
    static_assert(std::is_same_v<T, float>);
    return __fadd_rn(a, b);
  }
#else
  return a + b;
#endif
}

/// A result as it is stored, rounded once, to nearest.
template <class T>
TANDEM_HOST_DEVICE constexpr T store(ComputeType<T> x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>) {  // one instruction in place of six
    BFloat16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
    return rounded;
  } else if constexpr (std::is_same_v<T, Float16>) {
    Float16 rounded;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
    return rounded;
  }
#endif
  return static_cast<T>(x);
}

}  // namespace tandem::cuda
