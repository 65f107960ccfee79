// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Convolution forward, input gradient, weight gradient.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Elements of T that each of the three kernels needs as scratch for a Team of @p threads; does not
/// depend on the batch.
template <class T>
constexpr std::int64_t convolution_scratch(ConvolutionGeometry const& g, int threads) {
  return threads + g.groups;
}

namespace detail {
template <class F>
void simple_taps(ConvolutionGeometry const& g, F const& f) {
  int const ipg = g.in_channels / g.groups, opg = g.out_channels / g.groups;
  auto const& w = g.window;
  for (int o = 0; o < g.out_channels; ++o)
    for (int i = 0; i < ipg; ++i)
      for (int kh = 0; kh < w.kernel.height; ++kh)
        for (int kw = 0; kw < w.kernel.width; ++kw)
          for (int oh = 0; oh < g.out.height; ++oh)
            for (int ow = 0; ow < g.out.width; ++ow) {
              int const h = oh * w.stride.height - w.padding.height + kh;
              int const v = ow * w.stride.width - w.padding.width + kw;
              if (h < 0 || v < 0 || h >= g.in.height || v >= g.in.width)
                continue;
              std::int64_t const xi =
                  (std::int64_t{o / opg * ipg + i} * g.in.height + h) * g.in.width + v;
              std::int64_t const wi =
                  ((std::int64_t{o} * ipg + i) * w.kernel.height + kh) * w.kernel.width + kw;
              std::int64_t const yi = (std::int64_t{o} * g.out.height + oh) * g.out.width + ow;
              f(xi, wi, yi);
            }
}
}  // namespace detail

template <class T>
TANDEM_NOINLINE void convolution_forward(Team& team, ConvolutionGeometry const& g, int batch,
                                         T const* x, T const* weight, T const* bias, T* y,
                                         T* scratch) {
  static_cast<void>(scratch);
  std::int64_t const p = std::int64_t{g.out.height} * g.out.width;
  std::int64_t const ny = g.out_channels * p;
  std::int64_t const nx = std::int64_t{g.in_channels} * g.in.height * g.in.width;
  team.parallel_for(batch, [=](std::int64_t b, std::int64_t e) {
    for (auto s = b; s < e; ++s) {
      for (std::int64_t i = 0; i < ny; ++i)
        y[s * ny + i] = bias ? bias[i / p] : T{0};
      detail::simple_taps(g, [=](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
        y[s * ny + yi] += x[s * nx + xi] * weight[wi];
      });
    }
  });
}

template <class T>
TANDEM_NOINLINE void convolution_input_gradient(Team& team, ConvolutionGeometry const& g, int batch,
                                                T const* weight, T const* dy, T* dx, T* scratch) {
  static_cast<void>(scratch);
  std::int64_t const ny = std::int64_t{g.out_channels} * g.out.height * g.out.width;
  std::int64_t const nx = std::int64_t{g.in_channels} * g.in.height * g.in.width;
  team.parallel_for(batch, [=](std::int64_t b, std::int64_t e) {
    for (auto s = b; s < e; ++s) {
      for (std::int64_t i = 0; i < nx; ++i)
        dx[s * nx + i] = T{0};
      detail::simple_taps(g, [=](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
        dx[s * nx + xi] += dy[s * ny + yi] * weight[wi];
      });
    }
  });
}

template <class T>
TANDEM_NOINLINE void convolution_weight_gradient(Team& team, ConvolutionGeometry const& g,
                                                 int batch, T const* x, T const* dy, T* dweight,
                                                 T* dbias, bool accumulate, T* scratch) {
  static_cast<void>(scratch);
  static_cast<void>(team);
  std::int64_t const p = std::int64_t{g.out.height} * g.out.width;
  std::int64_t const ny = g.out_channels * p;
  std::int64_t const nx = std::int64_t{g.in_channels} * g.in.height * g.in.width;
  std::int64_t const nw = std::int64_t{g.out_channels} * (g.in_channels / g.groups) *
                          g.window.kernel.height * g.window.kernel.width;
  if (!accumulate) {
    for (std::int64_t i = 0; i < nw; ++i)
      dweight[i] = T{0};
    for (std::int64_t i = 0; i < g.out_channels && dbias; ++i)
      dbias[i] = T{0};
  }
  for (std::int64_t s = 0; s < batch; ++s) {
    detail::simple_taps(g, [=](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
      dweight[wi] += dy[s * ny + yi] * x[s * nx + xi];
    });
    for (std::int64_t i = 0; i < ny && dbias; ++i)
      dbias[i / p] += dy[s * ny + i];
  }
}

}  // namespace tandem::host
