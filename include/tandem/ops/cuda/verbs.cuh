// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Verbs<BasicCuda>: the few operations on flat arrays that the engine itself needs, on the compute
/// stream.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include <tandem/core/rounding.hpp>
#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/cast_many.cuh>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/gradient_rows.cuh>
#include <tandem/kernels/cuda/sum_of_squares.cuh>
#include <tandem/ops/verbs.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// As on Host, for arrays of any element type in device memory; all of them queue their work and
/// return.
template <class Kernels, class Precision>
struct Verbs<BasicCuda<Kernels, Precision>> {
  template <class T>
  static void zero(cuda::RankDevice& d, T* y, std::int64_t n) {
    cuda::fill(d.compute, y, n, T{});
  }
  template <class T>
  static void copy(cuda::RankDevice& d, T const* x, T* y, std::int64_t n) {
    cuda::copy(d.compute, x, y, n);
  }
  template <class T>
  static void add(cuda::RankDevice& d, T const* x, T* y, std::int64_t n) {
    cuda::add(d.compute, x, y, n);
  }
  /// y[i] = x[i], rounded to U.
  template <class T, class U>
  static void cast(cuda::RankDevice& d, T const* x, U* y, std::int64_t n) {
    cuda::cast(d.compute, x, y, n);
  }
  /// The same behind what @p stream, another of the device's, has brought.
  template <class T, class U>
  static void cast_on(cuda::Stream const& stream, T const* x, U* y, std::int64_t n) {
    cuda::cast(stream, x, y, n);
  }
  /// `in` itself is in host memory and may be reused at once.
  template <class T>
  static void sum(cuda::RankDevice& d, T const* const* in, int k, T* out, std::int64_t n,
                  Rounding rounding = Rounding::once) {
    cuda::sum(d.compute, in, k, out, n, rounding);
  }
  /// The result is written to device memory. Uses the device's scratch memory, of which
  /// cuda::sum_of_squares_scratch_bytes<T>(d.compute, n) bytes.
  template <class T>
  static void sum_of_squares(cuda::RankDevice& d, T const* x, std::int64_t n, double* result) {
    cuda::sum_of_squares(d.compute, x, n, result, d.scratch);
  }
  static std::int64_t row_scratch_bytes(cuda::RankDevice& d, RowScratch const& of) {
    return cuda::row_scratch_bytes(d.compute, of);
  }
  template <class P>
  static void clear_rows(cuda::RankDevice& d, GradientRows<P> const& y) {
    cuda::clear_bytes(y.count, sizeof(std::int32_t), d.compute);
  }
  template <class P>
  static void copy_rows(cuda::RankDevice& d, GradientRows<P> const& x, GradientRows<P> const& y) {
    cuda::copy_rows(d.compute, x, y);
  }
  template <class P>
  static void add_rows(cuda::RankDevice& d, GradientRows<P> const& x, GradientRows<P> const& y) {
    cuda::add_rows(d.compute, x, y);
  }
  /// Those of `sets`, which is in host memory, stand in blocks one behind another.
  template <class P>
  static void sum_rows(cuda::RankDevice& d, GradientRows<P> const* sets, int n,
                       GradientRows<P> const& out) {
    cuda::sum_gradient_rows(d.compute, sets, n, out);
  }
  /// Gradients that were left waiting are whole from here on.
  static void finish_gradients(cuda::RankDevice& d) {
    cuda::finish_casts<typename Precision::Scalar, typename Precision::Master>(d.compute, d.casts);
  }
  /// What pack() of ops left waiting is packed from here on.
  static void finish_packing(cuda::RankDevice& d) {
    using T = typename Precision::Scalar;
    cuda::finish_casts<T, T>(d.compute, d.packing);
  }
  /// Both wait for the compute stream.
  static void to_host(cuda::RankDevice& d, std::byte const* from, std::byte* to,
                      std::size_t bytes) {
    cuda::copy_bytes(to, from, bytes, cudaMemcpyDeviceToHost, d.compute);
    d.compute.synchronize();
  }
  static void from_host(cuda::RankDevice& d, std::byte const* from, std::byte* to,
                        std::size_t bytes) {
    cuda::copy_bytes(to, from, bytes, cudaMemcpyHostToDevice, d.compute);
    d.compute.synchronize();
  }
  /// `parents` is in host memory. One copy a row.
  static void gather_rows(cuda::RankDevice& d, std::byte const* from, std::byte* to,
                          std::int32_t const* parents, std::int64_t rows, std::int64_t bytes) {
    for (std::int64_t b = 0; b < rows; ++b) {
      auto* const row = reinterpret_cast<unsigned char*>(to + b * bytes);
      if (parents[b] < 0) {
        cuda::fill(d.compute, row, bytes, static_cast<unsigned char>(0));
      } else {
        cuda::copy(d.compute, reinterpret_cast<unsigned char const*>(from) + parents[b] * bytes,
                   row, bytes);
      }
    }
  }
  template <class Functor>
  static void each(cuda::RankDevice& d, std::int64_t n, Functor const& functor) {
    cuda::each(d.compute, n, functor);
  }
};

}  // namespace tandem
