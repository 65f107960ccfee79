// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a softmax over a sample of the words needs besides a Linear's products: each row's own
/// target, and the gradients back in their places.

#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/log_uniform_sample.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// The words of a table, and each row's target among them; a row without one has -1.
template <class T, class P>
struct SampledRows {
  std::int64_t rows;
  int channels;
  int width;                    ///< logits of a row: the sample's, the target's, and padding
  T const* x;                   ///< (rows, C)
  T const* table;               ///< (V, C)
  P const* bias;                ///< (V) or null
  std::int32_t const* targets;  ///< (rows) or null

  [[nodiscard]] TANDEM_HOST_DEVICE std::int32_t target(std::int64_t row) const {
    return targets != nullptr ? targets[row] : -1;
  }
};

/// bias[s] = that of the sample's word less the logarithm of its expected count.
template <class P>
struct SampleBias {
  SampleView sample;
  P const* of_word;  ///< (V) or null
  P* bias;

  TANDEM_HOST_DEVICE void operator()(std::int64_t s) const {
    std::int32_t const word = sample.word[s];
    double const own = of_word != nullptr ? static_cast<double>(of_word[word]) : 0.0;
    bias[s] = static_cast<P>(own - sample.log_expected_count(word));
  }
};

/// dx += the gradient of the target's logit times the target's row of the table.
template <class T, class P>
struct TargetInputGradient {
  SampledRows<T, P> of;
  int sampled;
  T const* dlogits;
  T* dx;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const row = i / of.channels;
    if (std::int32_t const target = of.target(row); target >= 0) {
      auto const d = load(dlogits[row * of.width + sampled]);
      auto const weight = load(of.table[std::int64_t{target} * of.channels + i % of.channels]);
      dx[i] = store<T>(load(dx[i]) + d * weight);
    }
  }
};

/// What each row adds to the gradient of its target: of the table, or of the bias.
template <class T, class P>
struct TargetTerms {
  SampledRows<T, P> of;
  int sampled;
  T const* dlogits;
  P* term;  ///< (rows, C), or (rows) where `of_bias`
  bool of_bias;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const row = of_bias ? i : i / of.channels;
    P const d = load(dlogits[row * of.width + sampled]);
    term[i] = of_bias ? d : d * load(of.x[i]);
  }
};

/// The sample's words and then the rows' targets, as tokens; a row without one has the word behind
/// the last.
struct SampledTokens {
  std::int32_t const* word;
  std::int32_t sampled;
  std::int32_t const* targets;  ///< or null
  std::int32_t vocabulary;
  std::int32_t* token;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    if (i < sampled) {
      token[i] = word[i];
    } else {
      std::int32_t const target = targets != nullptr ? targets[i - sampled] : -1;
      token[i] = target >= 0 ? target : vocabulary;
    }
  }
};

namespace detail {

template <int Lanes, class T, class P>
TANDEM_KERNEL void sampled_logits_kernel(SampledRows<T, P> of, SampleView sample, P const* bias,
                                         P lowest, T* logits, std::int32_t* columns) {
  await_previous();
  __shared__ int hits[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, of.rows};
  std::int32_t const target = place.works ? of.target(place.row) : -1;
  P own = 0;
  if (target >= 0) {
    T const* const x = of.x + place.row * of.channels;
    T const* const weight = of.table + std::int64_t{target} * of.channels;
    for (int c = place.lane; c < of.channels; c += Lanes) {
      own += load(x[c]) * load(weight[c]);
    }
  }
  P const sum = sum_lanes<Lanes>(own);
  if (place.lane == 0) {
    hits[threadIdx.x / Lanes] = target >= 0 ? sample.place(target) : -1;
  }
  __syncthreads();
  if (!place.works) {
    return;
  }
  int const hit = hits[threadIdx.x / Lanes];
  T* const z = logits + place.row * of.width;
  for (int s = place.lane; s < of.width; s += Lanes) {
    if (s < sample.count) {
      z[s] = store<T>(s == hit ? lowest : load(z[s]) + bias[s]);
    } else if (s > sample.count || target < 0) {
      z[s] = store<T>(lowest);
    }
  }
  if (place.lane == 0) {
    columns[place.row] = target >= 0 ? sample.count : -1;
    if (target >= 0) {
      double const own_bias = of.bias != nullptr ? static_cast<double>(of.bias[target]) : 0.0;
      z[sample.count] = store<T>(
          static_cast<P>(static_cast<double>(sum) + own_bias - sample.log_expected_count(target)));
    }
  }
}

}  // namespace detail

/// Adds @p bias to the sample's logits and writes behind them that of each row's target, less the
/// logarithm of the target's expected count; where the sample has the target, too, and in the
/// padding, -infinity.
///
/// Shapes: logits (rows, width), whose first S columns are products; bias (S); columns (rows): S
///         where there is a target, else -1.
/// Cost:   C multiply-accumulates a row; reads and writes the logits once. One launch.
/// Order:  of a row's sum every 32nd (256th) term in ComputeType<T>, then as in join_lanes().
template <class T, class P>
void sampled_logits(Stream const& stream, SampledRows<T, P> const& of, SampleView const& sample,
                    P const* bias, T* logits, std::int32_t* columns) {
  constexpr P lowest = -std::numeric_limits<P>::infinity();
  if (of.rows == 0) {
    return;
  }
  with_row_lanes(of.width, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::sampled_logits_kernel<n, T, P>, blocks_for(of.rows, row_threads / n),
           row_threads, stream, of, sample, bias, lowest, logits, columns);
  });
}

}  // namespace tandem::cuda
