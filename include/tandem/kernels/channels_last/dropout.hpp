// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dropout of channels-last images, with the mask that (C, H, W) order gives; it is never stored.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/random_words.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// The words of elements [first, first + count) of a sample.
inline void dropout_row(DropoutPlace const& place, std::int64_t sample, std::int64_t first,
                        std::int64_t count, std::uint32_t* words) {
  constexpr std::int64_t block = 64;
  std::int64_t const end = first + count;
  std::int64_t i = first;
  while (end - i >= block / 4) {
    DropoutCounter const counter = dropout_counter(place, sample, i / 4);
    std::int64_t const skipped = i % 4;
    std::int64_t const used = std::min(block - skipped, end - i);
    std::uint32_t some[block];
    std::uint32_t* const to = used == block ? words + (i - first) : some;
    random_words(place.seed, RandomUse::dropout, counter.low, counter.high, to);
    if (used < block) {
      std::copy(some + skipped, some + skipped + used, words + (i - first));
    }
    i += used;
  }
  while (i < end) {
    Random4 const random = dropout_words(place, sample, i / 4);
    for (std::int64_t const next = std::min(i - i % 4 + 4, end); i < next; ++i) {
      words[i - first] = random.word[i % 4];
    }
  }
}

/// y[i] = dropped(words[i], rate, scale, x[i]); y may be x.
template <class T>
void drop_run(std::int64_t count, std::uint32_t const* words, float rate, float scale, T const* x,
              T* y) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    WordVector word;
    std::memcpy(&word, words + i, sizeof word);
    Floats uniform;  // in [0, 1), as uniform()
    uniform.v = __builtin_convertvector(reinterpret_cast<IntVector>(word >> 8), FloatVector) *
                (1.0F / 16777216.0F);
    channels_last::store(y + i, select(Floats{rate} > uniform, Floats{0.0F},
                                       channels_last::load(x + i) * Floats{scale}));
  }
  for (; i < count; ++i) {
    y[i] = static_cast<T>(dropped(words[i], rate, scale, static_cast<float>(x[i])));
  }
}

}  // namespace detail

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, pixels, C); y (B, pixels, C), which may be x. Elements are counted as (C, pixels),
///         from `first_element` on, where x is a slice of the channels.
/// Cost:   one Philox block of 10 rounds for each four elements, 16 blocks at once.
/// @pre    0 <= rate < 1; C pixels < 2³⁴
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 15 (2014), section 10
///         (the "inverted" form, scaled in training)
template <class T>
TANDEM_NOINLINE void dropout_forward(Team& team, int batch, int channels, std::int64_t pixels,
                                     DropoutPlace const& place, float rate, T const* x, T* y,
                                     std::int64_t first_element = 0) {
  // Squares of words: of a vector's elements 1 x 64, which are channels; of an image's 64 x 16.
  constexpr std::int64_t block = 64;
  constexpr int most = 16;
  int const wide = pixels == 1 ? static_cast<int>(block) : most;
  std::int64_t const pixel_blocks = (pixels + block - 1) / block;
  std::int64_t const channel_blocks = (channels + wide - 1) / wide;
  float const scale = dropout_scale<float>(rate);
  team.parallel_for(
      batch * pixel_blocks * channel_blocks, [=](std::int64_t begin, std::int64_t end) {
        std::uint32_t words[most * block];
        for (std::int64_t task = begin; task < end; ++task) {
          std::int64_t const sample = task / (pixel_blocks * channel_blocks);
          std::int64_t const first = task / channel_blocks % pixel_blocks * block;
          std::int64_t const count = std::min(block, pixels - first);
          int const channel = static_cast<int>(task % channel_blocks) * wide;
          int const own = std::min(wide, channels - channel);
          if (pixels == 1) {
            detail::dropout_row(place, sample, first_element + channel, own, words);
          } else {
            for (int c = 0; c < own; ++c) {
              detail::dropout_row(place, sample, first_element + (channel + c) * pixels + first,
                                  count, words + c * count);
            }
          }
          if (pixels == 1) {
            std::int64_t const at = sample * channels + channel;
            detail::drop_run(own, words, rate, scale, x + at, y + at);
            continue;
          }
          for (std::int64_t p = 0; p < count; ++p) {
            std::int64_t const at = (sample * pixels + first + p) * channels + channel;
            for (int c = 0; c < own; ++c) {
              y[at + c] = static_cast<T>(
                  dropped(words[c * count + p], rate, scale, static_cast<float>(x[at + c])));
            }
          }
        }
      });
}

/// dx = dy / (1 - rate) where the element was kept, else 0: the same map, with the same mask.
///
/// Shapes: dy (B, pixels, C); dx (B, pixels, C), which may be dy.
template <class T>
TANDEM_NOINLINE void dropout_gradient(Team& team, int batch, int channels, std::int64_t pixels,
                                      DropoutPlace const& place, float rate, T const* dy, T* dx) {
  channels_last::dropout_forward(team, batch, channels, pixels, place, rate, dy, dx);
}

}  // namespace tandem::host::channels_last
