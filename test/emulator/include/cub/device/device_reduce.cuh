// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::DeviceReduce (CCCL 3.0): sums of 1,024 neighbours, then of the sums.

#include <cuda/std/functional>
#include <cuda/std/limits>

#include <cub/emulated/device_call.cuh>

namespace cub {
namespace emulated {

/// op over transform(in[0 ... n)), beginning with @p init.
template <class Accumulator, class It, class Op, class Transform, class T>
Accumulator reduce(It in, std::int64_t n, Op op, Transform transform, T init) {
  Accumulator total = static_cast<Accumulator>(init);
  for (std::int64_t first = 0; first < n; first += 1024) {
    std::int64_t const end = n - first < 1024 ? n : first + 1024;
    Accumulator part = static_cast<Accumulator>(transform(*(in + first)));
    for (std::int64_t i = first + 1; i < end; ++i) {
      part = op(part, static_cast<Accumulator>(transform(*(in + i))));
    }
    total = op(total, part);
  }
  return total;
}

/// Position of the first extremum of in[0 ... n); n >= 1. @p better(a, b): a beats b.
template <class It, class Better>
std::int64_t arg_best(It in, std::int64_t n, Better better) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    best = better(*(in + i), *(in + best)) ? i : best;
  }
  return best;
}

}  // namespace emulated

struct DeviceReduce {
  template <class In, class Out, class Op, class TransformOp, class T, class NumItemsT>
  static cudaError_t TransformReduce(void* scratch, std::size_t& bytes, In in, Out out,
                                     NumItemsT num_items, Op op, TransformOp transform, T init,
                                     cudaStream_t stream = nullptr) {
    constexpr char const* name = "cub::DeviceReduce";
    using Accumulator = std::decay_t<decltype(op(init, transform(*in)))>;
    auto const n = static_cast<std::int64_t>(num_items);
    if (scratch != nullptr &&
        !(emulated::usable(in, n, stream, name) && emulated::usable(out, 1, stream, name))) {
      return cudaErrorIllegalAddress;
    }
    return emulated::with_scratch(scratch, bytes, n, stream, name, [=] {
      *out = emulated::reduce<Accumulator>(in, n, op, transform, init);
    });
  }

  template <class In, class Out, class Op, class T, class NumItemsT>
  static cudaError_t Reduce(void* scratch, std::size_t& bytes, In in, Out out, NumItemsT num_items,
                            Op op, T init, cudaStream_t stream = nullptr) {
    return TransformReduce(scratch, bytes, in, out, num_items, op, ::cuda::std::identity{}, init,
                           stream);
  }

  template <class In, class Out, class NumItemsT>
  static cudaError_t Sum(void* scratch, std::size_t& bytes, In in, Out out, NumItemsT num_items,
                         cudaStream_t stream = nullptr) {
    return Reduce(scratch, bytes, in, out, num_items, ::cuda::std::plus<>{},
                  emulated::ValueOf<Out>{}, stream);
  }

  template <class In, class Out, class NumItemsT>
  static cudaError_t Min(void* scratch, std::size_t& bytes, In in, Out out, NumItemsT num_items,
                         cudaStream_t stream = nullptr) {
    using T = emulated::ValueOf<In>;
    return Reduce(
        scratch, bytes, in, out, num_items, [](T a, T b) { return b < a ? b : a; },
        ::cuda::std::numeric_limits<T>::max(), stream);
  }

  template <class In, class Out, class NumItemsT>
  static cudaError_t Max(void* scratch, std::size_t& bytes, In in, Out out, NumItemsT num_items,
                         cudaStream_t stream = nullptr) {
    using T = emulated::ValueOf<In>;
    return Reduce(
        scratch, bytes, in, out, num_items, [](T a, T b) { return a < b ? b : a; },
        ::cuda::std::numeric_limits<T>::lowest(), stream);
  }

  template <class In, class Extremum, class Index>
  static cudaError_t ArgMin(void* scratch, std::size_t& bytes, In in, Extremum min, Index index,
                            std::int64_t n, cudaStream_t stream = nullptr) {
    return arg(scratch, bytes, in, min, index, n, ::cuda::std::less<>{}, stream);
  }

  template <class In, class Extremum, class Index>
  static cudaError_t ArgMax(void* scratch, std::size_t& bytes, In in, Extremum max, Index index,
                            std::int64_t n, cudaStream_t stream = nullptr) {
    return arg(scratch, bytes, in, max, index, n, ::cuda::std::greater<>{}, stream);
  }

 private:
  template <class In, class Extremum, class Index, class Better>
  static cudaError_t arg(void* scratch, std::size_t& bytes, In in, Extremum extremum, Index index,
                         std::int64_t n, Better better, cudaStream_t stream) {
    constexpr char const* name = "cub::DeviceReduce::Arg";
    if (scratch != nullptr && (n < 1 || !emulated::usable(in, n, stream, name))) {
      return cudaErrorIllegalAddress;
    }
    return emulated::with_scratch(scratch, bytes, n, stream, name, [=] {
      std::int64_t const best = emulated::arg_best(in, n, better);
      *extremum = *(in + best);
      *index = static_cast<emulated::ValueOf<Index>>(best);
    });
  }
};

}  // namespace cub
