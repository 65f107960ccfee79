// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TransformerSizes: a decoder, or an encoder, in numbers, for plans of thousands of devices.

#include <cstdint>

#include <tandem/core/contract.hpp>

namespace tandem {

/// How an attention is computed: as one kernel that keeps no scores, or as products and a softmax
/// whose (T, T) scores of each head are written and kept.
enum class AttentionKernels { fused, separate };

/// Blocks of attention and two products, as models::Gpt; also with fewer heads of keys, gates and
/// dropout, as published runs have them.
struct TransformerSizes {
  std::int64_t layers = 12;
  std::int64_t width = 768;  ///< C
  std::int64_t heads = 12;
  std::int64_t context = 1024;  ///< T, tokens of a sample
  std::int64_t vocabulary = 50257;
  std::int64_t key_heads = 0;  ///< of keys and of values; 0: as many as heads
  std::int64_t hidden = 0;     ///< between the two products of a block; 0: 4 width
  bool gated = false;          ///< three products: silu(x A) (x B), then C
  bool dropout = false;        ///< behind both sums of a block, and in separate attention
  bool tied = true;            ///< the words' matrix is that of the logits
  bool causal = true;          ///< fused attention leaves out half of the pairs
  double predicted = 1;        ///< share of the tokens that have logits
  AttentionKernels attention = AttentionKernels::fused;

  [[nodiscard]] std::int64_t inner() const { return hidden > 0 ? hidden : 4 * width; }
  /// Columns of queries, keys and values together.
  [[nodiscard]] std::int64_t projections() const {
    return width + 2 * width / heads * (key_heads > 0 ? key_heads : heads);
  }
  /// Weights of a block, norms and biases included.
  [[nodiscard]] double block_parameters() const {
    std::int64_t const up = inner() * (gated ? 2 : 1);
    return static_cast<double>(width * projections() + projections() + width * width + width +
                               width * up + up + inner() * width + width + 4 * width);
  }
  [[nodiscard]] double embedding_parameters() const {
    return static_cast<double>(vocabulary) * static_cast<double>(width);
  }
  [[nodiscard]] double parameters() const {
    return static_cast<double>(layers) * block_parameters() +
           embedding_parameters() * (tied ? 1 : 2) + static_cast<double>((context + 2) * width);
  }
};

/// @throws ContractError  a size is not positive, or heads do not divide the width
inline void check_sizes(TransformerSizes const& sizes) {
  expects(sizes.layers > 0 && sizes.width > 0 && sizes.heads > 0 && sizes.context > 0 &&
              sizes.vocabulary > 0 && sizes.key_heads >= 0 && sizes.hidden >= 0,
          "TransformerSizes: give layers, width, heads, context and vocabulary above 0");
  expects(sizes.width % sizes.heads == 0,
          "TransformerSizes: the width must be a multiple of the heads, each of which has its "
          "part of it");
}

}  // namespace tandem
