// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention in float inside, of float or BFloat16, in vectors: kernels/host/attention.hpp has the
/// definition. This is the forward pass; attention_gradient.hpp has the backward one.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/attention_mask.hpp>
#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/channels_last/products.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

constexpr std::int64_t whole_vectors(std::int64_t n) { return (n + lanes - 1) / lanes * lanes; }
constexpr std::int64_t whole_panels(std::int64_t n) {
  return (n + panel_columns - 1) / panel_columns * panel_columns;
}

/// Lanes 0 to n - 1 are true; n may be any number below 2²⁴.
[[gnu::always_inline]] inline Mask first_lanes(std::int64_t n) {
  Floats count;
  count.v = FloatVector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Floats{static_cast<float>(n)} > count;
}

template <class Join>
[[gnu::always_inline]] inline float join_lanes(Floats const& value, Join const& join) {
  float lane[lanes];
  store(lane, value);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lane[i] = join(lane[i], lane[i + half]);
    }
  }
  return lane[0];
}

/// Of one row of scores: its largest and its sum of exponentials.
struct RowSums {
  float largest;
  float total;
};

/// s = factor exp(scale (s - the largest)) in the first @p keys columns, 0 in the others.
///
/// Shapes: s (columns), whole vectors of which the first hold scores.
inline RowSums softmax_row(std::int64_t keys, std::int64_t columns, float scale, float* s,
                           AttentionMask const& mask, std::int64_t i) {
  std::int64_t const whole = keys - keys % lanes;
  Floats const least{-std::numeric_limits<float>::infinity()};
  Floats most = least;
  for (std::int64_t c = 0; c < whole; c += lanes) {
    Floats const score = load(s + c);
    most = select(score > most, score, most);
  }
  Mask const last = first_lanes(keys - whole);
  if (whole < columns) {
    Floats const tail = select(last, load(s + whole), least);
    store(s + whole, tail);
    most = select(tail > most, tail, most);
  }
  float const largest = join_lanes(most, [](float a, float b) { return b > a ? b : a; });
  Floats const shift{largest};
  Floats const factor{scale};
  Floats total{0.0F};
  for (std::int64_t c = 0; c < whole + (whole < columns ? lanes : 0); c += lanes) {
    Floats const p = exponential((load(s + c) - shift) * factor);
    total += p;
    store(s + c, p);
  }
  for (std::int64_t c = whole + lanes; c < columns; c += lanes) {
    store(s + c, Floats{0.0F});
  }
  if (mask.drops()) {
    for (std::int64_t c = 0; c < keys; c += panel_columns) {
      Floats kept[4];
      mask.factors(i, c / panel_columns, kept);
      for (std::int64_t v = 0; v < 4 && c + v * lanes < columns; ++v) {
        float* const at = s + c + v * lanes;
        store(at, load(at) * kept[v]);
      }
    }
  }
  return {largest, join_lanes(total, [](float a, float b) { return a + b; })};
}

}  // namespace detail

/// Bytes that attention_forward needs as scratch.
inline std::int64_t attention_forward_scratch(AttentionShape const& shape, int time, int threads) {
  std::int64_t const wide = detail::whole_vectors(shape.width);
  std::int64_t const keys = detail::whole_panels(time);
  return threads * std::int64_t{sizeof(float)} *
         (keys * (shape.width + wide) + product_rows * (keys + 2 * wide));
}

/// As host::attention_forward, of float or BFloat16; normalisers in float.
///
/// Cost:  2 D multiply-accumulates and one exponential a head, row and key; keys and values of a
///        head are copied once, to stay in a core's second-level cache.
/// Order: fixed by the row and its keys: sums over D and over keys in order, of exponentials in 16
///        lanes. No bit depends on the threads, on the time, or on what stands behind the keys.
template <class T>
TANDEM_NOINLINE void attention_forward(Team& team, AttentionShape const& shape,
                                       AttentionRows const& rows, AttentionDropout const& dropout,
                                       T const* x, T* y, float* normalisers, float* scratch) {
  int const members = team.size();
  std::int64_t const each =
      attention_forward_scratch(shape, rows.time, 1) / std::int64_t{sizeof(float)};
  std::int64_t const tasks = std::int64_t{rows.batch} * shape.heads;
  float const scale = 1.0F / std::sqrt(static_cast<float>(shape.width));
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    std::int64_t const wide = detail::whole_vectors(shape.width);
    std::int64_t const columns = detail::whole_panels(rows.time);
    float* const keys = scratch + member * each;         // panels of 64
    float* const values = keys + columns * shape.width;  // (time, wide)
    float* const query = values + columns * wide;        // (6, wide)
    float* const result = query + product_rows * wide;   // (6, wide)
    float* const scores = result + product_rows * wide;  // (6, columns)
    std::int64_t packed = -1;                            // which key head is in keys and values
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      std::int64_t const sample = task / shape.heads;
      std::int64_t const head = task % shape.heads;
      T const* const first = x + sample * rows.time * shape.row();
      T* const to = y + sample * rows.time * shape.out() + shape.query(head);
      int const length = rows.length(sample);
      if (packed != task / shape.group()) {
        packed = task / shape.group();
        std::int64_t const key_head = head / shape.group();
        pack_transposed(length, shape.width, first + shape.key(key_head), shape.row(), keys);
        pack_rows(length, shape.width, first + shape.value(key_head), shape.row(), values);
      }
      AttentionMask const mask{shape, dropout, sample, head};
      for (int i = 0; i < length; i += product_rows) {
        int const count = std::min(product_rows, length - i);
        int const most = shape.keys(i + count - 1, length);
        pack_rows(count, shape.width, first + i * shape.row() + shape.query(head), shape.row(),
                  query);
        for (std::int64_t c = 0; c < most; c += panel_columns) {
          std::int64_t const part = std::min<std::int64_t>(panel_columns, most - c);
          multiply(count, detail::whole_vectors(part), shape.width, {query, wide, 1},
                   {keys + c * shape.width, panel_columns}, {scores + c, columns}, false);
        }
        float inverse[product_rows];
        for (int r = 0; r < count; ++r) {
          auto const [largest, total] =
              detail::softmax_row(shape.keys(i + r, length), detail::whole_vectors(most), scale,
                                  scores + r * columns, mask, i + r);
          inverse[r] = 1.0F / total;
          if (normalisers != nullptr) {
            normalisers[task * rows.time + i + r] = scale * largest + std::log(total);
          }
        }
        multiply(count, wide, most, {scores, columns, 1}, {values, wide}, {result, wide}, false);
        unpack_rows(count, shape.width, result, to + i * shape.out(), shape.out(),
                    [&](std::int64_t r) { return inverse[r]; });
      }
      for (int i = length; i < rows.time; ++i) {
        std::fill_n(to + i * shape.out(), shape.width, T{});
        if (normalisers != nullptr) {
          normalisers[task * rows.time + i] = 0.0F;
        }
      }
    }
  });
}

}  // namespace tandem::host::channels_last
