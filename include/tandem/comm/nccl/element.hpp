// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which element types and reductions NCCL has, under this library's names.

#include <cstdint>

#include <nccl.h>

#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>

namespace tandem {

namespace detail {

template <class T>
struct NcclType {};
template <>
struct NcclType<float> {
  static constexpr ncclDataType_t value = ncclFloat32;
};
template <>
struct NcclType<double> {
  static constexpr ncclDataType_t value = ncclFloat64;
};
template <>
struct NcclType<BFloat16> {
  static constexpr ncclDataType_t value = ncclBfloat16;
};
template <>
struct NcclType<Float16> {
  static constexpr ncclDataType_t value = ncclFloat16;
};
template <>
struct NcclType<std::int32_t> {
  static constexpr ncclDataType_t value = ncclInt32;
};

template <class Op>
struct NcclOp {};
template <>
struct NcclOp<Sum> {
  static constexpr ncclRedOp_t value = ncclSum;
};
template <>
struct NcclOp<Max> {
  static constexpr ncclRedOp_t value = ncclMax;
};

}  // namespace detail

/// An element type that NCCL reduces and moves: float, double, BFloat16, Float16,
/// std::int32_t.
template <class T>
concept NcclElement = requires {
  detail::NcclType<T>::value;
};

/// A reduction that NCCL has: Sum, Max. NCCL does not say in which order it adds.
template <class Op>
concept NcclReduction = requires {
  detail::NcclOp<Op>::value;
};

}  // namespace tandem
