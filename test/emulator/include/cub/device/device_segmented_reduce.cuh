// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::DeviceSegmentedReduce (CCCL 3.0): Reduce, Sum, Min and Max.

#include <cub/device/device_reduce.cuh>

namespace cub {

struct DeviceSegmentedReduce {
  template <class In, class Out, class Begins, class Ends, class Op, class T>
  static cudaError_t Reduce(void* scratch, std::size_t& bytes, In in, Out out,
                            std::int64_t num_segments, Begins begins, Ends ends, Op op, T init,
                            cudaStream_t stream = nullptr) {
    constexpr char const* name = "cub::DeviceSegmentedReduce";
    using Accumulator = std::decay_t<decltype(op(init, *in))>;
    if (scratch != nullptr && !(emulated::usable(out, num_segments, stream, name) &&
                                emulated::usable(begins, num_segments, stream, name) &&
                                emulated::usable(ends, num_segments, stream, name))) {
      return cudaErrorIllegalAddress;
    }
    return emulated::with_scratch(scratch, bytes, num_segments, stream, name, [=] {
      emulated::for_all(num_segments, [&](std::int64_t s) {
        auto const begin = static_cast<std::int64_t>(*(begins + s));
        auto const end = static_cast<std::int64_t>(*(ends + s));
        *(out + s) = emulated::reduce<Accumulator>(in + begin, end > begin ? end - begin : 0, op,
                                                   ::cuda::std::identity{}, init);
      });
    });
  }

  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Sum(void* scratch, std::size_t& bytes, In in, Out out,
                         std::int64_t num_segments, Begins begins, Ends ends,
                         cudaStream_t stream = nullptr) {
    return Reduce(scratch, bytes, in, out, num_segments, begins, ends, ::cuda::std::plus<>{},
                  emulated::ValueOf<Out>{}, stream);
  }

  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Min(void* scratch, std::size_t& bytes, In in, Out out,
                         std::int64_t num_segments, Begins begins, Ends ends,
                         cudaStream_t stream = nullptr) {
    using T = emulated::ValueOf<In>;
    return Reduce(
        scratch, bytes, in, out, num_segments, begins, ends, [](T a, T b) { return b < a ? b : a; },
        ::cuda::std::numeric_limits<T>::max(), stream);
  }

  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Max(void* scratch, std::size_t& bytes, In in, Out out,
                         std::int64_t num_segments, Begins begins, Ends ends,
                         cudaStream_t stream = nullptr) {
    using T = emulated::ValueOf<In>;
    return Reduce(
        scratch, bytes, in, out, num_segments, begins, ends, [](T a, T b) { return a < b ? b : a; },
        ::cuda::std::numeric_limits<T>::lowest(), stream);
  }
};

}  // namespace cub
