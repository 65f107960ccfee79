// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The backward pass of attention in float inside, of float or BFloat16, in vectors.
///
/// Probabilities are computed again, in blocks of rows by blocks of keys that stay in a core's
/// second-level cache. Source: Dao, arXiv:2307.08691, algorithm 2.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/attention.hpp>
#include <tandem/kernels/channels_last/attention_mask.hpp>
#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/channels_last/products.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// A block of the matrix of probabilities: so many rows by so many keys. Rows are a multiple of a
/// tile's: a tile of keys then ends where that of the rows does which first look at it.
inline constexpr int block_queries = 16 * product_rows;
inline constexpr int block_keys = 4 * static_cast<int>(panel_columns);

/// s, scores, becomes probabilities as the values' gradient wants them, factor p; dp, the gradient
/// of probabilities, becomes that of scores, scale p (factor dp - mean). 0 from @p keys on.
///
/// Shapes: s, dp (columns), whole vectors; their first column is key @p first_key.
struct ScoreGradient {
  float scale;
  float normaliser;
  float mean;

  void operator()(std::int64_t keys, std::int64_t columns, float* s, float* dp,
                  AttentionMask const& mask, std::int64_t i, std::int64_t first_key) const {
    Floats kept[4] = {Floats{1.0F}, Floats{1.0F}, Floats{1.0F}, Floats{1.0F}};
    for (std::int64_t c = 0; c < columns; c += lanes) {
      if (mask.drops() && c % panel_columns == 0 && c < keys) {
        mask.factors(i, (first_key + c) / panel_columns, kept);
      }
      Floats p = exponential(multiply_add(load(s + c), Floats{scale}, Floats{-normaliser}));
      if (c + lanes > keys) {
        p = select(first_lanes(keys - c), p, Floats{0.0F});
      }
      Floats const factor = kept[c % panel_columns / lanes];
      store(dp + c, Floats{scale} * p * (factor * load(dp + c) - Floats{mean}));
      store(s + c, factor * p);
    }
  }
};

/// Where the parts of a member's scratch stand.
class GradientScratch {
 public:
  std::int64_t wide;         ///< the head's width in whole vectors
  std::int64_t columns;      ///< of a block of keys
  std::int64_t queries;      ///< rows of a block
  std::int64_t stride;       ///< of scores; no power of two, so that columns spread over the cache
  std::int64_t accumulated;  ///< numbers in dqueries
  std::int64_t size = 0;     ///< numbers in all
  float* keys;               ///< (columns, wide)
  float* keys_transposed;    ///< panels of columns
  float* values_transposed;  ///< the same
  float* dkeys;              ///< (columns, wide)
  float* dvalues;            ///< (columns, wide), behind dkeys
  float* query;              ///< (queries, wide)
  float* dresult;            ///< (queries, wide)
  float* scores;             ///< (queries, stride)
  float* dscores;            ///< (queries, stride)
  float* dqueries;           ///< (group, time, wide)

  /// @param first  null: only the size is wanted
  GradientScratch(AttentionShape const& shape, int time, float* first)
      : wide{whole_vectors(shape.width)},
        columns{std::min<std::int64_t>(block_keys, whole_panels(time))},
        queries{std::min(block_queries, time)},
        stride{columns + lanes},
        accumulated{shape.group() * time * wide},
        keys{take(first, columns * wide)},
        keys_transposed{take(first, columns * shape.width)},
        values_transposed{take(first, columns * shape.width)},
        dkeys{take(first, columns * wide)},
        dvalues{take(first, columns * wide)},
        query{take(first, queries * wide)},
        dresult{take(first, queries * wide)},
        scores{take(first, queries * stride)},
        dscores{take(first, queries * stride)},
        dqueries{take(first, accumulated)} {}

 private:
  float* take(float* first, std::int64_t numbers) {
    size += numbers;
    return first == nullptr ? nullptr : first + size - numbers;
  }
};

