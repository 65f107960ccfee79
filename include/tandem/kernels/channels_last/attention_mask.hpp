// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The dropout of attention for 64 keys at a time: the words of kernels/functors/attention.hpp, 16
/// blocks of Philox side by side in vectors.

#include <cstdint>
#include <cstring>

#include <tandem/core/philox.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/attention.hpp>

namespace tandem::host::channels_last {

namespace detail {

using WideVector = std::uint64_t __attribute__((vector_size(64)));
using HalfWords = std::uint32_t __attribute__((vector_size(32)));

}  // namespace detail

/// A row's factors for keys 64 b to 64 b + 63: 0 where dropped, else 1 / (1 - rate).
///
/// Cost: 10 rounds of about 10 operations on 16 vectors of 8 for 64 keys.
class AttentionMask {
 public:
  /// @param sample  in the batch that `dropout` is of
  AttentionMask(AttentionShape const& shape, AttentionDropout const& dropout, std::int64_t sample,
                std::int64_t head)
      : shape_{shape},
        place_{dropout.place},
        head_{head},
        sample_{static_cast<std::uint32_t>(static_cast<std::uint64_t>(sample) +
                                           dropout.place.first_sample)},
        rate_{dropout.rate},
        scale_{dropout_scale<float>(dropout.rate)} {}

  [[nodiscard]] bool drops() const { return rate_ != 0.0F; }

  /// Lane n of factor[w] is that of key 64 b + 16 w + n in row @p i.
  void factors(std::int64_t i, std::int64_t b, Floats (&factor)[4]) const {
    auto const first = static_cast<std::uint64_t>(attention_word_block(shape_, head_, i, b));
    for (std::uint64_t half = 0; half < 2; ++half) {
      detail::WideVector word[4];
      constexpr detail::WideVector count{0, 1, 2, 3, 4, 5, 6, 7};
      constexpr std::uint64_t low = 0xFFFFFFFFU;
      word[0] = detail::WideVector{} + place_.layer;
      word[1] = detail::WideVector{} + place_.step;
      word[2] = (count + (first + 8 * half)) & low;
      word[3] = detail::WideVector{} + sample_;
      std::uint32_t key0 = static_cast<std::uint32_t>(place_.seed) ^
                           (static_cast<std::uint32_t>(RandomUse::dropout) << 24);
      auto key1 = static_cast<std::uint32_t>(place_.seed >> 32);
      for (int round = 0; round < 10; ++round) {
        detail::WideVector const a = word[0] * std::uint64_t{0xD2511F53U};
        detail::WideVector const c = word[2] * std::uint64_t{0xCD9E8D57U};
        word[0] = (c >> 32) ^ word[1] ^ std::uint64_t{key0};
        word[1] = c & low;
        word[2] = (a >> 32) ^ word[3] ^ std::uint64_t{key1};
        word[3] = a & low;
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
      }
      for (int w = 0; w < 4; ++w) {
        auto const words = __builtin_convertvector(word[w] >> 8, detail::HalfWords);
        std::memcpy(reinterpret_cast<char*>(&factor[w].v) + half * sizeof words, &words,
                    sizeof words);
      }
    }
    for (Floats& lane : factor) {  // as dropped(uniform(word)) does, exactly
      Floats uniform;
      uniform.v = __builtin_convertvector((detail::IntVector)lane.v, detail::FloatVector);
      lane = select(Floats{rate_} <= uniform * Floats{1.0F / 16777216.0F}, Floats{scale_},
                    Floats{0.0F});
    }
  }

 private:
  AttentionShape shape_;
  DropoutPlace place_;
  std::int64_t head_;
  std::uint32_t sample_;
  float rate_;
  float scale_;
};

}  // namespace tandem::host::channels_last
