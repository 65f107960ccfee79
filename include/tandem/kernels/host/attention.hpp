// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention, row by row: the reference for every other, in any T; and one new row, for generation.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// What attention computes in, and the type of the normalisers that it saves.
template <class T>
using AttentionScalar = std::conditional_t<std::is_same_v<T, double>, double, float>;

namespace detail {

/// Rows of one head of keys or of values in memory.
template <class T>
struct HeadRows {
  T const* first;
  std::int64_t stride;

  [[nodiscard]] T const* operator[](std::int64_t j) const { return first + j * stride; }
};

template <class F, class A, class B>
F dot(int width, A const* a, B const* b) {
  return lane_sum<F>(width,
                     [=](std::int64_t d) { return static_cast<F>(a[d]) * static_cast<F>(b[d]); });
}

/// The factor of each of @p keys probabilities of a row: 0 where it is dropped, else 1 / (1 -
/// rate).
template <class F>
class RowMask {
 public:
  RowMask(AttentionShape const& shape, AttentionDropout const& dropout, std::int64_t sample,
          std::int64_t head, std::int64_t row)
      : shape_{shape}, dropout_{dropout}, sample_{sample}, head_{head}, row_{row} {}

  [[nodiscard]] F operator()(std::int64_t j) const {
    if (dropout_.rate == 0.0F) {
      return F{1};
    }
    return dropped(attention_word(shape_, dropout_.place, sample_, head_, row_, j), dropout_.rate,
                   dropout_scale<F>(dropout_.rate), F{1});
  }

 private:
  AttentionShape const& shape_;
  AttentionDropout const& dropout_;
  std::int64_t sample_;
  std::int64_t head_;
  std::int64_t row_;
};

/// y = the sum over the keys of mask(j) softmax(q k_j / sqrt(D)) v_j; returns the logarithm of the
/// softmax's normaliser. Scratch: keys + width numbers. @pre keys >= 1
template <class F, class T, class Mask>
F attention_row(int width, int keys, T const* q, HeadRows<T> k, HeadRows<T> v, Mask const& mask,
                T* y, F* scratch) {
  F const scale = F{1} / std::sqrt(static_cast<F>(width));
  F* const p = scratch;
  F* const total = scratch + keys;
  for (int j = 0; j < keys; ++j) {
    p[j] = scale * dot<F>(width, q, k[j]);
  }
  F largest = p[0];
  for (int j = 1; j < keys; ++j) {
    largest = p[j] > largest ? p[j] : largest;
  }
  F const sum = lane_sum<F>(keys, [=](std::int64_t j) { return p[j] = std::exp(p[j] - largest); });
  std::fill(total, total + width, F{0});
  for (int j = 0; j < keys; ++j) {
    F const weight = p[j] * mask(j);
    T const* const value = v[j];
    for (int d = 0; d < width; ++d) {
      total[d] += weight * static_cast<F>(value[d]);
    }
  }
  for (int d = 0; d < width; ++d) {
    y[d] = static_cast<T>(total[d] / sum);
  }
  return largest + std::log(sum);
}

}  // namespace detail

/// Elements of AttentionScalar<T> that attention_forward needs as scratch.
template <class T>
constexpr std::int64_t attention_forward_scratch(AttentionShape const& shape, int time,
                                                 int threads) {
  return threads * (std::int64_t{time} + shape.width);
}

/// y = softmax(q kᵀ / sqrt(D)) v, for each head; the causal one looks at keys up to its own row.
///
/// Shapes: x (B, time, shape.row()); y (B, time, Heads D); normalisers (B, Heads, time), the
///         logarithm of each row's sum of exponentials, or null. Rows from lengths[s] on are looked
///         at by none, and give 0.
/// Cost:   2 D multiply-accumulates and one exponential a head, row and key.
/// Order:  a row by itself: its bits depend on its own keys only. Sums over D and of exponentials
///         in 16 lanes, over keys in order.
/// @pre    0 <= lengths[s] <= time <= shape.longest
template <class T>
TANDEM_NOINLINE void attention_forward(Team& team, AttentionShape const& shape,
                                       AttentionRows const& rows, AttentionDropout const& dropout,
                                       T const* x, T* y, AttentionScalar<T>* normalisers,
                                       AttentionScalar<T>* scratch) {
  using F = AttentionScalar<T>;
  int const members = team.size();
  std::int64_t const tasks = std::int64_t{rows.batch} * shape.heads;
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    F* const own = scratch + member * (rows.time + shape.width);
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      std::int64_t const sample = task / shape.heads;
      std::int64_t const head = task % shape.heads;
      T const* const first = x + sample * rows.time * shape.row();
      detail::HeadRows<T> const k{first + shape.key(head / shape.group()), shape.row()};
      detail::HeadRows<T> const v{first + shape.value(head / shape.group()), shape.row()};
      int const length = rows.length(sample);
      for (int i = 0; i < rows.time; ++i) {
        T* const to = y + (sample * rows.time + i) * shape.out() + shape.query(head);
        F normaliser{0};
        if (i < length) {
          normaliser = detail::attention_row<F>(
              shape.width, shape.keys(i, length), first + i * shape.row() + shape.query(head), k, v,
              detail::RowMask<F>{shape, dropout, sample, head, i}, to, own);
        } else {
          std::fill(to, to + shape.width, T{});
        }
        if (normalisers != nullptr) {
          normalisers[task * rows.time + i] = normaliser;
        }
      }
    }
  });
}

/// Elements of AttentionScalar<T> that attention_gradient needs as scratch.
template <class T>
constexpr std::int64_t attention_gradient_scratch(AttentionShape const& shape, int time,
                                                  int threads) {
  return threads * (2 * std::int64_t{time} + 1) * shape.width;
}

