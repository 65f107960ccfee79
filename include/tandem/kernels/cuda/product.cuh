// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products of arrays, element by element, and their gradients.

#include <cstdint>

#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/pointers.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <class T>
struct ProductBody {
  Pointers<T const> in;
  T* out;

  template <int N>
  TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> read(std::int64_t i) const {
    Pack<ComputeType<T>, N> product = loaded(load_pack<N>(in.at[0] + i));
    for (int k = 1; k < in.count; ++k) {
      Pack<T, N> const x = load_pack<N>(in.at[k] + i);
      for (int j = 0; j < N; ++j) {
        product.value[j] *= load(x.value[j]);
      }
    }
    return product;
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, Pack<ComputeType<T>, N> const& product) const {
    store_pack(out + i, stored<T>(product));
  }
};

}  // namespace detail

/// out[i] = in[0][i] … in[k - 1][i], multiplied in ComputeType and rounded once.
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((in[0] in[1]) in[2]) …, for each i.
/// @pre   in.count >= 1
template <class T>
void product(Stream const& stream, Pointers<T const> const& in, T* out, std::int64_t n) {
  if (n <= 0) {
    return;
  }
  detail::ProductBody<T> const body{in, out};
  if (in.aligned() && aligned(out)) {
    detail::map<full_pack<T>>(stream, n, body);
  } else {
    detail::map<1>(stream, n, body);
  }
}

/// dx[j][i] = dy[i] times the other x[.][i], for each dx[j] that is not null; a launch each.
///
/// Order: dy, then the others in order. No x is divided by, so that it may be 0.
/// @pre   x and dx are in host memory
template <class T>
void product_gradient(Stream const& stream, T const* const* x, int k, T const* dy, T* const* dx,
                      std::int64_t n) {
  for (int j = 0; j < k; ++j) {
    if (dx[j] == nullptr) {
      continue;
    }
    Pointers<T const> factors = pointers(x, k);
    for (int other = j; other > 0; --other) {
      factors.at[other] = factors.at[other - 1];
    }
    factors.at[0] = dy;
    product(stream, factors, dx[j], n);
  }
}

}  // namespace tandem::cuda
