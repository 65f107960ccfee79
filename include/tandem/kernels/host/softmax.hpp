// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Softmax over rows of C numbers, and its gradient.

#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/functors/elementary.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = exp(x - max(x)) / sum(exp(x - max(x))), each row.
///
/// Shapes: x (rows, C); y (rows, C), which may be x.
/// Cost:   2 rows C exponentials; reads x twice while it is in cache.
/// Order:  16 interleaved sums of a row, then a binary tree; in double one sum in index order.
template <class T>
TANDEM_NOINLINE void softmax_forward(Team& team, std::int64_t rows, int channels, T const* x,
                                     T* y) {
  using elementary::exponential;
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T const* const in = x + row * channels;
      T* const out = y + row * channels;
      auto const lowest = wide<T>(-std::numeric_limits<Real<T>>::infinity());
      auto top = lowest;
      for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
        top = larger(top, some.keep(some.load(in + c), lowest));
      });
      auto const largest = wide<T>(lane_largest(top));
      auto sum = wide<T>(0);
      for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
        sum += some.keep(exponential(some.load(in + c) - largest), wide<T>(0));
      });
      auto const scale = wide<T>(Real<T>{1} / lane_total(sum));
      for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
        some.store(out + c, exponential(some.load(in + c) - largest) * scale);
      });
    }
  });
}

/// dx = y (dy - sum(y dy)), each row.
///
/// Shapes: y, dy (rows, C); dx (rows, C), which may be dy.
/// Cost:   reads y and dy and writes dx; bound by memory.
/// Order:  as softmax_forward.
template <class T>
TANDEM_NOINLINE void softmax_gradient(Team& team, std::int64_t rows, int channels, T const* y,
                                      T const* dy, T* dx) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * channels; at < end * channels; at += channels) {
      auto sum = wide<T>(0);
      for_wide<T>(at, at + channels,
                  [&](std::int64_t i, auto some) { sum += some.load(y + i) * some.load(dy + i); });
      auto const total = wide<T>(lane_total(sum));
      for_wide<T>(at, at + channels, [&](std::int64_t i, auto some) {
        some.store(dx + i, some.load(y + i) * (some.load(dy + i) - total));
      });
    }
  });
}

}  // namespace tandem::host
