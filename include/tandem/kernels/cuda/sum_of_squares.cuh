// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// sum_of_squares: the squared norm of n numbers in double.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#if TANDEM_DEVICE_CODE
#include <cub/device/device_reduce.cuh>
#endif

#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

struct Square {
  template <class T>
  TANDEM_HOST_DEVICE double operator()(T x) const {
    double const value = static_cast<double>(load(x));
    return value * value;
  }
};

/// Queues the sum, or says in @p bytes how much scratch memory it needs, where that is null.
template <class T>
void reduce_squares(Stream const& stream, T const* x, std::int64_t n, double* result, void* scratch,
                    std::size_t& bytes) {
  ScopedDevice const scope{stream.device()};
  check(cub::DeviceReduce::TransformReduce(scratch, bytes, x, result, n, StdPlus{}, Square{}, 0.0,
                                           stream.get()));
}

}  // namespace detail

/// Scratch memory for sum_of_squares of @p n elements of type T on the stream's device.
template <class T>
std::int64_t sum_of_squares_scratch_bytes(Stream const& stream, std::int64_t n) {
  std::size_t bytes = 0;
  detail::reduce_squares<T>(stream, nullptr, n, nullptr, nullptr, bytes);
  return static_cast<std::int64_t>(bytes);
}

/// *result = x[0]² + … + x[n - 1]², squared and added in double; 0 for n = 0.
///
/// Order: that of cub::DeviceReduce: always the same on one device, not across devices.
/// Cost:  reads n elements; bound by memory. One launch, or two where n is large.
/// @pre   scratch has sum_of_squares_scratch_bytes<T>(stream, n), aligned to 256 bytes
template <class T>
void sum_of_squares(Stream const& stream, T const* x, std::int64_t n, double* result,
                    void* scratch) {
  auto bytes = static_cast<std::size_t>(sum_of_squares_scratch_bytes<T>(stream, n));
  detail::reduce_squares(stream, x, n, result, scratch, bytes);
}

}  // namespace tandem::cuda
