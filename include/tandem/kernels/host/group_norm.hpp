// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Group norm over images whose maps stand one after another; a vector has maps of one pixel.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/group_norm_geometry.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, each group of channels of a sample by
/// its own mean and (biased) variance.
///
/// Shapes: x (B, C, pixels), gain, bias (C) or both null; y (B, C, pixels); saved (B, g.saved()).
/// Cost:   reads x three times, from a cache where a group fits one, and writes y; bound by memory.
/// Order:  a map in 16 interleaved sums and then as a binary tree, in double in order; the maps of
///         a group in order, in double. A sample's bits do not depend on its batch.
/// Source: Wu, He, arXiv:1803.08494, section 3
template <class T, class P>
TANDEM_NOINLINE void group_norm_forward(Team& team, GroupNormGeometry const& g, int batch,
                                        T const* x, P const* gain, P const* bias, double epsilon,
                                        T* y, P* saved) {
  using R = Real<T>;
  team.parallel_for(std::int64_t{batch} * g.groups, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const group = task % g.groups;
      int const first = static_cast<int>(group) * g.width();
      std::int64_t const at = task * g.elements();
      // The sum over the group of f(16 elements, lanes).
      auto const total = [&](auto const& f) {
        double sum = 0;
        for (int c = 0; c < g.width(); ++c) {
          auto own = wide<T>(0);
          for_wide<T>(0, g.pixels, [&](std::int64_t p, auto some) {
            own += f(some.load(x + at + c * g.pixels + p), some);
          });
          sum += static_cast<double>(lane_total(own));
        }
        return sum;
      };
      auto const count = static_cast<double>(g.elements());
      R const mean = static_cast<R>(total([](auto const& v, auto /*some*/) { return v; }) / count);
      auto const m = wide<T>(mean);
      double const squares = total([&](auto const& v, auto some) {
        auto const distance = some.keep(v - m, wide<T>(0));
        return distance * distance;
      });
      R const inverse = static_cast<R>(1.0 / std::sqrt(squares / count + epsilon));
      GroupNormSaved<P> const to{g, saved, task / g.groups};
      to.mean[group] = static_cast<P>(mean);
      to.inverse[group] = static_cast<P>(inverse);
      for (int c = 0; c < g.width(); ++c) {
        auto const scale = wide<T>(gain != nullptr ? inverse * R(gain[first + c]) : inverse);
        auto const offset = wide<T>(bias != nullptr ? R(bias[first + c]) : R{0});
        T const* const from = x + at + c * g.pixels;
        T* const out = y + at + c * g.pixels;
        for_wide<T>(0, g.pixels, [&](std::int64_t p, auto some) {
          some.store(out + p, (some.load(from + p) - m) * scale + offset);
        });
      }
    }
  });
}

/// dx, unless it is null, and the sums of each sample and channel in @p saved that
/// group_norm_weight_gradient adds.
///
/// With g = dy gain: dx = (g - mean(g) - xhat mean(g xhat)) inverse.
///
/// Shapes: x, dy (B, C, pixels), gain (C) or null; dx (B, C, pixels), overwritten.
/// Cost:   reads x and dy twice, from a cache where a group fits one, and writes dx; bound by
///         memory.
/// Order:  as group_norm_forward.
/// @pre    group_norm_forward has written @p saved
template <class T, class P>
TANDEM_NOINLINE void group_norm_gradient(Team& team, GroupNormGeometry const& g, int batch,
                                         T const* x, T const* dy, P const* gain, T* dx, P* saved) {
  using R = Real<T>;
  team.parallel_for(std::int64_t{batch} * g.groups, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const group = task % g.groups;
      int const first = static_cast<int>(group) * g.width();
      GroupNormSaved<P> const own{g, saved, task / g.groups};
      auto const m = wide<T>(R(own.mean[group]));
      auto const s = wide<T>(R(own.inverse[group]));
      auto const gain_of = [=](int c) { return gain != nullptr ? R(gain[first + c]) : R{1}; };
      double slope = 0;
      double product = 0;
      for (int c = 0; c < g.width(); ++c) {
        std::int64_t const at = task * g.elements() + c * g.pixels;
        auto a = wide<T>(0);
        auto b = wide<T>(0);
        for_wide<T>(0, g.pixels, [&](std::int64_t p, auto some) {
          auto const d = some.load(dy + at + p);
          a += d;
          b += d * ((some.load(x + at + p) - m) * s);
        });
        R const sum = lane_total(a);
        R const weighted = lane_total(b);
        own.dy[first + c] = static_cast<P>(sum);
        own.dy_normalised[first + c] = static_cast<P>(weighted);
        slope += static_cast<double>(gain_of(c) * sum);
        product += static_cast<double>(gain_of(c) * weighted);
      }
      auto const count = static_cast<double>(g.elements());
      auto const mean_slope = wide<T>(static_cast<R>(slope / count));
      auto const mean_product = wide<T>(static_cast<R>(product / count));
      for (int c = 0; c < g.width() && dx != nullptr; ++c) {
        std::int64_t const at = task * g.elements() + c * g.pixels;
        auto const k = wide<T>(gain_of(c));
        for_wide<T>(0, g.pixels, [&](std::int64_t p, auto some) {
          auto const xhat = (some.load(x + at + p) - m) * s;
          some.store(dx + at + p,
                     (some.load(dy + at + p) * k - mean_slope - xhat * mean_product) * s);
        });
      }
    }
  });
}

/// dgain = [+=] sum(dy xhat), dbias = [+=] sum(dy) of each channel.
///
/// Order: the samples in order, in double.
/// @pre   group_norm_gradient has written @p saved (B, g.saved())
template <class P>
TANDEM_NOINLINE void group_norm_weight_gradient(Team& team, GroupNormGeometry const& g, int batch,
                                                P* saved, P* dgain, P* dbias, bool accumulate) {
  team.parallel_for(g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double of_gain = 0;
      double of_bias = 0;
      for (int sample = 0; sample < batch; ++sample) {
        GroupNormSaved<P> const own{g, saved, sample};
        of_gain += static_cast<double>(own.dy_normalised[c]);
        of_bias += static_cast<double>(own.dy[c]);
      }
      dgain[c] = static_cast<P>(of_gain) + (accumulate ? dgain[c] : P{0});
      dbias[c] = static_cast<P>(of_bias) + (accumulate ? dbias[c] : P{0});
    }
  });
}

}  // namespace tandem::host