/// What one member of the team does for a (sample, key head).
template <class T>
class AttentionGradient {
 public:
  AttentionGradient(AttentionShape const& shape, AttentionRows const& rows,
                    AttentionDropout const& dropout, float* scratch)
      : shape_{shape},
        rows_{rows},
        dropout_{dropout},
        m_{shape, rows.time, scratch},
        scale_{1.0F / std::sqrt(static_cast<float>(shape.width))} {}

  void operator()(std::int64_t sample, std::int64_t key_head, T const* x, T const* y, T const* dy,
                  float const* normalisers, T* dx) const {
    std::int64_t const row = shape_.row();
    T const* const first = x + sample * rows_.time * row;
    T* const to = dx + sample * rows_.time * row;
    int const length = rows_.length(sample);
    std::fill_n(m_.dqueries, m_.accumulated, 0.0F);
    for (int j = 0; j < length; j += block_keys) {
      int const keys = std::min(block_keys, length - j);
      T const* const k = first + j * row + shape_.key(key_head);
      T const* const v = first + j * row + shape_.value(key_head);
      pack_rows(keys, shape_.width, k, row, m_.keys);
      pack_transposed(keys, shape_.width, k, row, m_.keys_transposed);
      pack_transposed(keys, shape_.width, v, row, m_.values_transposed);
      std::fill_n(m_.dkeys, 2 * m_.columns * m_.wide, 0.0F);
      for (std::int64_t g = 0; g < shape_.group(); ++g) {
        std::int64_t const head = key_head * shape_.group() + g;
        std::int64_t const at = sample * rows_.time * shape_.out() + shape_.query(head);
        AttentionMask const mask{shape_, dropout_, sample, head};
        float const* const normaliser = normalisers + (sample * shape_.heads + head) * rows_.time;
        for (int i = shape_.causal ? j : 0; i < length; i += block_queries) {
          block(i, std::min(block_queries, length - i), j, keys,
                first + i * row + shape_.query(head), y + at + i * shape_.out(),
                dy + at + i * shape_.out(), normaliser + i, mask,
                m_.dqueries + (g * rows_.time + i) * m_.wide);
        }
      }
      auto const one = [](std::int64_t) { return 1.0F; };
      unpack_rows(keys, shape_.width, m_.dkeys, to + j * row + shape_.key(key_head), row, one);
      unpack_rows(keys, shape_.width, m_.dvalues, to + j * row + shape_.value(key_head), row, one);
    }
    for (std::int64_t g = 0; g < shape_.group(); ++g) {
      unpack_rows(rows_.time, shape_.width, m_.dqueries + g * rows_.time * m_.wide,
                  to + shape_.query(key_head * shape_.group() + g), row,
                  [](std::int64_t) { return 1.0F; });
    }
    for (int j = length; j < rows_.time; ++j) {
      std::fill_n(to + j * row + shape_.key(key_head), shape_.width, T{});
      std::fill_n(to + j * row + shape_.value(key_head), shape_.width, T{});
    }
  }

