// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// cudnn_type: an element type as cuDNN names it.

#include <concepts>

#include <cudnn.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>

namespace tandem::cuda {

/// @tparam T  float, BFloat16 or Float16
template <class T>
  requires(std::same_as<T, float> || std::same_as<T, BFloat16> || std::same_as<T, Float16>)
inline constexpr cudnnDataType_t cudnn_type = std::same_as<T, float>      ? CUDNN_DATA_FLOAT
                                              : std::same_as<T, BFloat16> ? CUDNN_DATA_BFLOAT16
                                                                          : CUDNN_DATA_HALF;

}  // namespace tandem::cuda
