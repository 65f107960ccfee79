// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention of a chunk of time by products and softmax: as attention.cuh, of some rows of each
/// sample, which look at all rows before them, too.
///
/// Keys and values of the chunks before stand in these chunks' own inputs. Both passes gather them
/// first, one behind another, so that a product is of all keys, whatever the number of chunks.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/attention.cuh>
#include <tandem/kernels/cuda/attention_chunks.hpp>
#include <tandem/kernels/cuda/attention_scores.hpp>
#include <tandem/kernels/cuda/attention_softmax.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Where a chunk of time stands in its samples.
/// @tparam Real  of sums
template <class Real>
struct AttentionTimeChunk {
  int before = 0;          ///< rows of a sample before its own, in chunks of as many rows
  std::int64_t apart = 0;  ///< elements of x from a chunk to the next; negative ones, too
  bool last = true;        ///< no chunk comes behind it: the sums begin with it
  Real* sums = nullptr;    ///< (B, longest, 2 KeyHeads D): gradients of [keys | values]
};

/// [keys | values] of a chunk's rows and of those before it: a functor for each().
template <class T>
struct GatherKeys {
  AttentionShape shape;
  int time;            ///< rows of a chunk
  int keys;            ///< rows up to the end of this one
  std::int64_t apart;  ///< as AttentionTimeChunk has it
  T const* x;          ///< (B, time, shape.row()) of this chunk
  T* to;               ///< (B, longest, 2 KeyHeads D)

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const kept = shape.row() - shape.out();
    std::int64_t const row = i / kept;  // of the samples' keys
    std::int64_t const column = i - row * kept;
    std::int64_t const sample = row / keys;
    int const key = static_cast<int>(row - sample * keys);
    std::int64_t const back = (keys - 1) / time - key / time;  // chunks before this one
    std::int64_t const from = (sample * time + key % time) * shape.row() + shape.out() + column;
    to[(sample * shape.longest + key) * kept + column] = x[from - back * apart];
  }
};

/// Of a chunk's own rows the gradients of keys and values, which are whole now.
template <class T>
struct TakeKeyGradients {
  AttentionShape shape;
  int time;
  int before;
  ComputeType<T> const* sums;
  T* dx;  ///< (B, time, shape.row())

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const kept = shape.row() - shape.out();
    std::int64_t const row = i / kept;
    std::int64_t const column = i - row * kept;
    std::int64_t const sample = row / time;
    std::int64_t const key = sample * shape.longest + before + (row - sample * time);
    dx[row * shape.row() + shape.out() + column] = store<T>(sums[key * kept + column]);
  }
};

/// Rows [before, before + time) of causal attention, and their gradient: as
/// host::attention_chunk_forward and host::attention_chunk_gradient say.
///
/// Cost:   2 D (before + time) multiply-accumulates a head and row (the gradient 5 D), and a copy
///         of all keys and values so far; products as of Attention<T>.
/// Order:  that of cuBLASLt for the shape; a gradient of a key or value adds the chunks from the
///         last on, and of each the heads in order, in ComputeType<T>.
template <class T>
class TimeChunkAttention {
 public:
  using Real = ComputeType<T>;

  /// @param batch         samples of the largest microbatch
  /// @param chunks        of shape.longest rows
  /// @param scores_limit  as of Attention<T>
  TimeChunkAttention(CublasLt const& library, AttentionShape const& shape, int batch, int chunks,
                     MatmulMath math = MatmulMath::full,
                     std::int64_t scores_limit = attention_scores_limit)
      : library_{&library}, shape_{shape}, math_{math}, batch_{batch} {
    int const time = shape.longest / chunks;
    scores_ =
        attention_chunks(shape, batch, time, shape.longest, scores_limit / Scores::element_bytes)
            .elements();
    Products const& p = products(time, shape.longest);
    workspace_ =
        std::max({p.score.workspace_bytes(), p.out.workspace_bytes(), p.slope.workspace_bytes(),
                  p.query.workspace_bytes(), p.key.workspace_bytes(), p.value.workspace_bytes()});
  }

