// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention by products and softmax: cuBLASLt's products of all heads of a sample at once, around
/// the kernels of attention_softmax.cuh.
///
/// Scores are held for as many heads at once as a limit of memory allows, and made again for the
/// gradient, so that forward keeps a number of each row only.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/by_batch.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/attention_chunks.hpp>
#include <tandem/kernels/cuda/attention_scores.hpp>
#include <tandem/kernels/cuda/attention_softmax.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// What the passes over one microbatch read and write; each may be null where a pass has no use for
/// it.
template <class T>
struct AttentionOperands {
  T const* x = nullptr;                   ///< (B, time, shape.row()): queries, keys and values
  T* y = nullptr;                         ///< (B, time, Heads D)
  ComputeType<T>* normalisers = nullptr;  ///< (B, Heads, time), from forward to gradient
  T const* dy = nullptr;
  T* dx = nullptr;
};

/// y = softmax(q kᵀ / sqrt(D)) v of each head, and its gradient: as host::attention_forward and
/// host::attention_gradient say.
///
/// Cost:   2 D time multiply-accumulates a head and row (the gradient 5 D time), also where causal;
///         scores are written and read; 2 (6) products a sample or more, whatever the heads.
/// Order:  that of cuBLASLt for the shape; keys of several heads are added to in the heads' order,
///         in T.
template <class T>
class Attention {
 public:
  using Real = ComputeType<T>;

  /// @param batch         samples of the largest microbatch
  /// @param scores_limit  bytes of scores that may be held; those of one key head are in any case
  Attention(CublasLt const& library, AttentionShape const& shape, int batch,
            MatmulMath math = MatmulMath::full, std::int64_t scores_limit = attention_scores_limit)
      : library_{&library}, shape_{shape}, math_{math} {
    AttentionChunks const chunks =
        attention_chunks(shape, batch, shape.longest, scores_limit / Scores::element_bytes);
    scores_ = chunks.elements();
    Products const& p = products(shape.longest);
    workspace_ =
        std::max({p.score.workspace_bytes(), p.out.workspace_bytes(), p.slope.workspace_bytes(),
                  p.query.workspace_bytes(), p.key.workspace_bytes(), p.value.workspace_bytes()});
    workspace_limit_ = workspace_;
  }

