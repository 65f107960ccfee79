// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The dropout of attention for 64 keys at a time: the words of kernels/functors/attention.hpp, 16
/// blocks of Philox side by side in vectors.

#include <cstdint>
#include <cstring>

#include <tandem/core/config.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/kernels/channels_last/random_words.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/attention.hpp>

namespace tandem::host::channels_last {

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
        sample_{static_cast<std::uint64_t>(sample) + dropout.place.first_sample},
        rate_{dropout.rate},
        scale_{dropout_scale<float>(dropout.rate)} {}

  [[nodiscard]] bool drops() const { return rate_ != 0.0F; }

  /// Lane n of factor[w] is that of key 64 b + 16 w + n in row @p i.
  TANDEM_ONCE void factors(std::int64_t i, std::int64_t b, Floats (&factor)[4]) const;

 private:
  // The upper 24 bits of the words of 16 counters.
  [[gnu::always_inline]] static void join(detail::PairVector const& s, detail::PairVector const& t,
                                          Floats& to) {
    using Half = std::uint32_t __attribute__((vector_size(32)));
    auto const early = __builtin_convertvector(s >> 8, Half);
    auto const late = __builtin_convertvector(t >> 8, Half);
    std::memcpy(&to.v, &early, sizeof early);
    std::memcpy(reinterpret_cast<char*>(&to.v) + sizeof early, &late, sizeof late);
  }

  AttentionShape shape_;
  DropoutPlace place_;
  std::int64_t head_;
  std::uint64_t sample_;
  float rate_;
  float scale_;
};

}  // namespace tandem::host::channels_last

#if TANDEM_BODIES

namespace tandem::host::channels_last {

TANDEM_ONCE void AttentionMask::factors(std::int64_t i, std::int64_t b, Floats (&factor)[4]) const {
  detail::FourWords s;
  detail::FourWords t;
  detail::draw_words(
      place_.seed, RandomUse::dropout,
      (static_cast<std::uint64_t>(place_.step) << 32) | place_.layer,
      (sample_ << 32) | static_cast<std::uint64_t>(attention_word_block(shape_, head_, i, b)), s,
      t);
  join(s.w0, t.w0, factor[0]);
  join(s.w1, t.w1, factor[1]);
  join(s.w2, t.w2, factor[2]);
  join(s.w3, t.w3, factor[3]);
  for (Floats& lane : factor) {  // as dropped(uniform(word)) does, exactly
    Floats uniform;
    uniform.v =
        __builtin_convertvector(reinterpret_cast<detail::IntVector>(lane.v), detail::FloatVector);
    lane =
        select(Floats{rate_} <= uniform * Floats{1.0F / 16777216.0F}, Floats{scale_}, Floats{0.0F});
  }
}

}  // namespace tandem::host::channels_last

#endif
