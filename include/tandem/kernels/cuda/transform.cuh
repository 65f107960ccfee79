// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// transform: y[i] = f(a[i]) or f(a[i], b[i]) over n numbers that have no shape; each: f(i).
///
/// Elements are loaded to ComputeType, f computes there, and the result is rounded once. Everything
/// here is bound by memory: 16 bytes a thread and access where the arrays start at multiples of 16
/// bytes, single elements where they do not.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#if TANDEM_DEVICE_CODE
#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>
#endif

#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

inline constexpr int map_threads = 256;
/// Accesses of a thread in flight: with 16 bytes each, 64 KiB for the 2048 threads of an SM.
inline constexpr int map_unroll = 2;
inline constexpr int map_block_packs = map_threads * map_unroll;

// The functors may be of an unnamed namespace, and the kernels then have internal linkage anyway.
#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1407  // "visibility" without external linkage
#endif

/// What block @p block does of map_kernel, and what only the @p last one does.
template <int N, class Body>
__device__ void map_block(std::int64_t n, Body const& body, unsigned block, bool last) {
  std::int64_t const packs = n / N;
  std::int64_t const first = std::int64_t{block} * map_block_packs + static_cast<int>(threadIdx.x);
  if (first + (map_unroll - 1) * map_threads < packs) {
    decltype(body.template read<N>(first)) value[map_unroll];
    for (int u = 0; u < map_unroll; ++u) {
      value[u] = body.template read<N>((first + u * map_threads) * N);
    }
    for (int u = 0; u < map_unroll; ++u) {
      body.template write<N>((first + u * map_threads) * N, value[u]);
    }
  } else {
    for (std::int64_t pack = first; pack < packs; pack += map_threads) {
      body.template write<N>(pack * N, body.template read<N>(pack * N));
    }
  }
  std::int64_t const i = packs * N + static_cast<int>(threadIdx.x);
  if (N > 1 && last && i < n) {
    body.template write<1>(i, body.template read<1>(i));
  }
}

/// body.write<N>(i, body.read<N>(i)) for i = 0, N, 2 N, …; the last n mod N elements with N = 1.
/// Reads of one thread come before its writes, so a body may work in place.
template <int N, class Body>
TANDEM_KERNEL void map_kernel(std::int64_t n, Body body) {
  await_previous();
  map_block<N>(n, body, blockIdx.x, blockIdx.x == gridDim.x - 1);
}

template <class Functor>
TANDEM_KERNEL void each_kernel(std::int64_t n, Functor functor) {
  await_previous();
  std::int64_t const i = std::int64_t{blockIdx.x} * map_threads + static_cast<int>(threadIdx.x);
  if (i < n) {
    functor(i);
  }
}

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

template <int N, class Body>
void map(Stream const& stream, std::int64_t n, Body const& body) {
  constexpr std::int64_t block = std::int64_t{N} * map_block_packs;
  launch(map_kernel<N, Body>, Grid{blocks_for(n, block)}, map_threads, stream, n, body);
}

/// What map does for y = f(a), and what DeviceTransform does with a pack.
template <class F, class U, class A>
struct UnaryBody {
  F f;
  A const* a;
  U* y;

  template <int N>
  TANDEM_HOST_DEVICE Pack<A, N> read(std::int64_t i) const {
    return load_pack<N>(a + i);
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, Pack<A, N> const& x) const {
    store_pack(y + i, (*this)(x));
  }
  template <int N>
  TANDEM_HOST_DEVICE Pack<U, N> operator()(Pack<A, N> const& x) const {
    Pack<U, N> result;
    for (int j = 0; j < N; ++j) {
      result.value[j] = static_cast<U>(f(load(x.value[j])));
    }
    return result;
  }
};

template <class A, class B, int N>
struct PackPair {
  Pack<A, N> a;
  Pack<B, N> b;
};

/// The same for y = f(a, b).
template <class F, class U, class A, class B>
struct BinaryBody {
  F f;
  A const* a;
  B const* b;
  U* y;

  template <int N>
  TANDEM_HOST_DEVICE PackPair<A, B, N> read(std::int64_t i) const {
    return {load_pack<N>(a + i), load_pack<N>(b + i)};
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, PackPair<A, B, N> const& x) const {
    store_pack(y + i, (*this)(x.a, x.b));
  }
  template <int N>
  TANDEM_HOST_DEVICE Pack<U, N> operator()(Pack<A, N> const& x, Pack<B, N> const& z) const {
    using C = std::common_type_t<ComputeType<A>, ComputeType<B>>;
    Pack<U, N> result;
    for (int j = 0; j < N; ++j) {
      C const value = f(static_cast<C>(load(x.value[j])), static_cast<C>(load(z.value[j])));
      result.value[j] = static_cast<U>(value);
    }
    return result;
  }
};

/// From this size on, and in whole packs, CUB's transform is used: on Hopper and newer it moves
/// data through shared memory by bulk copies. Below it, launch latency counts and all are alike.
inline constexpr std::int64_t bulk_bytes = std::int64_t{1} << 20;

template <class Body, class U, class... T>
void transform(Stream const& stream, std::int64_t n, Body const& body, U* y, T const*... x) {
  constexpr int width = full_pack<U, T...>;
  if (n <= 0) {
    return;
  }
  if (!aligned(y, x...)) {
    map<1>(stream, n, body);
  } else if (n % width != 0 || n * static_cast<std::int64_t>(sizeof(U)) < bulk_bytes) {
    map<width>(stream, n, body);
  } else {
#if TANDEM_DEVICE_CODE
    ScopedDevice const scope{stream.device()};
    check(cub::DeviceTransform::Transform(
        ::cuda::std::make_tuple(reinterpret_cast<Pack<T, width> const*>(x)...),
        reinterpret_cast<Pack<U, width>*>(y), n / width, body, stream.get()));
#endif
  }
}

}  // namespace detail

/// y[i] = f(a[i]), rounded to U.
///
/// Shapes: a (n); y (n), which may be a where the types are the same.
/// Cost:   reads and writes n elements; bound by memory.
template <class F, class A, class U>
void transform(Stream const& stream, F const& f, A const* a, U* y, std::int64_t n) {
  detail::transform(stream, n, detail::UnaryBody<F, U, A>{f, a, y}, y, a);
}

/// y[i] = f(a[i], b[i]), in the wider of their compute types, rounded to U.
///
/// Shapes: a (n); b (n); y (n), which may be a or b where the types are the same.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class F, class A, class B, class U>
void transform(Stream const& stream, F const& f, A const* a, B const* b, U* y, std::int64_t n) {
  detail::transform(stream, n, detail::BinaryBody<F, U, A, B>{f, a, b, y}, y, a, b);
}

/// Calls functor(i) for each i in [0, n), i a std::int64_t, in no order that it may rely on.
///
/// @pre functor is trivially copyable, its operator() const is TANDEM_HOST_DEVICE, and it writes
///      only what belongs to its own i, unless whoever writes there writes the same
template <class Functor>
void each(Stream const& stream, std::int64_t n, Functor const& functor) {
  if (n > 0) {
    launch(detail::each_kernel<Functor>, Grid{blocks_for(n, detail::map_threads)},
           detail::map_threads, stream, n, functor);
  }
}

}  // namespace tandem::cuda
