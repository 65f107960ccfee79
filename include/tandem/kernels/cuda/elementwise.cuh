// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Loops over n numbers that have no shape: fill, copy, add, sum; see transform.cuh for each and
/// transform.
///
/// Every kernel of this folder takes its Stream first, queues its work there and returns; nothing
/// waits, nothing allocates, and a CUDA graph may capture it. n = 0 queues nothing.

#include <cstdint>
#include <cstring>

#include <tandem/core/contract.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/kernels/cuda/pointers.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/copy.hpp>

namespace tandem::cuda {

namespace detail {

struct Plus {
  template <class C>
  TANDEM_HOST_DEVICE C operator()(C a, C b) const {
    return a + b;
  }
};

template <class T>
struct FillBody {
  T value;
  T* y;

  template <int N>
  TANDEM_HOST_DEVICE T read(std::int64_t) const {
    return value;
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, T x) const {
    Pack<T, N> pack;
    for (int j = 0; j < N; ++j) {
      pack.value[j] = x;
    }
    store_pack(y + i, pack);
  }
};

template <class T>
struct SumBody {
  Pointers<T const> in;
  T* out;
  bool round_each;

  template <int N>
  TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> read(std::int64_t i) const {
    Pack<ComputeType<T>, N> total = loaded(load_pack<N>(in.at[0] + i));
    for (int k = 1; k < in.count; ++k) {
      Pack<T, N> const x = load_pack<N>(in.at[k] + i);
      for (int j = 0; j < N; ++j) {
        total.value[j] += load(x.value[j]);
        total.value[j] = round_each ? load(store<T>(total.value[j])) : total.value[j];
      }
    }
    return total;
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, Pack<ComputeType<T>, N> const& total) const {
    store_pack(out + i, stored<T>(total));
  }
};

}  // namespace detail

/// y[i] = value.
template <class T>
void fill(Stream const& stream, T* y, std::int64_t n, T value) {
  if (n <= 0) {
    return;
  }
  unsigned char const zeros[sizeof(T)] = {};
  detail::FillBody<T> const body{value, y};
  if (std::memcmp(&value, zeros, sizeof(T)) == 0) {
    clear_bytes(y, static_cast<std::size_t>(n) * sizeof(T), stream);
  } else if (aligned(y)) {
    detail::map<full_pack<T>>(stream, n, body);
  } else {
    detail::map<1>(stream, n, body);
  }
}

/// y[i] = x[i].
///
/// @pre x and y are equal or do not overlap
template <class T>
void copy(Stream const& stream, T const* x, T* y, std::int64_t n) {
  if (n > 0 && x != y) {
    copy_bytes(y, x, static_cast<std::size_t>(n) * sizeof(T), cudaMemcpyDeviceToDevice, stream);
  }
}

/// y[i] += x[i].
///
/// Cost: reads 2 n elements and writes n; bound by memory.
/// @pre  x and y are equal or do not overlap
template <class T>
void add(Stream const& stream, T const* x, T* y, std::int64_t n) {
  transform(stream, detail::Plus{}, y, x, y, n);
}

/// out[i] = in[0][i] + … + in[k - 1][i], added in ComputeType and rounded as @p rounding says.
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((in[0] + in[1]) + in[2]) + …, for each i.
/// @pre   0 <= k <= 64 (0: zeros); out may be one of the inputs; `in` itself is in host memory
template <class T>
void sum(Stream const& stream, T const* const* in, int k, T* out, std::int64_t n,
         Rounding rounding = Rounding::once) {
  expects(k >= 0 && k <= most_pointers, "cuda::sum: give at most 64 arrays");
  if (n <= 0) {
    return;
  }
  if (k == 0) {
    fill(stream, out, n, static_cast<T>(0.0F));
    return;
  }
  detail::SumBody<T> const body{pointers(in, k), out, rounding == Rounding::each};
  if (body.in.aligned() && aligned(out)) {
    detail::map<full_pack<T>>(stream, n, body);
  } else {
    detail::map<1>(stream, n, body);
  }
}

}  // namespace tandem::cuda
