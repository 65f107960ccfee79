// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How attention by products is cut to fit in memory, and the sizes of its products; no CUDA header
/// needed.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cublaslt/matmul_shape.hpp>
#include <tandem/kernels/functors/attention.hpp>

namespace tandem::cuda {

/// Bytes of scores that attention holds at most, where one key head's are not more.
inline constexpr std::int64_t attention_scores_limit = std::int64_t{256} << 20;

/// Numbers from one row of a matrix of scores of so many keys to the next: each row, and each
/// matrix, begins at a multiple of 16 bytes, or tensor cores would not be used.
TANDEM_HOST_DEVICE constexpr std::int64_t attention_distance(std::int64_t keys) {
  return (keys + 7) / 8 * 8;
}

/// `samples` samples from `sample` on, and of each the key heads from `key_head` on.
struct AttentionChunk {
  std::int64_t sample = 0;
  int samples = 1;
  int key_head = 0;
  int key_heads = 1;
};

/// Chunks of whole samples, or of an equal part of the key heads of one.
struct AttentionChunks {
  int batch = 0;
  int samples = 1;  ///< of a chunk; the last may have fewer
  int key_heads = 1;
  int all_key_heads = 1;
  std::int64_t key_head_elements = 0;  ///< scores of one key head of one sample

  /// Scores of the largest chunk.
  [[nodiscard]] constexpr std::int64_t elements() const {
    return samples * key_heads * key_head_elements;
  }
  [[nodiscard]] constexpr int most_key_heads() const { return key_heads; }

  /// f(AttentionChunk) for all of them, in order.
  template <class Function>
  constexpr void each(Function const& f) const {
    for (int s = 0; s < batch; s += samples) {
      for (int h = 0; h < all_key_heads; h += key_heads) {
        f(AttentionChunk{s, batch - s < samples ? batch - s : samples, h, key_heads});
      }
    }
  }
};

/// Chunks of at most @p limit scores, or of one key head, of @p time rows that look at @p keys. The
/// key heads of a chunk do not depend on the batch.
constexpr AttentionChunks attention_chunks(AttentionShape const& shape, int batch, int time,
                                           int keys, std::int64_t limit) {
  std::int64_t const each = std::int64_t{shape.group()} * time * attention_distance(keys);
  int heads = shape.key_heads;
  while (heads > 1 && (heads * each > limit || shape.key_heads % heads != 0)) {
    --heads;
  }
  std::int64_t const sample = shape.key_heads * each;
  std::int64_t const fit = sample > 0 ? limit / sample : batch;
  std::int64_t const samples = fit < 1 ? 1 : fit < batch ? fit : batch < 1 ? 1 : batch;
  return {batch, static_cast<int>(samples), heads, shape.key_heads, each};
}

/// The same where rows look at one another.
constexpr AttentionChunks attention_chunks(AttentionShape const& shape, int batch, int time,
                                           std::int64_t limit) {
  return attention_chunks(shape, batch, time, time, limit);
}

/// The products of `key_heads` key heads of a sample, each with one head of its group: the matrices
/// of scores of a group stand one behind another.
struct AttentionProducts {
  AttentionShape shape;
  std::int64_t time;
  std::int64_t key_heads;
  int element_bytes;                        ///< of activations and probabilities
  int score_bytes;                          ///< of scores
  std::int64_t keys = time;                 ///< that a row looks at
  std::int64_t key_distance = shape.row();  ///< numbers from one to the next, and of gradients

  /// q kᵀ
  [[nodiscard]] constexpr MatmulShape score() const {
    return of(Transpose::no, Transpose::yes, {time, keys, shape.width}, query_rows(), key_rows(),
              scores(score_bytes));
  }
  /// dy vᵀ
  [[nodiscard]] constexpr MatmulShape slope() const {
    return of(Transpose::no, Transpose::yes, {time, keys, shape.width}, out_rows(), key_rows(),
              scores(score_bytes));
  }
  /// p v
  [[nodiscard]] constexpr MatmulShape out() const {
    return of(Transpose::no, Transpose::no, {time, shape.width, keys}, scores(element_bytes),
              key_rows(), out_rows());
  }
  /// ds k
  [[nodiscard]] constexpr MatmulShape query() const {
    return of(Transpose::no, Transpose::no, {time, shape.width, keys}, scores(element_bytes),
              key_rows(), query_rows());
  }
  /// dsᵀ q
  [[nodiscard]] constexpr MatmulShape key() const {
    return of(Transpose::yes, Transpose::no, {keys, shape.width, time}, scores(element_bytes),
              query_rows(), key_rows());
  }
  /// pᵀ dy
  [[nodiscard]] constexpr MatmulShape value() const {
    return of(Transpose::yes, Transpose::no, {keys, shape.width, time}, scores(element_bytes),
              out_rows(), key_rows());
  }

 private:
  struct Matrices {
    std::int64_t distance;  ///< between rows
    std::int64_t stride;    ///< between matrices
    int alignment;
  };
  struct Sizes {
    std::int64_t m, n, k;
  };

  [[nodiscard]] constexpr int row_alignment() const {
    return alignment_of(std::int64_t{shape.width} * element_bytes);
  }
  [[nodiscard]] constexpr Matrices query_rows() const {
    return {shape.row(), std::int64_t{shape.group()} * shape.width, row_alignment()};
  }
  [[nodiscard]] constexpr Matrices out_rows() const {
    return {shape.out(), std::int64_t{shape.group()} * shape.width, row_alignment()};
  }
  [[nodiscard]] constexpr Matrices key_rows() const {
    return {key_distance, shape.width, row_alignment()};
  }
  [[nodiscard]] constexpr Matrices scores(int bytes) const {
    std::int64_t const distance = attention_distance(keys);
    return {distance, shape.group() * time * distance, alignment_of(distance * bytes)};
  }

  [[nodiscard]] constexpr MatmulShape of(Transpose ta, Transpose tb, Sizes const& sizes,
                                         Matrices const& a, Matrices const& b,
                                         Matrices const& d) const {
    return {.transpose_a = ta,
            .transpose_b = tb,
            .m = sizes.m,
            .n = sizes.n,
            .k = sizes.k,
            .lda = a.distance,
            .ldb = b.distance,
            .ldd = d.distance,
            .groups = key_heads,
            .stride_a = a.stride,
            .stride_b = b.stride,
            .stride_d = d.stride,
            .alignment_a = a.alignment,
            .alignment_b = b.alignment,
            .alignment_d = d.alignment};
  }
};

}  // namespace tandem::cuda
