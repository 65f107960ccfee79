// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::DeviceFor (CCCL 3.0), without extents and without the two-phase forms.

#include <cub/emulated/device_call.cuh>

namespace cub {

struct DeviceFor {
  template <class ShapeT, class OpT>
  static cudaError_t Bulk(ShapeT shape, OpT op, cudaStream_t stream = {}) {
    static_assert(std::is_integral_v<ShapeT>, "ShapeT must be an integral type");
    auto const n = static_cast<std::int64_t>(shape);
    return n == 0 ? cudaSuccess
                  : emulated::enqueue_algorithm(stream, "cub::DeviceFor::Bulk", [n, op]() mutable {
                      emulated::for_all(n, [&](std::int64_t i) { op(static_cast<ShapeT>(i)); });
                    });
  }

  template <class It, class NumItemsT, class OpT>
  static cudaError_t ForEachN(It first, NumItemsT num_items, OpT op, cudaStream_t stream = {}) {
    constexpr char const* name = "cub::DeviceFor::ForEachN";
    auto const n = static_cast<std::int64_t>(num_items);
    if (!emulated::usable(first, n, stream, name)) {
      return cudaErrorIllegalAddress;
    }
    return n == 0 ? cudaSuccess
                  : emulated::enqueue_algorithm(stream, name, [first, n, op]() mutable {
                      emulated::for_all(n, [&](std::int64_t i) { op(*(first + i)); });
                    });
  }

  template <class It, class OpT>
  static cudaError_t ForEach(It first, It last, OpT op, cudaStream_t stream = {}) {
    return ForEachN(first, last - first, op, stream);
  }

  template <class It, class NumItemsT, class OpT>
  static cudaError_t ForEachCopyN(It first, NumItemsT num_items, OpT op, cudaStream_t stream = {}) {
    return ForEachN(
        first, num_items, [op](auto item) mutable { op(item); }, stream);
  }

  template <class It, class OpT>
  static cudaError_t ForEachCopy(It first, It last, OpT op, cudaStream_t stream = {}) {
    return ForEachCopyN(first, last - first, op, stream);
  }
};

}  // namespace cub
