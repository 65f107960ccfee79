// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The gradient of a convolution to its input, as convolutions of dy: one for each phase of the
/// stride.
///
/// With stride s and dilation d, the pixels h of x with (h + padding) mod s = r only meet the
/// kernel's rows u with u d mod s = r, which are s / gcd(s, d) apart (without dilation r, r + s,
/// r + 2 s, …), and neighbours among them meet rows of dy that are d / gcd(s, d) apart. So each of
/// the s·s phases is a convolution of stride 1 with some of the taps, mirrored; no sum is scattered
/// and no product wasted.

#include <cstdint>
#include <numeric>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/host/convolution_forward.hpp>
#include <tandem/kernels/host/panels.hpp>
#include <tandem/kernels/host/patches.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

namespace detail {

/// One axis of one phase: which pixels it writes, which taps it uses and where it reads dy.
struct PhaseAxis {
  int offset;    // its first kernel row
  int step;      // to the next
  int corner;    // its first pixel; the next ones follow at the stride
  int count;     // of pixels
  int taps;      // kernel rows offset, offset + step, …
  int dilation;  // rows of dy from one of these taps to the next
  int first;     // the row of dy under the last of these taps, at the first pixel

  constexpr PhaseAxis(int r, int in, int kernel, int stride, int padding, int apart)
      : offset{first_tap(r, kernel, stride, apart)},
        step{stride / std::gcd(stride, apart)},
        corner{((r - padding) % stride + stride) % stride},
        count{corner < in ? (in - corner + stride - 1) / stride : 0},
        taps{offset < kernel ? (kernel - offset + step - 1) / step : 0},
        dilation{apart / std::gcd(stride, apart)},
        first{(corner + padding - offset * apart) / stride - (taps - 1) * dilation} {}

 private:
  // The kernel itself: there is none.
  static constexpr int first_tap(int r, int kernel, int stride, int apart) {
    int u = 0;
    while (u < kernel && u * apart % stride != r) {
      ++u;
    }
    return u;
  }
};

/// Calls f(rows, columns, taps before) for each phase; the last says how many taps went before.
template <class Function>
void each_phase(ConvolutionGeometry const& g, Function const& f) {
  Window const& w = g.window;
  std::int64_t taps = 0;
  for (int r = 0; r < w.stride.height; ++r) {
    PhaseAxis const rows{
        r, g.in.height, w.kernel.height, w.stride.height, w.padding.height, w.dilation.height};
    for (int c = 0; c < w.stride.width; ++c) {
      PhaseAxis const columns{
          c, g.in.width, w.kernel.width, w.stride.width, w.padding.width, w.dilation.width};
      f(rows, columns, taps);
      taps += std::int64_t{rows.taps} * columns.taps;
    }
  }
}

/// Packs the weights of input channels [channel, channel + 6) of one group, which @p weight points
/// to, as a left panel of a phase; k is (output channel, mirrored tap).
template <class T>
void pack_mirrored(ConvolutionGeometry const& g, T const* weight, std::int64_t channel,
                   PhaseAxis const& rows, PhaseAxis const& columns, T* panel) {
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  Window const& w = g.window;
  std::int64_t const area = std::int64_t{w.kernel.height} * w.kernel.width;
  for (std::int64_t o = 0; o < out; ++o) {
    for (int a = rows.taps - 1; a >= 0; --a) {
      for (int b = columns.taps - 1; b >= 0; --b) {
        std::int64_t const row = rows.offset + std::int64_t{a} * rows.step;
        std::int64_t const tap = row * w.kernel.width + columns.offset + b * columns.step;
        for (std::int64_t i = channel; i < channel + tile_rows; ++i) {
          *panel++ = i < in ? weight[(o * in + i) * area + tap] : T{0};
        }
      }
    }
  }
}

}  // namespace detail

/// dx = the gradient of convolution_forward to x.
///
/// Shapes: weight (out_channels, in_channels / groups, kernel), dy (B, out_channels, out);
///         dx (B, in_channels, in), overwritten; scratch (convolution_scratch).
/// Cost:   B g.macs() multiply-accumulates.
/// Order:  for each element the taps (output channel, mirrored row, mirrored column) in blocks of
///         256, each summed in order. A sample's bits do not depend on its batch.
template <class T>
TANDEM_NOINLINE void convolution_input_gradient(Team& team, ConvolutionGeometry const& geometry,
                                                int batch, T const* weight, T const* dy, T* dx,
                                                T* scratch) {
  ConvolutionGeometry const g = detail::flattened(geometry);
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  std::int64_t const out_sample = g.out_channels * out_pixels;
  std::int64_t const group_weights = in * out * g.window.kernel.height * g.window.kernel.width;
  std::int64_t const panels = (in + detail::tile_rows - 1) / detail::tile_rows;
  std::int64_t const members = team.size();
  // The panels of (phase, group, row of panels), as packed: all taps before, then this phase's.
  std::int64_t const tap_panels = g.groups * panels * detail::tile_rows * out;
  T* const packed = scratch + members * (detail::left_block + detail::right_block);
  team.parallel_for(g.groups * panels, [=](std::int64_t begin, std::int64_t end) {
    detail::each_phase(g, [=](auto const& rows, auto const& columns, std::int64_t before) {
      std::int64_t const depth = out * rows.taps * columns.taps;
      for (std::int64_t q = begin; q < end; ++q) {
        detail::pack_mirrored(g, weight + q / panels * group_weights,
                              q % panels * detail::tile_rows, rows, columns,
                              packed + before * tap_panels + q * detail::tile_rows * depth);
      }
    });
  });
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    detail::each_phase(g, [=](auto const& rows, auto const& columns, std::int64_t before) {
      std::int64_t const depth = out * rows.taps * columns.taps;
      for (std::int64_t group = 0; group < g.groups; ++group) {
        detail::Correlation<T> c{};
        c.patches = {g.out,  {rows.taps, columns.taps},   {rows.count, columns.count},
                     {1, 1}, {rows.first, columns.first}, {rows.dilation, columns.dilation}};
        c.rows = in;
        c.depth = depth;
        c.left = packed + before * tap_panels + group * panels * detail::tile_rows * depth;
        c.from = {dy + group * out * out_pixels, out_sample, dy, dy + batch * out_sample};
        c.to = dx + group * in * in_pixels;
        c.to_sample = g.in_channels * in_pixels;
        c.to_image = g.in;
        c.corner = {rows.corner, columns.corner};
        c.step = g.window.stride;
        detail::correlate(c, batch, member, members, scratch + member * detail::right_block);
      }
    });
  });
}

}  // namespace tandem::host
