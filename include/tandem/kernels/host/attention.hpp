// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention, row by row: the reference for every other, in any T; of a chunk of a sequence's rows,
/// which looks at those of the chunks before; and of one new row, for generation.

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

/// A chunk of time of samples whose earlier rows stand in chunks of their own.
/// @tparam F  of sums
template <class F>
struct AttentionChunkRows {
  int first = 0;           ///< its first row of each sample
  std::int64_t apart = 0;  ///< elements of x from a chunk to the next; negative ones, too
  bool last = true;        ///< no chunk comes behind it, so that the sums begin with it
  F* sums = nullptr;       ///< gradients of keys and values, from chunk to chunk
};

namespace detail {

/// Rows of one head of keys or of values in memory.
template <class T>
struct HeadRows {
  T const* first;
  std::int64_t stride;

  [[nodiscard]] T const* operator[](std::int64_t j) const { return first + j * stride; }
};

/// The same where rows come in chunks of time that stand apart.
template <class T>
struct ChunkedHeadRows {
  T const* first;
  std::int64_t stride;
  std::int64_t each;   ///< rows of a chunk
  std::int64_t apart;  ///< from a chunk to the next

  [[nodiscard]] T const* operator[](std::int64_t j) const {
    return first + j / each * apart + j % each * stride;
  }
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
template <class F, class T, class Rows, class Mask>
F attention_row(int width, int keys, T const* q, Rows k, Rows v, Mask const& mask, T* y,
                F* scratch) {
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

/// Of samples that are all there: keys and values of a head stand where its queries do, and
/// gradients of keys and values are added up in a member's scratch.
template <class T>
class WholeSamples {
 public:
  using F = AttentionScalar<T>;
  static constexpr int before = 0;  ///< rows

  WholeSamples(AttentionShape const& shape, int time, F* scratch)
      : shape_{shape}, time_{time}, scratch_{scratch} {}

  /// @param first  of the rows that there are
  [[nodiscard]] HeadRows<T> head(T const* first) const { return {first, shape_.row()}; }
  /// Gradients of so many keys, and behind them of the values, for a (sample, key head).
  [[nodiscard]] std::int64_t keys() const { return time_; }
  [[nodiscard]] F* sums(std::int64_t member, std::int64_t /*task*/) const {
    F* const own = scratch_ + member * (2 * keys() + 1) * shape_.width;
    std::fill_n(own, 2 * keys() * shape_.width, F{0});
    return own;
  }
  /// Of a query.
  [[nodiscard]] F* query(std::int64_t member) const {
    return scratch_ + (member * (2 * keys() + 1) + 2 * keys()) * shape_.width;
  }

 private:
  AttentionShape const& shape_;
  std::int64_t time_;
  F* scratch_;
};

/// Of a chunk of samples: keys and values stand in its rows and in those of the chunks before it,
/// and their gradients are added up from chunk to chunk.
template <class T>
class ChunkOfSamples {
 public:
  using F = AttentionScalar<T>;
  int before;

  ChunkOfSamples(AttentionShape const& shape, AttentionChunkRows<F> const& chunk, int time,
                 F* scratch)
      : before{chunk.first}, shape_{shape}, chunk_{chunk}, time_{time}, scratch_{scratch} {}

  [[nodiscard]] ChunkedHeadRows<T> head(T const* first) const {
    std::int64_t const chunks = time_ > 0 ? before / time_ : 0;
    return {first - chunks * chunk_.apart, shape_.row(), time_, chunk_.apart};
  }
  [[nodiscard]] std::int64_t keys() const { return shape_.longest; }
  [[nodiscard]] F* sums(std::int64_t /*member*/, std::int64_t task) const {
    F* const own = chunk_.sums + task * 2 * keys() * shape_.width;
    if (chunk_.last) {
      std::fill_n(own, 2 * keys() * shape_.width, F{0});
    }
    return own;
  }
  [[nodiscard]] F* query(std::int64_t member) const { return scratch_ + member * shape_.width; }

 private:
  AttentionShape const& shape_;
  AttentionChunkRows<F> const& chunk_;
  std::int64_t time_;
  F* scratch_;
};

/// The body of attention_forward and attention_chunk_forward.
template <class T, class Samples>
void attend(Team& team, AttentionShape const& shape, AttentionRows const& rows,
            AttentionDropout const& dropout, Samples const& samples, T const* x, T* y,
            AttentionScalar<T>* normalisers, AttentionScalar<T>* scratch) {
  using F = AttentionScalar<T>;
  int const members = team.size();
  int const before = samples.before;
  std::int64_t const tasks = std::int64_t{rows.batch} * shape.heads;
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    F* const own = scratch + member * (before + rows.time + shape.width);
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      std::int64_t const sample = task / shape.heads;
      std::int64_t const head = task % shape.heads;
      T const* const first = x + sample * rows.time * shape.row();
      auto const k = samples.head(first + shape.key(head / shape.group()));
      auto const v = samples.head(first + shape.value(head / shape.group()));
      int const length = rows.length(sample);
      for (int i = 0; i < rows.time; ++i) {
        T* const to = y + (sample * rows.time + i) * shape.out() + shape.query(head);
        F normaliser{0};
        if (i < length) {
          normaliser =
              attention_row<F>(shape.width, shape.keys(before + i, before + length),
                               first + i * shape.row() + shape.query(head), k, v,
                               RowMask<F>{shape, dropout, sample, head, before + i}, to, own);
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

/// The body of attention_gradient and attention_chunk_gradient.
template <class T, class Samples>
void attend_back(Team& team, AttentionShape const& shape, AttentionRows const& rows,
                 AttentionDropout const& dropout, Samples const& samples, T const* x, T const* y,
                 T const* dy, AttentionScalar<T> const* normalisers, T* dx) {
  using F = AttentionScalar<T>;
  int const members = team.size();
  int const width = shape.width;
  int const before = samples.before;
  F const scale = F{1} / std::sqrt(static_cast<F>(width));
  std::int64_t const tasks = std::int64_t{rows.batch} * shape.key_heads;
  team.parallel_for(members, [&](std::int64_t member, std::int64_t) {
    F* const dq = samples.query(member);
    for (std::int64_t task = tasks * member / members; task < tasks * (member + 1) / members;
         ++task) {
      std::int64_t const sample = task / shape.key_heads;
      std::int64_t const key_head = task % shape.key_heads;
      F* const dk = samples.sums(member, task);
      F* const dv = dk + samples.keys() * width;
      T const* const first = x + sample * rows.time * shape.row();
      T* const dfirst = dx + sample * rows.time * shape.row();
      auto const k = samples.head(first + shape.key(key_head));
      auto const v = samples.head(first + shape.value(key_head));
      int const length = rows.length(sample);
      for (std::int64_t head = key_head * shape.group(); head < (key_head + 1) * shape.group();
           ++head) {
        for (int i = 0; i < rows.time; ++i) {
          std::int64_t const at = (sample * rows.time + i) * shape.out() + shape.query(head);
          T const* const q = first + i * shape.row() + shape.query(head);
          std::fill(dq, dq + width, F{0});
          if (i < length) {
            F const normaliser = normalisers[(sample * shape.heads + head) * rows.time + i];
            F const mean = dot<F>(width, y + at, dy + at);  // of dp under p
            RowMask<F> const mask{shape, dropout, sample, head, before + i};
            for (std::int64_t j = 0; j < shape.keys(before + i, before + length); ++j) {
              T const* const key = k[j];
              F const p = std::exp(scale * dot<F>(width, q, key) - normaliser);
              F const factor = mask(j);
              F const dp = factor * dot<F>(width, dy + at, v[j]);
              F const ds = scale * p * (dp - mean);
              for (int d = 0; d < width; ++d) {
                dq[d] += ds * static_cast<F>(key[d]);
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
          to[shape.key(key_head) + d] = static_cast<T>(dk[(before + j) * width + d]);
          to[shape.value(key_head) + d] = static_cast<T>(dv[(before + j) * width + d]);
        }
      }
    }
  });
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
  detail::WholeSamples<T> const samples{shape, rows.time, scratch};
  detail::attend(team, shape, rows, dropout, samples, x, y, normalisers, scratch);
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
  detail::WholeSamples<T> const samples{shape, rows.time, scratch};
  detail::attend_back(team, shape, rows, dropout, samples, x, y, dy, normalisers, dx);
}

/// Elements of AttentionScalar<T> that both passes over a chunk need as scratch.
template <class T>
constexpr std::int64_t attention_chunk_scratch(AttentionShape const& shape, int threads) {
  return attention_forward_scratch<T>(shape, shape.longest, threads);
}

/// Rows [chunk.first, chunk.first + time) of attention_forward: x, y, normalisers and lengths are
/// of these rows alone, whose keys stand in them and in the chunks before, at x - chunk.apart …
///
/// Order: the bits of attention_forward's rows.
/// @pre   shape.causal; the chunks before have as many rows, time divides chunk.first
template <class T>
TANDEM_NOINLINE void attention_chunk_forward(Team& team, AttentionShape const& shape,
                                             AttentionRows const& rows,
                                             AttentionChunkRows<AttentionScalar<T>> const& chunk,
                                             AttentionDropout const& dropout, T const* x, T* y,
                                             AttentionScalar<T>* normalisers,
                                             AttentionScalar<T>* scratch) {
  detail::ChunkOfSamples<T> const samples{shape, chunk, rows.time, scratch};
  detail::attend(team, shape, rows, dropout, samples, x, y, normalisers, scratch);
}

/// dx of attention_chunk_forward, called for the last chunk first: what later rows have given this
/// chunk's keys and values is in chunk.sums, where what it gives those of earlier rows is added.
///
/// Shapes: chunk.sums (B, KeyHeads, 2, shape.longest, D), keys and values.
/// Order:  a gradient of a key or value adds the chunks from the last on, and of each as
///         attention_gradient.
template <class T>
TANDEM_NOINLINE void attention_chunk_gradient(Team& team, AttentionShape const& shape,
                                              AttentionRows const& rows,
                                              AttentionChunkRows<AttentionScalar<T>> const& chunk,
                                              AttentionDropout const& dropout, T const* x,
                                              T const* y, T const* dy,
                                              AttentionScalar<T> const* normalisers, T* dx,
                                              AttentionScalar<T>* scratch) {
  detail::ChunkOfSamples<T> const samples{shape, chunk, rows.time, scratch};
  detail::attend_back(team, shape, rows, dropout, samples, x, y, dy, normalisers, dx);
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