  /// Of any pass over at most `batch` samples of at most shape.longest rows.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return whole(workspace_) + Scores::bytes(scores_);
  }
  [[nodiscard]] static std::int64_t normaliser_bytes(AttentionShape const& shape,
                                                     std::int64_t batch) {
    return batch * shape.heads * shape.longest * static_cast<std::int64_t>(sizeof(Real));
  }

  void forward(Stream const& stream, AttentionRows const& rows, AttentionMaskSource const& mask,
               AttentionOperands<T> const& o, std::byte* scratch) {
    for_chunks_of(rows, [&](AttentionChunk const& chunk) {
      Scores const at = Scores::at(scratch + whole(workspace_), scores_);
      Products& p = products(rows.time);
      multiply_scores(stream, rows, chunk, o, p, at, scratch);
      attention_softmax<T>(stream, tasks(rows, chunk), mask, at.scores, at.probabilities,
                           o.normalisers);
      each_product(rows, chunk, [&](Place const& at_head) {
        p.out.run(stream, at.probabilities + at_head.scores, o.x + at_head.value, o.y + at_head.out,
                  {1, 0}, scratch);
      });
    });
  }

  /// @pre forward has written o.y and o.normalisers, with the same rows and mask
  void input_gradient(Stream const& stream, AttentionRows const& rows,
                      AttentionMaskSource const& mask, AttentionOperands<T> const& o,
                      std::byte* scratch) {
    for_chunks_of(rows, [&](AttentionChunk const& chunk) {
      Scores const at = Scores::at(scratch + whole(workspace_), scores_);
      Products& p = products(rows.time);
      multiply_scores(stream, rows, chunk, o, p, at, scratch);
      each_product(rows, chunk, [&](Place const& to) {
        p.slope.run(stream, o.dy + to.out, o.x + to.value, at.slopes + to.scores, {1, 0}, scratch);
      });
      attention_softmax_gradient<T>(stream, tasks(rows, chunk), mask, scale(), o.y, o.dy,
                                    o.normalisers, at.scores, at.slopes, at.probabilities,
                                    at.gradient);
      each_product(rows, chunk, [&](Place const& to) {
        Real const beta = to.first ? Real{0} : Real{1};
        p.query.run(stream, at.gradient + to.scores, o.x + to.key, o.dx + to.query, {1, 0},
                    scratch);
        p.key.run(stream, at.gradient + to.scores, o.x + to.query, o.dx + to.key, {1, beta},
                  scratch);
        p.value.run(stream, at.probabilities + to.scores, o.dy + to.out, o.dx + to.value, {1, beta},
                    scratch);
      });
    });
  }

 private:
  using Scores = AttentionScores<T>;

  /// The products of some key heads of one sample, each with the n-th head of its group.
  struct Products {
    Matmul<T, Real> score;
    Matmul<T> out;
    Matmul<T, Real> slope;
    Matmul<T> query;
    Matmul<T> key;
    Matmul<T> value;
    int key_heads;
  };

  /// Offsets of the first matrices of a product.
  struct Place {
    std::int64_t scores, query, key, value, out;
    bool first;  ///< of the heads that share its key heads
  };

  static constexpr std::int64_t whole(std::int64_t bytes) { return Scores::whole(bytes); }
  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(shape_.width)); }

  [[nodiscard]] AttentionChunks chunks(AttentionRows const& rows) const {
    return attention_chunks(shape_, rows.batch, rows.time, scores_);
  }
  template <class Function>
  void for_chunks_of(AttentionRows const& rows, Function const& f) const {
    if (rows.batch > 0 && rows.time > 0) {
      chunks(rows).each(f);
    }
  }
  [[nodiscard]] AttentionTasks tasks(AttentionRows const& rows, AttentionChunk const& chunk) const {
    return {shape_, rows, chunk.sample * shape_.heads + chunk.key_head * shape_.group(),
            std::int64_t{chunk.samples} * chunk.key_heads * shape_.group()};
  }

  /// f(place) for each sample of the chunk and each head of a group.
  template <class Function>
  void each_product(AttentionRows const& rows, AttentionChunk const& chunk,
                    Function const& f) const {
    std::int64_t const matrix = rows.time * attention_distance(rows.time);
    for (int s = 0; s < chunk.samples; ++s) {
      std::int64_t const row = (chunk.sample + s) * rows.time;
      std::int64_t const in = row * shape_.row();
      std::int64_t const first_head = std::int64_t{chunk.key_head} * shape_.group();
      for (int n = 0; n < shape_.group(); ++n) {
        f(Place{(std::int64_t{s} * chunk.key_heads * shape_.group() + n) * matrix,
                in + shape_.query(first_head + n), in + shape_.key(chunk.key_head),
                in + shape_.value(chunk.key_head),
                row * shape_.out() + shape_.query(first_head + n), n == 0});
      }
    }
  }

  void multiply_scores(Stream const& stream, AttentionRows const& rows, AttentionChunk const& chunk,
                       AttentionOperands<T> const& o, Products& p, Scores const& at,
                       std::byte* scratch) const {
    each_product(rows, chunk, [&](Place const& from) {
      p.score.run(stream, o.x + from.query, o.x + from.key, at.scores + from.scores,
                  {static_cast<Real>(scale()), 0}, scratch);
    });
  }

  Products& products(int time) {
    return products_.get(time, [this](std::int64_t rows) { return make(rows); });
  }

  [[nodiscard]] Products make(std::int64_t time) const {
    int const heads = attention_chunks(shape_, 1, static_cast<int>(time), scores_).most_key_heads();
    AttentionProducts const shapes{shape_, time, heads, static_cast<int>(sizeof(T)),
                                   static_cast<int>(sizeof(Real))};
    std::int64_t const limit = workspace_limit_;
    return {{*library_, shapes.score(), math_, limit},
            {*library_, shapes.out(), math_, limit},
            {*library_, shapes.slope(), math_, limit},
            {*library_, shapes.query(), math_, limit},
            {*library_, shapes.key(), math_, limit},
            {*library_, shapes.value(), math_, limit},
            heads};
  }

  CublasLt const* library_;
  AttentionShape shape_;
  MatmulMath math_;
  std::int64_t scores_ = 0;  // elements of each matrix of a chunk, at most
  std::int64_t workspace_ = 0;
  std::int64_t workspace_limit_ = matmul_workspace_limit;
  ByBatch<Products> products_;  // by time
};

}  // namespace tandem::cuda
