// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dropout whose mask is never stored: it is drawn again, from the place of each element.
///
/// The mask depends on the seed, the step, the layer, the sample's index in the global batch and
/// the element only, so that it is the same on every rank, under every strategy and in every
/// microbatch.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem {

/// Where a dropout mask is drawn. `first_sample` is the global index of the batch's first sample.
struct DropoutPlace {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  std::uint32_t first_sample = 0;
};

/// The four words for elements 4 q … 4 q + 3 of a sample, in order.
///
/// The key is (seed, RandomUse::dropout); the counter is step · 2³² + layer (low 64 bits) and
/// sample · 2³² + q (high 64 bits).
TANDEM_HOST_DEVICE constexpr Random4 dropout_words(DropoutPlace const& place, std::int64_t sample,
                                                   std::int64_t q) {
  std::uint64_t const low = (static_cast<std::uint64_t>(place.step) << 32) | place.layer;
  std::uint64_t const row = static_cast<std::uint64_t>(sample) + place.first_sample;
  return philox(place.seed, RandomUse::dropout, low, (row << 32) | static_cast<std::uint64_t>(q));
}

}  // namespace tandem

namespace tandem::host {

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, elements); y (B, elements), which may be x.
/// Cost:   one Philox block of 10 rounds for each four elements; bound by arithmetic.
/// @pre    0 <= rate < 1; elements < 2³⁴
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 15 (2014), section 10
///         (the "inverted" form, scaled in training)
template <class T>
TANDEM_NOINLINE void dropout_forward(Team& team, int batch, std::int64_t elements,
                                     DropoutPlace const& place, float rate, T const* x, T* y) {
  T const scale = T{1} / (T{1} - static_cast<T>(rate));
  std::int64_t const blocks = (elements + 3) / 4;
  team.parallel_for(batch * blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::int64_t const sample = b / blocks;
      std::int64_t const q = b % blocks;
      Random4 const random = dropout_words(place, sample, q);
      for (std::int64_t j = 0; j < 4 && 4 * q + j < elements; ++j) {
        std::int64_t const i = sample * elements + 4 * q + j;
        y[i] = uniform(random.word[j]) >= rate ? x[i] * scale : T{0};
      }
    }
  });
}

/// dx = dy / (1 - rate) where the element was kept, else 0: the same map, with the same mask.
///
/// Shapes: dy (B, elements); dx (B, elements), which may be dy.
template <class T>
TANDEM_NOINLINE void dropout_gradient(Team& team, int batch, std::int64_t elements,
                                      DropoutPlace const& place, float rate, T const* dy, T* dx) {
  dropout_forward(team, batch, elements, place, rate, dy, dx);
}

}  // namespace tandem::host
