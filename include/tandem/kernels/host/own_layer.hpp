// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The passes of a program's own ElementLayer and ChannelLayer, in either order of channels.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/own_layer.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = L::value(x).
///
/// R is the type to compute in. Shapes: x, y (n).
template <class L, class R, class T>
TANDEM_NOINLINE void element_layer_forward(Team& team, T const* x, T* y, std::int64_t n) {
  transform(team, n,
            [=](std::int64_t i) { y[i] = static_cast<T>(L::value(static_cast<R>(x[i]))); });
}

/// dx = dy times the slope.
///
/// Shapes: x, y, dy (n), of which x or y is not read where L's slope is not of it; dx (n), which
///         may be any of them.
template <class L, class R, class T>
TANDEM_NOINLINE void element_layer_gradient(Team& team, T const* x, T const* y, T const* dy, T* dx,
                                            std::int64_t n) {
  using Slope = ElementSlope<L>;
  T const* const in = Slope::reads_input ? x : dy;
  T const* const out = Slope::reads_output ? y : dy;
  transform(team, n, [=](std::int64_t i) {
    R const slope = Slope::template at<R>(static_cast<R>(in[i]), static_cast<R>(out[i]));
    dx[i] = static_cast<T>(static_cast<R>(dy[i]) * slope);
  });
}

/// Where elements have their channel: (rows, channels, inner). Maps as users know them have their
/// pixels as `inner`, channels-last ones as rows.
struct ChannelOrder {
  std::int64_t rows = 0;
  std::int64_t channels = 1;
  std::int64_t inner = 1;

  [[nodiscard]] std::int64_t elements() const { return rows * channels * inner; }
};

namespace detail {

/// f(element, channel) for each element.
template <class Function>
void each_with_channel(Team& team, ChannelOrder order, Function const& f) {
  if (order.channels == 1) {
    transform(team, order.elements(), [f](std::int64_t i) { f(i, std::int64_t{0}); });
    return;
  }
  team.parallel_for(order.rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const first = row * order.channels * order.inner;
      if (order.inner == 1) {
        for (std::int64_t c = 0; c < order.channels; ++c) {
          f(first + c, c);
        }
      } else {
        for (std::int64_t c = 0; c < order.channels; ++c) {
          for (std::int64_t i = 0; i < order.inner; ++i) {
            f(first + c * order.inner + i, c);
          }
        }
      }
    }
  });
}

/// Rows of a part that one thread sums, a function of the order only, so that no bit depends on the
/// team: at most 64 parts, each of some thousand elements where there are so many.
constexpr std::int64_t rows_of_part(ChannelOrder const& order) {
  std::int64_t const least = (4096 + order.channels * order.inner - 1) /
                             std::max<std::int64_t>(1, order.channels * order.inner);
  return std::max<std::int64_t>({1, least, (order.rows + 63) / 64});
}
inline constexpr std::int64_t most_parts = 64;

}  // namespace detail

/// y = L::value(x, w[channel]).
///
/// Shapes: x, y (rows, channels, inner); w (channels).
template <class L, class P, class T>
TANDEM_NOINLINE void channel_layer_forward(Team& team, ChannelOrder order, T const* x, P const* w,
                                           T* y) {
  detail::each_with_channel(team, order, [=](std::int64_t i, std::int64_t c) {
    y[i] = static_cast<T>(L::value(static_cast<P>(x[i]), w[c]));
  });
}

/// dx = dy L::slope(x, w[channel]).
///
/// Shapes: x, dy (rows, channels, inner); dx likewise, which may be either; w (channels).
template <class L, class P, class T>
TANDEM_NOINLINE void channel_layer_input_gradient(Team& team, ChannelOrder order, T const* x,
                                                  P const* w, T const* dy, T* dx) {
  detail::each_with_channel(team, order, [=](std::int64_t i, std::int64_t c) {
    dx[i] = static_cast<T>(static_cast<P>(dy[i]) * L::slope(static_cast<P>(x[i]), w[c]));
  });
}

/// Scratch of channel_layer_weight_gradient.
constexpr std::int64_t channel_layer_scratch_bytes(std::int64_t channels) {
  return detail::most_parts * channels * static_cast<std::int64_t>(sizeof(double));
}

/// dw[channel] = [+=] the sum of dy L::weight_slope(x, w[channel]).
///
/// Shapes: x, dy (rows, channels, inner); w, dw (channels).
/// Order:  parts of the rows, cut by the shape alone; each in index order, a run of one channel in
///         16 lanes, and then the parts, in double.
/// @pre    scratch has channel_layer_scratch_bytes(channels)
template <class L, class P, class T>
TANDEM_NOINLINE void channel_layer_weight_gradient(Team& team, ChannelOrder order, T const* x,
                                                   P const* w, T const* dy, P* dw, bool accumulate,
                                                   double* scratch) {
  auto const term = [=](std::int64_t i, std::int64_t c) {
    return static_cast<double>(static_cast<P>(dy[i]) * L::weight_slope(static_cast<P>(x[i]), w[c]));
  };
  std::int64_t const each = detail::rows_of_part(order);
  std::int64_t const parts = (order.rows + each - 1) / each;
  team.parallel_for(parts, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      double* const sum = scratch + part * order.channels;
      std::fill(sum, sum + order.channels, 0.0);
      std::int64_t const first = part * each;
      std::int64_t const last = std::min(order.rows, first + each);
      if (order.channels == 1) {
        std::int64_t const from = first * order.inner;
        sum[0] = detail::lane_sum<double>((last - first) * order.inner,
                                          [=](std::int64_t i) { return term(from + i, 0); });
        continue;
      }
      for (std::int64_t row = first; row < last; ++row) {
        for (std::int64_t c = 0; c < order.channels; ++c) {
          std::int64_t const from = (row * order.channels + c) * order.inner;
          sum[c] += order.inner == 1 ? term(from, c)
                                     : detail::lane_sum<double>(order.inner, [=](std::int64_t i) {
                                         return term(from + i, c);
                                       });
        }
      }
    }
  });
  for (std::int64_t c = 0; c < order.channels; ++c) {
    double total = 0.0;
    for (std::int64_t part = 0; part < parts; ++part) {
      total += scratch[part * order.channels + c];
    }
    dw[c] = accumulate ? dw[c] + static_cast<P>(total) : static_cast<P>(total);
  }
}

}  // namespace tandem::host