 private:
  /// Rows i, …, i + count - 1 of a head by keys j, …, j + keys - 1: all pointers are at row i.
  void block(int i, int count, int j, int keys, T const* q, T const* y, T const* dy,
             float const* normaliser, AttentionMask const& mask, float* dquery) const {
    pack_rows(count, shape_.width, q, shape_.row(), m_.query);
    pack_rows(count, shape_.width, dy, shape_.out(), m_.dresult);
    std::int64_t const stride = m_.stride;
    for (int r = 0; r < count; r += product_rows) {
      int const some = std::min(product_rows, count - r);
      int const most = looked_at(i + r + some - 1, j, keys);
      for (int c = 0; c < most; c += static_cast<int>(panel_columns)) {
        int const part = std::min(static_cast<int>(panel_columns), most - c);
        std::int64_t const columns = whole_vectors(part);
        multiply(some, columns, shape_.width, {m_.query + r * m_.wide, m_.wide, 1},
                 {m_.keys_transposed + c * shape_.width, panel_columns},
                 {m_.scores + r * stride + c, stride}, false);
        multiply(some, columns, shape_.width, {m_.dresult + r * m_.wide, m_.wide, 1},
                 {m_.values_transposed + c * shape_.width, panel_columns},
                 {m_.dscores + r * stride + c, stride}, false);
      }
      for (int n = r; n < r + some; ++n) {
        float* const s = m_.scores + n * stride;
        float* const ds = m_.dscores + n * stride;
        ScoreGradient const gradient{scale_, normaliser[n], mean(y, n)};
        gradient(looked_at(i + n, j, keys), whole_vectors(most), s, ds, mask, i + n, j);
      }
      multiply(some, m_.wide, most, {m_.dscores + r * stride, stride, 1}, {m_.keys, m_.wide},
               {dquery + r * m_.wide, m_.wide}, true);
    }
    for (int c = 0; c < looked_at(i + count - 1, j, keys); c += product_rows) {
      int const some = std::min(product_rows, keys - c);
      int const from = shape_.causal ? std::max(0, j + c - i) : 0;  // rows before look at none
      multiply(some, m_.wide, count - from, {m_.scores + from * stride + c, 1, stride},
               {m_.dresult + from * m_.wide, m_.wide}, {m_.dvalues + c * m_.wide, m_.wide}, true);
      multiply(some, m_.wide, count - from, {m_.dscores + from * stride + c, 1, stride},
               {m_.query + from * m_.wide, m_.wide}, {m_.dkeys + c * m_.wide, m_.wide}, true);
    }
  }

  /// Keys of the block that row @p i looks at.
  [[nodiscard]] int looked_at(int i, int j, int keys) const {
    return std::clamp(shape_.keys(i, j + keys) - j, 0, keys);
  }

  /// The gradient of the probabilities of row n, averaged under them: y · dy.
  [[nodiscard]] float mean(T const* y, int n) const {
    float const* const dy = m_.dresult + n * m_.wide;
    Floats total{0.0F};
    for (int d = 0; d < shape_.width; d += lanes) {
      T const* const from = y + n * shape_.out() + d;
      total +=
          load(dy + d) * (shape_.width - d >= lanes ? load(from) : load(from, shape_.width - d));
    }
    return join_lanes(total, [](float a, float b) { return a + b; });
  }

  AttentionShape shape_;
  AttentionRows rows_;
  AttentionDropout dropout_;
  GradientScratch m_;
  float scale_;
};

}  // namespace detail

/// Bytes that attention_gradient needs as scratch.
inline std::int64_t attention_gradient_scratch(AttentionShape const& shape, int time, int threads) {
  return threads * detail::GradientScratch{shape, time, nullptr}.size * std::int64_t{sizeof(float)};
}

/// As host::attention_gradient, of float or BFloat16; normalisers in float.
///
/// Cost:  5 D multiply-accumulates and one exponential a head, row and key.
/// Order: each sum in order, in float: over keys for a query; over the heads of a group, and of
///        each over rows, for a key or value. No bit depends on the threads, on the time, or on
///        what stands behind the keys.
template <class T>
TANDEM_NOINLINE void attention_gradient(Team& team, AttentionShape const& shape,
                                        AttentionRows const& rows, AttentionDropout const& dropout,
                                        T const* x, T const* y, T const* dy,
                                        float const* normalisers, T* dx, float* scratch) {
  int const members = team.size();
  std::int64_t const each =
      attention_gradient_scratch(shape, rows.time, 1) / std::int64_t{sizeof(float)};
  std::int64_t const tasks = std::int64_t{rows.batch} * shape.key_heads;
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    detail::AttentionGradient<T> const gradient{shape, rows, dropout, scratch + member * each};
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      gradient(task / shape.key_heads, task % shape.key_heads, x, y, dy, normalisers, dx);
    }
  });
}

}  // namespace tandem::host::channels_last
