// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RecurrentMemory: what a direction of an Lstm or Gru keeps for backward on Cuda; RecurrentWork:
/// what its passes need besides. Offsets only: no CUDA header is needed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/graph/layer.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/ops/cuda/array_cutter.hpp>

namespace tandem::cuda {

/// From forward to backward, all (B, time, ·), of B samples of `time` rows.
template <class Cell, class T>
struct RecurrentMemory {
  using R = ComputeType<T>;
  static constexpr bool lstm = std::is_same_v<Cell, LstmFunction>;

  R* c = nullptr;          ///< (H) of an LSTM
  T* gates = nullptr;      ///< (G H), later their gradients
  T* kept = nullptr;       ///< (3 H) of a GRU: what its state gave, later the gradients of that
  T* before = nullptr;     ///< (P) h of the row before
  T* inner = nullptr;      ///< (H) what a projection is of
  T* dh = nullptr;         ///< (P) the gradient of what it gives
  R* begun = nullptr;      ///< (going, H) c before the first row of an LSTM's chunk
  std::int64_t bytes = 0;  ///< of all directions

  /// @param at     of all directions; null: only `bytes` is of use
  /// @param going  samples of chunks of time, which go on from a state
  RecurrentMemory(RecurrentShape const& s, std::byte* at, std::int64_t rows, int direction,
                  std::int64_t going = 0) {
    std::int64_t const projected = s.projected ? rows : 0;
    ArrayCutter<16> cut{at};
    for (int d = 0; d < s.directions; ++d) {
      RecurrentMemory own = *this;
      own.c = cut.template next<R>(lstm ? rows * s.hidden : 0);
      own.gates = cut.template next<T>(rows * Cell::gates * s.hidden);
      own.kept = cut.template next<T>(lstm ? 0 : rows * Cell::gates * s.hidden);
      own.before = cut.template next<T>(rows * s.handed);
      own.inner = cut.template next<T>(projected * s.hidden);
      own.dh = cut.template next<T>(projected * s.handed);
      own.begun = cut.template next<R>(lstm ? going * s.hidden : 0);
      if (d == direction) {
        *this = own;
      }
    }
    bytes = cut.used();
  }
};

/// Of one pass, behind the workspace of products.
template <class T>
struct RecurrentWork {
  using R = ComputeType<T>;

  R* sums = nullptr;   ///< (B, time, G H) of products, where no gates of their type are kept
  R* row = nullptr;    ///< of a row of all samples: products with the state, or the projection
  R* dh = nullptr;     ///< (B, P)
  R* c = nullptr;      ///< (B, H) in evaluation; the gradient of c in backward
  T* h = nullptr;      ///< (B, P) in evaluation
  T* inner = nullptr;  ///< (B, H) likewise
  std::int64_t bytes;

  RecurrentWork(RecurrentShape const& s, int gates, std::byte* at, std::int64_t batch,
                std::int64_t time) {
    ArrayCutter<256> cut{at};
    sums = cut.template next<R>(batch * time * gates * s.hidden);
    row = cut.template next<R>(batch * (gates == 3 ? 3 * s.hidden : std::max(s.hidden, s.handed)));
    dh = cut.template next<R>(batch * s.handed);
    c = cut.template next<R>(batch * s.hidden);
    h = cut.template next<T>(batch * s.handed);
    inner = cut.template next<T>(batch * s.hidden);
    bytes = cut.used();
  }
};

/// What is carried of a sample, as CarriedState lays it out.
template <class Cell, class T>
struct RecurrentCarry {
  using R = ComputeType<T>;
  std::int64_t h_at;            ///< bytes
  std::int64_t bytes;           ///< from sample to sample
  std::int64_t gradient_bytes;  ///< of a sample: of h and c, of all samples one behind the other

  explicit RecurrentCarry(RecurrentShape const& s) {
    CarriedState const own{std::is_same_v<Cell, LstmFunction> ? static_cast<int>(s.hidden) : 0,
                           static_cast<int>(s.handed)};
    h_at = own.h_at(sizeof(R));
    bytes = own.bytes(sizeof(R), sizeof(T));
    gradient_bytes = own.bytes(sizeof(R), sizeof(R));
  }
};

}  // namespace tandem::cuda
