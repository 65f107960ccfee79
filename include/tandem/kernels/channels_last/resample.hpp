// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Channels-last images padded or enlarged: each pixel a mean of a few of another image's, and the
/// gradient.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/functors/resample_axes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// to[h, w] = the sum over the places that @p rows and @p columns name of from, by their weights.
template <class T, class Way>
void resample(Team& team, int batch, int channels, Way const& rows, Way const& columns,
              T const* from, T* to) {
  std::int64_t const image = std::int64_t{rows.read()} * columns.read() * channels;
  team.parallel_for(std::int64_t{batch} * rows.written(), [=](std::int64_t begin,
                                                              std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T const* const x = from + row / rows.written() * image;
      int const h = static_cast<int>(row % rows.written());
      for (int w = 0; w < columns.written(); ++w) {
        T* const y = to + (row * columns.written() + w) * channels;
        for_vectors(channels, [&](int c, auto some) {
          Floats total{0.0F};
          for (int u = 0; u < rows.terms(h); ++u) {
            auto const of_row = rows.template term<float>(h, u);
            for (int v = 0; v < columns.terms(w); ++v) {
              auto const of_column = columns.template term<float>(w, v);
              std::int64_t const pixel = std::int64_t{of_row.at} * columns.read() + of_column.at;
              total +=
                  Floats{of_row.weight * of_column.weight} * some.load(x + pixel * channels + c);
            }
          }
          some.store(y + c, total);
        });
      }
    }
  });
}

}  // namespace detail

/// y = x with the rows and columns of @p g.
///
/// Shapes: x (B, in, channels); y (B, out, channels).
/// Cost:   reads one to four pixels an output, most of them from a cache; bound by memory.
/// Order:  the pixels of the input row by row, in float; rounded once.
template <class T, class Axis>
TANDEM_NOINLINE void resample_forward(Team& team, Resampling<Axis> const& g, int batch, T const* x,
                                      T* y) {
  detail::resample(team, batch, g.channels, TowardsOutput<Axis>{g.rows},
                   TowardsOutput<Axis>{g.columns}, x, y);
}

/// The gradient of resample_forward.
///
/// Shapes: dy (B, out, channels); dx (B, in, channels), overwritten.
/// Cost:   reads each element of dy once to four times; bound by memory.
/// Order:  the pixels of the output row by row, in float; rounded once.
template <class T, class Axis>
TANDEM_NOINLINE void resample_gradient(Team& team, Resampling<Axis> const& g, int batch,
                                       T const* dy, T* dx) {
  detail::resample(team, batch, g.channels, TowardsInput<Axis>{g.rows},
                   TowardsInput<Axis>{g.columns}, dy, dx);
}

}  // namespace tandem::host::channels_last
