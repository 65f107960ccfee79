// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pack: N elements that one thread reads or writes at once, by accesses of up to 16 bytes.
///
/// Kernels are written once for any N: N = full_pack<T> where addresses and sizes allow it, else 1.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>

namespace tandem::cuda {

/// Elements of the smallest of these types in 16 bytes.
template <class... T>
inline constexpr int full_pack = [] {
  int most = 1;
  ((most = 16 / static_cast<int>(sizeof(T)) > most ? 16 / static_cast<int>(sizeof(T)) : most), ...);
  return most;
}();

/// N neighbours. More than 16 bytes are read by several accesses.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T value[static_cast<std::size_t>(N)];
};

/// The elements from @p x on, which is aligned as their Pack is, N at a time.
template <int N, class T>
TANDEM_HOST_DEVICE Pack<T, N>* packs_at(T* x) {
  return reinterpret_cast<Pack<T, N>*>(x);
}
template <int N, class T>
TANDEM_HOST_DEVICE Pack<T, N> const* packs_at(T const* x) {
  return reinterpret_cast<Pack<T, N> const*>(x);
}

template <int N, class T>
TANDEM_HOST_DEVICE Pack<T, N> load_pack(T const* x) {
  return *packs_at<N>(x);
}

template <int N, class T>
TANDEM_HOST_DEVICE void store_pack(T* y, Pack<T, N> const& pack) {
  *packs_at<N>(y) = pack;
}

/// @p pack in the type that kernels compute in.
template <class T, int N>
TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> loaded(Pack<T, N> const& pack) {
  Pack<ComputeType<T>, N> result;
  for (int i = 0; i < N; ++i) {
    result.value[i] = load(pack.value[i]);
  }
  return result;
}

/// @p pack as it is stored.
template <class T, int N>
TANDEM_HOST_DEVICE Pack<T, N> stored(Pack<ComputeType<T>, N> const& pack) {
  Pack<T, N> result;
  for (int i = 0; i < N; ++i) {
    result.value[i] = store<T>(pack.value[i]);
  }
  return result;
}

/// Whether every address is one of 16-byte accesses.
template <class... T>
[[nodiscard]] bool aligned(T const*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Whether channels-last tensors of these types may be read and written in full packs of channels:
/// @p channels is a multiple of the pack, and every tensor starts at a multiple of 16 bytes.
template <class... T>
[[nodiscard]] bool packs_channels(std::int64_t channels, T const*... pointers) {
  return channels % full_pack<T...> == 0 && aligned(pointers...);
}

}  // namespace tandem::cuda
