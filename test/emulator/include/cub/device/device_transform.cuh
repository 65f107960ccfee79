// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::DeviceTransform (CCCL 3.0).

#include <cuda/std/tuple>

#include <cub/emulated/device_call.cuh>

namespace cub {

struct DeviceTransform {
  template <typename... In, typename Out, typename NumItemsT, typename TransformOp>
  static cudaError_t Transform(::cuda::std::tuple<In...> inputs, Out output, NumItemsT num_items,
                               TransformOp op, cudaStream_t stream = nullptr) {
    constexpr char const* name = "cub::DeviceTransform::Transform";
    auto const n = static_cast<std::int64_t>(num_items);
    bool const good =
        ::cuda::std::apply(
            [&](auto... input) { return (emulated::usable(input, n, stream, name) && ...); },
            inputs) &&
        emulated::usable(output, n, stream, name);
    if (!good) {
      return cudaErrorIllegalAddress;
    }
    return n == 0 ? cudaSuccess
                  : emulated::enqueue_algorithm(stream, name, [inputs, output, n, op] {
                      emulated::for_all(n, [&](std::int64_t i) {
                        ::cuda::std::apply(
                            [&](auto... input) { *(output + i) = op(*(input + i)...); }, inputs);
                      });
                    });
  }

  template <typename In, typename Out, typename NumItemsT, typename TransformOp>
  static cudaError_t Transform(In input, Out output, NumItemsT num_items, TransformOp op,
                               cudaStream_t stream = nullptr) {
    return Transform(::cuda::std::make_tuple(input), output, num_items, op, stream);
  }

  template <typename In, typename Out, typename NumItemsT, typename TransformOp>
  static cudaError_t TransformStableArgumentAddresses(In input, Out output, NumItemsT num_items,
                                                      TransformOp op,
                                                      cudaStream_t stream = nullptr) {
    return Transform(input, output, num_items, op, stream);
  }
};

}  // namespace cub
