// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AttentionScores: the matrices of scores that attention by products holds; no CUDA header needed.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <tandem/kernels/cuda/compute_type.hpp>

namespace tandem::cuda {

/// Matrices of scores of a chunk: where T is Real, probabilities take the place of scores.
template <class T>
struct AttentionScores {
  using Real = ComputeType<T>;
  Real* scores;
  Real* slopes;
  T* probabilities;
  T* gradient;

  static constexpr bool apart = !std::same_as<T, Real>;
  static constexpr std::int64_t element_bytes =
      2 * static_cast<std::int64_t>(sizeof(Real) + (apart ? sizeof(T) : 0));

  static constexpr std::int64_t whole(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
  /// @param elements  of each matrix of the largest chunk
  static constexpr std::int64_t bytes(std::int64_t elements) {
    return 2 * (whole(real_bytes(elements)) +
                (apart ? whole(elements * static_cast<std::int64_t>(sizeof(T))) : 0));
  }
  static AttentionScores at(std::byte* memory, std::int64_t elements) {
    std::int64_t const real = whole(real_bytes(elements));
    std::int64_t const each = whole(elements * static_cast<std::int64_t>(sizeof(T)));
    std::byte* const rounded = apart ? memory + 2 * real : memory;
    return {reinterpret_cast<Real*>(memory), reinterpret_cast<Real*>(memory + real),
            reinterpret_cast<T*>(rounded), reinterpret_cast<T*>(rounded + (apart ? each : real))};
  }

 private:
  static constexpr std::int64_t real_bytes(std::int64_t elements) {
    return elements * static_cast<std::int64_t>(sizeof(Real));
  }
};

}  // namespace tandem::cuda