/// dx of attention_forward, from what it read, gave and saved.
///
/// Shapes: x, dx (B, time, shape.row()); y, dy (B, time, Heads D); normalisers (B, Heads, time).
///         Rows from lengths[s] on give 0, and their dy is not read.
/// Cost:   5 D multiply-accumulates and one exponential a head, row and key.
/// Order:  a gradient of a key or value adds the heads of its group in order, and of each the rows
///         in order.
template <class T>
TANDEM_NOINLINE void attention_gradient(Team& team, AttentionShape const& shape,
                                        AttentionRows const& rows, AttentionDropout const& dropout,
                                        T const* x, T const* y, T const* dy,
                                        AttentionScalar<T> const* normalisers, T* dx,
                                        AttentionScalar<T>* scratch) {
  using F = AttentionScalar<T>;
  int const members = team.size();
  int const width = shape.width;
  F const scale = F{1} / std::sqrt(static_cast<F>(width));
  std::int64_t const tasks = std::int64_t{rows.batch} * shape.key_heads;
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    F* const dk = scratch + member * (2 * std::int64_t{rows.time} + 1) * width;
    F* const dv = dk + std::int64_t{rows.time} * width;
    F* const dq = dv + std::int64_t{rows.time} * width;
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      std::int64_t const sample = task / shape.key_heads;
      std::int64_t const key_head = task % shape.key_heads;
      T const* const first = x + sample * rows.time * shape.row();
      T* const dfirst = dx + sample * rows.time * shape.row();
      detail::HeadRows<T> const k{first + shape.key(key_head), shape.row()};
      detail::HeadRows<T> const v{first + shape.value(key_head), shape.row()};
      int const length = rows.length(sample);
      std::fill(dk, dq, F{0});
      for (std::int64_t head = key_head * shape.group(); head < (key_head + 1) * shape.group();
           ++head) {
        for (int i = 0; i < rows.time; ++i) {
          std::int64_t const at = (sample * rows.time + i) * shape.out() + shape.query(head);
          T const* const q = first + i * shape.row() + shape.query(head);
          std::fill(dq, dq + width, F{0});
          if (i < length) {
            F const normaliser = normalisers[(sample * shape.heads + head) * rows.time + i];
            F const mean = detail::dot<F>(width, y + at, dy + at);  // of dp under p
            detail::RowMask<F> const mask{shape, dropout, sample, head, i};
            for (std::int64_t j = 0; j < shape.keys(i, length); ++j) {
              F const p = std::exp(scale * detail::dot<F>(width, q, k[j]) - normaliser);
              F const factor = mask(j);
              F const dp = factor * detail::dot<F>(width, dy + at, v[j]);
              F const ds = scale * p * (dp - mean);
              for (int d = 0; d < width; ++d) {
                dq[d] += ds * static_cast<F>(k[j][d]);
                dk[j * width + d] += ds * static_cast<F>(q[d]);
                dv[j * width + d] += factor * p * static_cast<F>(dy[at + d]);
              }
            }
          }
          T* const to = dfirst + i * shape.row() + shape.query(head);
          for (int d = 0; d < width; ++d) {
            to[d] = static_cast<T>(dq[d]);
          }
        }
      }
      for (std::int64_t j = 0; j < rows.time; ++j) {
        T* const to = dfirst + j * shape.row();
        for (int d = 0; d < width; ++d) {
          to[shape.key(key_head) + d] = static_cast<T>(dk[j * width + d]);
          to[shape.value(key_head) + d] = static_cast<T>(dv[j * width + d]);
        }
      }
    }
  });
}

/// Elements of AttentionScalar<T> that attention_step needs as scratch.
template <class T>
constexpr std::int64_t attention_step_scratch(AttentionShape const& shape, int threads) {
  return attention_forward_scratch<T>(shape, shape.longest, threads);
}

/// Row @p position of attention_forward without its other rows: keeps the new keys and values, and
/// looks at those of all rows up to this one. Without dropout.
///
/// Shapes: x (B, shape.row()), the new row of each sample; y (B, Heads D); cache (B, longest,
///         2 KeyHeads D), [keys | values] of the rows before, to which this row's are added.
/// Cost:   reads the first position rows of the cache once for each head of a group.
/// Order:  the bits of attention_forward's row.
/// @pre    shape.causal; 0 <= position < shape.longest
template <class T>
TANDEM_NOINLINE void attention_step(Team& team, AttentionShape const& shape, int batch,
                                    int position, T const* x, T* cache, T* y,
                                    AttentionScalar<T>* scratch) {
  using F = AttentionScalar<T>;
  int const members = team.size();
  std::int64_t const kept = shape.row() - shape.out();
  std::int64_t const tasks = std::int64_t{batch} * shape.key_heads;
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    F* const own = scratch + member * (shape.longest + shape.width);
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      std::int64_t const sample = task / shape.key_heads;
      std::int64_t const key_head = task % shape.key_heads;
      T const* const row = x + sample * shape.row();
      T* const keys = cache + sample * shape.longest * kept + shape.key(key_head) - shape.out();
      T* const values = cache + sample * shape.longest * kept + shape.value(key_head) - shape.out();
      std::copy_n(row + shape.key(key_head), shape.width, keys + position * kept);
      std::copy_n(row + shape.value(key_head), shape.width, values + position * kept);
      for (std::int64_t head = key_head * shape.group(); head < (key_head + 1) * shape.group();
           ++head) {
        detail::attention_row<F>(
            shape.width, position + 1, row + shape.query(head), detail::HeadRows<T>{keys, kept},
            detail::HeadRows<T>{values, kept}, [](std::int64_t) { return F{1}; },
            y + sample * shape.out() + shape.query(head), own);
      }
    }
  });
}

}  // namespace tandem::host
