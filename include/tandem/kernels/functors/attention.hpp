// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the kernels of attention share: its sizes, the rows of a step, and the mask of its dropout.
///
/// A row of the packed input is [a query for each head | a key for each key head | a value for each
/// key head], each of `width` numbers; head h reads key head h / (heads / key_heads).

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/dropout_mask.hpp>

namespace tandem {

/// Of one attention layer. @pre key_heads divides heads; all are positive
struct AttentionShape {
  int heads = 1;
  int key_heads = 1;
  int width = 1;    ///< D, of one head
  int longest = 1;  ///< T, of the network: what dropout counts rows of keys by
  bool causal = false;
  int first_head = 0;  ///< of these heads, among those of the network: what dropout counts heads by

  /// Numbers in a packed row, and in a row of the output.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t row() const {
    return static_cast<std::int64_t>(heads + 2 * key_heads) * width;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t out() const {
    return static_cast<std::int64_t>(heads) * width;
  }
  /// Heads that read one key head.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int group() const { return heads / key_heads; }
  /// Where the queries of a head, and the keys and values of a key head, stand in a packed row.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t query(std::int64_t head) const {
    return head * width;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t key(std::int64_t head) const {
    return (heads + head) * width;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t value(std::int64_t head) const {
    return (heads + key_heads + head) * width;
  }
  /// Keys that row @p i of a sample of @p length rows looks at: the first so many.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int keys(int i, int length) const {
    return causal && i + 1 < length ? i + 1 : length;
  }

  constexpr bool operator==(AttentionShape const&) const = default;
};

/// Samples of `time` rows each, of which the first lengths[s] count; null: all of them.
struct AttentionRows {
  int batch = 0;
  int time = 0;
  std::int32_t const* lengths = nullptr;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int length(std::int64_t sample) const {
    return lengths == nullptr ? time : lengths[sample];
  }
};

/// Which probabilities are dropped; a rate of 0 drops none.
struct AttentionDropout {
  DropoutPlace place{};
  float rate = 0.0F;
};

/// Keys whose words stand beside one another: 16 blocks of Philox, word w of block n is that of key
/// 16 w + n, so that 16 lanes of a vector draw 64 words without moving one.
inline constexpr int attention_word_keys = 64;

/// The counter's number of the block of key 64 b + n in row @p i of a head; n in [0, 16).
/// @pre heads of the network · T · (T + 63) < 2³⁴
TANDEM_HOST_DEVICE constexpr std::int64_t attention_word_block(AttentionShape const& shape,
                                                               std::int64_t head, std::int64_t i,
                                                               std::int64_t b) {
  std::int64_t const blocks = (shape.longest + attention_word_keys - 1) / attention_word_keys;
  return (((shape.first_head + head) * shape.longest + i) * blocks + b) * 16;
}

/// The word that decides on the probability of row @p i for key @p j: a function of the place, the
/// sample, the head, i and j only.
TANDEM_HOST_DEVICE constexpr std::uint32_t attention_word(AttentionShape const& shape,
                                                          DropoutPlace const& place,
                                                          std::int64_t sample, std::int64_t head,
                                                          std::int64_t i, std::int64_t j) {
  std::int64_t const block = attention_word_block(shape, head, i, j / attention_word_keys) + j % 16;
  return dropout_words(place, sample, block).word[j % attention_word_keys / 16];
}

}  // namespace tandem
