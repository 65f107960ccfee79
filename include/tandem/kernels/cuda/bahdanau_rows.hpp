// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Additive attention on Cuda: its sizes, and the gradients of one number of a query and of a key,
/// functors for each(). What goes through tanh is computed again, never kept. No CUDA header is
/// needed.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/functors/elementary.hpp>

namespace tandem::cuda {

/// Sizes of one call. Rows of keys behind a sample's length are not looked at.
struct AdditiveRows {
  std::int64_t batch = 0;
  std::int64_t queries = 0;  ///< rows of each sample
  std::int64_t keys = 0;
  std::int64_t hidden = 0;                ///< of a query and a key
  std::int64_t apart = 0;                 ///< of scores: from query to query
  std::int32_t const* lengths = nullptr;  ///< of each sample's keys; null: all

  /// Scores in 16 bits are a multiple of eight apart, as tensor cores want them.
  template <class T>
  static constexpr std::int64_t apart_of(std::int64_t keys) {
    return sizeof(T) == 2 ? (keys + 7) / 8 * 8 : keys;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t length(std::int64_t sample) const {
    return lengths != nullptr && lengths[sample] < keys ? lengths[sample] : keys;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t query_rows() const {
    return batch * queries;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t key_rows() const { return batch * keys; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t scores() const {
    return query_rows() * apart;
  }
};

/// What goes through tanh, and the vector that it is multiplied with: unit = g v / |v|.
template <class R>
struct AdditiveTerms {
  R const* q = nullptr;      ///< (B, Tq, H)
  R const* k = nullptr;      ///< (B, Tk, H)
  R const* v = nullptr;      ///< (H)
  R const* bias = nullptr;   ///< (H)
  R const* scale = nullptr;  ///< g / |v|

  /// @param query, key  rows among those of all samples
  [[nodiscard]] TANDEM_HOST_DEVICE R tanh(std::int64_t query, std::int64_t key, std::int64_t hidden,
                                          std::int64_t h) const {
    return elementary::hyperbolic_tangent(q[query * hidden + h] + k[key * hidden + h] + bias[h]);
  }
};

/// dq = unit Σ ds (1 - a²) and dunit = Σ ds a over the keys, in order; a number for each i.
template <class T>
struct AdditiveQueryGradient {
  using R = ComputeType<T>;
  AdditiveRows rows;
  AdditiveTerms<R> terms;
  R const* ds;  ///< (B, Tq, apart)
  T* dq;        ///< (B, Tq, H)
  R* dunit;     ///< (B, Tq, H): of each query

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const query = i / rows.hidden;
    std::int64_t const h = i % rows.hidden;
    std::int64_t const sample = query / rows.queries;
    std::int64_t const length = rows.length(sample);
    R slope{0};
    R along{0};
    for (std::int64_t j = 0; j < length; ++j) {
      R const a = terms.tanh(query, sample * rows.keys + j, rows.hidden, h);
      R const own = ds[query * rows.apart + j];
      slope += own * (R{1} - a * a);
      along += own * a;
    }
    dq[i] = store<T>(terms.scale[0] * terms.v[h] * slope);
    dunit[i] = along;
  }
};

/// dk = unit Σ ds (1 - a²) over the queries, in order; 0 behind a sample's length.
template <class T>
struct AdditiveKeyGradient {
  using R = ComputeType<T>;
  AdditiveRows rows;
  AdditiveTerms<R> terms;
  R const* ds;  ///< (B, Tq, apart)
  T* dk;        ///< (B, Tk, H)

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const key = i / rows.hidden;
    std::int64_t const h = i % rows.hidden;
    std::int64_t const sample = key / rows.keys;
    std::int64_t const j = key % rows.keys;
    R slope{0};
    for (std::int64_t t = 0; t < rows.queries && j < rows.length(sample); ++t) {
      std::int64_t const query = sample * rows.queries + t;
      R const a = terms.tanh(query, key, rows.hidden, h);
      slope += ds[query * rows.apart + j] * (R{1} - a * a);
    }
    dk[i] = store<T>(terms.scale[0] * terms.v[h] * slope);
  }
};

}  // namespace tandem::cuda