  /// Of any pass over at most `batch` samples.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return keys_at() + batch_ * sample_numbers() * static_cast<std::int64_t>(sizeof(T));
  }
  /// Of AttentionTimeChunk::sums, of a sample.
  [[nodiscard]] std::int64_t sum_bytes() const {
    return sample_numbers() * static_cast<std::int64_t>(sizeof(Real));
  }

  void forward(Stream const& stream, AttentionRows const& rows, AttentionTimeChunk<Real> const& at,
               AttentionMaskSource const& mask, AttentionOperands<T> const& o, std::byte* scratch) {
    Pass const pass = begin(stream, rows, at, o, scratch);
    for_chunks_of(pass, [&](AttentionChunk const& chunk) {
      multiply_scores(stream, pass, chunk, o, scratch);
      attention_softmax<T>(stream, tasks(pass, chunk), mask, pass.scores.scores,
                           pass.scores.probabilities, o.normalisers);
      each_product(pass, chunk, [&](Place const& to) {
        pass.products->out.run(stream, pass.scores.probabilities + to.scores, pass.keys + to.value,
                               o.y + to.out, {1, 0}, scratch);
      });
    });
  }

  /// @pre forward has written o.y and o.normalisers, with the same rows and mask; the chunk behind
  ///      this one has gone back just before
  void input_gradient(Stream const& stream, AttentionRows const& rows,
                      AttentionTimeChunk<Real> const& at, AttentionMaskSource const& mask,
                      AttentionOperands<T> const& o, std::byte* scratch) {
    Pass const pass = begin(stream, rows, at, o, scratch);
    for_chunks_of(pass, [&](AttentionChunk const& chunk) {
      Scores const& s = pass.scores;
      multiply_scores(stream, pass, chunk, o, scratch);
      each_product(pass, chunk, [&](Place const& to) {
        pass.products->slope.run(stream, o.dy + to.out, pass.keys + to.value, s.slopes + to.scores,
                                 {1, 0}, scratch);
      });
      attention_softmax_gradient<T>(stream, tasks(pass, chunk), mask, scale(), o.y, o.dy,
                                    o.normalisers, s.scores, s.slopes, s.probabilities, s.gradient);
      each_product(pass, chunk, [&](Place const& to) {
        Real const beta = to.first && at.last ? Real{0} : Real{1};
        pass.products->query.run(stream, s.gradient + to.scores, pass.keys + to.key,
                                 o.dx + to.query, {1, 0}, scratch);
        pass.products->key.run(stream, s.gradient + to.scores, o.x + to.query, at.sums + to.key,
                               {1, beta}, scratch);
        pass.products->value.run(stream, s.probabilities + to.scores, o.dy + to.out,
                                 at.sums + to.value, {1, beta}, scratch);
      });
    });
    each(stream, std::int64_t{rows.batch} * rows.time * kept(),
         TakeKeyGradients<T>{shape_, rows.time, at.before, at.sums, o.dx});
  }

 private:
  using Scores = AttentionScores<T>;

  /// The products of some key heads of one sample, each with the n-th head of its group.
  struct Products {
    Matmul<T, Real> score;
    Matmul<T> out;
    Matmul<T, Real> slope;
    Matmul<T> query;
    Matmul<T, Real> key;
    Matmul<T, Real> value;
  };
  struct Shaped {
    int time;
    int keys;
    std::unique_ptr<Products> products;
  };

  struct Pass {
    AttentionRows rows;
    int before;
    Products* products;
    Scores scores;
    T const* keys;

    [[nodiscard]] int columns() const { return before + rows.time; }
  };

  /// Offsets of the first matrices of a product; key and value in what is gathered, and in sums.
  struct Place {
    std::int64_t scores, query, key, value, out;
    bool first;  ///< of the heads that share its key heads
  };

  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(shape_.width)); }
  /// Numbers of a row's keys and values, and of all rows of a sample.
  [[nodiscard]] std::int64_t kept() const { return shape_.row() - shape_.out(); }
  [[nodiscard]] std::int64_t sample_numbers() const { return shape_.longest * kept(); }
  [[nodiscard]] std::int64_t scores_at() const { return Scores::whole(workspace_); }
  [[nodiscard]] std::int64_t keys_at() const { return scores_at() + Scores::bytes(scores_); }

  Pass begin(Stream const& stream, AttentionRows const& rows, AttentionTimeChunk<Real> const& at,
             AttentionOperands<T> const& o, std::byte* scratch) {
    auto* const keys = reinterpret_cast<T*>(scratch + keys_at());
    int const columns = at.before + rows.time;
    each(stream, std::int64_t{rows.batch} * columns * kept(),
         GatherKeys<T>{shape_, rows.time, columns, at.apart, o.x, keys});
    return {rows, at.before, &products(rows.time, columns),
            Scores::at(scratch + scores_at(), scores_), keys};
  }

  [[nodiscard]] AttentionChunks chunks(int batch, int time, int keys) const {
    return attention_chunks(shape_, batch, time, keys, scores_);
  }
  template <class Function>
  void for_chunks_of(Pass const& pass, Function const& f) const {
    if (pass.rows.batch > 0 && pass.rows.time > 0) {
      chunks(pass.rows.batch, pass.rows.time, pass.columns()).each(f);
    }
  }
  [[nodiscard]] AttentionTasks tasks(Pass const& pass, AttentionChunk const& chunk) const {
    return {shape_, pass.rows, chunk.sample * shape_.heads + chunk.key_head * shape_.group(),
            std::int64_t{chunk.samples} * chunk.key_heads * shape_.group(), pass.before};
  }

  /// f(place) for each sample of the chunk and each head of a group.
  template <class Function>
  void each_product(Pass const& pass, AttentionChunk const& chunk, Function const& f) const {
    std::int64_t const matrix = pass.rows.time * attention_distance(pass.columns());
    std::int64_t const head = std::int64_t{chunk.key_head} * shape_.group();
    for (int s = 0; s < chunk.samples; ++s) {
      std::int64_t const row = (chunk.sample + s) * pass.rows.time;
      std::int64_t const keys = (chunk.sample + s) * sample_numbers() - shape_.out();
      for (int n = 0; n < shape_.group(); ++n) {
        f(Place{(std::int64_t{s} * chunk.key_heads * shape_.group() + n) * matrix,
                row * shape_.row() + shape_.query(head + n), keys + shape_.key(chunk.key_head),
                keys + shape_.value(chunk.key_head), row * shape_.out() + shape_.query(head + n),
                n == 0});
      }
    }
  }

  void multiply_scores(Stream const& stream, Pass const& pass, AttentionChunk const& chunk,
                       AttentionOperands<T> const& o, std::byte* scratch) const {
    each_product(pass, chunk, [&](Place const& from) {
      pass.products->score.run(stream, o.x + from.query, pass.keys + from.key,
                               pass.scores.scores + from.scores, {static_cast<Real>(scale()), 0},
                               scratch);
    });
  }

  /// Of each place of a chunk, and of shorter steps.
  Products& products(int time, int keys) {
    for (Shaped const& own : products_) {
      if (own.time == time && own.keys == keys) {
        return *own.products;
      }
    }
    products_.push_back({time, keys, std::make_unique<Products>(make(time, keys))});
    return *products_.back().products;
  }
  [[nodiscard]] Products make(int time, int keys) const {
    AttentionProducts const shapes{shape_,
                                   time,
                                   chunks(1, time, keys).most_key_heads(),
                                   static_cast<int>(sizeof(T)),
                                   static_cast<int>(sizeof(Real)),
                                   keys,
                                   kept()};
    std::int64_t const limit = workspace_ < 0 ? matmul_workspace_limit : workspace_;
    return {{*library_, shapes.score(), math_, limit}, {*library_, shapes.out(), math_, limit},
            {*library_, shapes.slope(), math_, limit}, {*library_, shapes.query(), math_, limit},
            {*library_, shapes.key(), math_, limit},   {*library_, shapes.value(), math_, limit}};
  }

  CublasLt const* library_;
  AttentionShape shape_;
  MatmulMath math_;
  std::int64_t batch_;
  std::int64_t scores_ = 0;      // elements of each matrix of a chunk, at most
  std::int64_t workspace_ = -1;  // of any product, once that of the longest is known
  std::vector<Shaped> products_;
};

}  // namespace tandem::cuda
