// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of convolutions share: geometries, changes of layout, and Host's results in
/// double.

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/geometry.hpp>
#include <tandem/kernels/host/convolution.hpp>
#include <tandem/runtime/host/team.hpp>

#include <cuda/matmul/support.hpp>

namespace tandem::test {

inline ConvolutionGeometry geometry(int in, int out, int groups, Extent2d image, Window window) {
  return {in, out, groups, image, window.positions(image), window};
}

/// Kernels, strides, paddings, groups and numbers of channels that matter.
inline std::vector<ConvolutionGeometry> geometries() {
  Window const one{};
  Window const one_strided{{1, 1}, {2, 2}, {0, 0}};
  Window const three{{3, 3}, {1, 1}, {1, 1}};
  Window const three_strided{{3, 3}, {2, 2}, {1, 1}};
  Window const five{{5, 5}, {1, 1}, {2, 2}};
  Window const seven_strided{{7, 7}, {2, 2}, {3, 3}};
  Window const uneven{{2, 3}, {3, 2}, {0, 2}};
  Window const dilated{{3, 2}, {1, 2}, {2, 1}, {2, 3}};
  Window const dilated_strided{{3, 3}, {4, 2}, {3, 2}, {6, 2}};
  return {geometry(1, 1, 1, {4, 4}, three),
          geometry(3, 17, 1, {7, 5}, three),
          geometry(17, 3, 1, {6, 6}, one),
          geometry(64, 16, 1, {3, 4}, one),
          geometry(16, 8, 1, {5, 5}, one_strided),
          geometry(8, 64, 1, {6, 6}, three_strided),
          geometry(3, 5, 1, {9, 8}, five),
          geometry(3, 8, 1, {13, 11}, seven_strided),
          geometry(16, 6, 2, {5, 6}, three),
          geometry(4, 8, 2, {5, 5}, one),
          geometry(12, 12, 12, {6, 5}, three),
          geometry(5, 10, 5, {7, 7}, three_strided),
          geometry(32, 16, 2, {4, 4}, three),
          geometry(6, 4, 2, {8, 9}, uneven),
          geometry(32, 16, 1, {4, 4}, three),
          geometry(4, 256, 1, {3, 3}, three),
          geometry(2, 3, 1, {1, 1}, five),
          geometry(8, 5, 1, {7, 8}, dilated),
          geometry(4, 6, 2, {14, 9}, dilated_strided)};
}

/// "3 -> 17 in 1, 3 x 3 by 1, 1 on 7 x 5", for messages.
inline std::string name_of(ConvolutionGeometry const& g) {
  auto const text = [](int i) { return std::to_string(i); };
  return text(g.in_channels) + " -> " + text(g.out_channels) + " in " + text(g.groups) + ", " +
         text(g.window.kernel.height) + " x " + text(g.window.kernel.width) + " by " +
         text(g.window.stride.height) + ", " + text(g.window.stride.width) + " on " +
         text(g.in.height) + " x " + text(g.in.width);
}

/// (n, pixels, c) as (n, c, pixels).
template <class T>
std::vector<T> channels_first(std::vector<T> const& x, std::int64_t n, std::int64_t c) {
  std::vector<T> y(x.size());
  std::int64_t const pixels = n * c == 0 ? 0 : static_cast<std::int64_t>(x.size()) / (n * c);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
    std::int64_t const channel = i % c;
    std::int64_t const pixel = i / c % pixels;
    y[static_cast<std::size_t>((i / c / pixels * c + channel) * pixels + pixel)] =
        x[static_cast<std::size_t>(i)];
  }
  return y;
}

/// (n, c, pixels) as (n, pixels, c).
template <class T>
std::vector<T> channels_last(std::vector<T> const& x, std::int64_t n, std::int64_t c) {
  std::vector<T> y(x.size());
  std::int64_t const pixels = n * c == 0 ? 0 : static_cast<std::int64_t>(x.size()) / (n * c);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
    std::int64_t const channel = i % c;
    std::int64_t const pixel = i / c % pixels;
    y[static_cast<std::size_t>(i)] =
        x[static_cast<std::size_t>((i / c / pixels * c + channel) * pixels + pixel)];
  }
  return y;
}

struct ConvolutionSizes {
  std::int64_t x, y, weight;

  ConvolutionSizes(ConvolutionGeometry const& g, std::int64_t batch)
      : x{batch * g.in.height * g.in.width * g.in_channels},
        y{batch * g.out.height * g.out.width * g.out_channels},
        weight{std::int64_t{g.out_channels} * g.window.kernel.height * g.window.kernel.width *
               (g.in_channels / g.groups)} {}
};

/// Host's kernels in double, on tensors that are channels-last.
class HostConvolution {
 public:
  HostConvolution(ConvolutionGeometry const& g, int batch)
      : g_{g},
        batch_{batch},
        size_{g, batch},
        scratch_(static_cast<std::size_t>(host::convolution_scratch<double>(g, 1))) {}

  std::vector<double> forward(std::vector<double> const& x, std::vector<double> const& weight,
                              std::vector<double> const& bias) {
    std::vector<double> y(static_cast<std::size_t>(size_.y));
    host::convolution_forward<double>(team_, g_, batch_, images(x).data(), filters(weight).data(),
                                      bias.empty() ? nullptr : bias.data(), y.data(),
                                      scratch_.data());
    return channels_last(y, batch_, g_.out_channels);
  }
  std::vector<double> input_gradient(std::vector<double> const& weight,
                                     std::vector<double> const& dy) {
    std::vector<double> dx(static_cast<std::size_t>(size_.x));
    host::convolution_input_gradient<double>(team_, g_, batch_, filters(weight).data(),
                                             channels_first(dy, batch_, g_.out_channels).data(),
                                             dx.data(), scratch_.data());
    return channels_last(dx, batch_, g_.in_channels);
  }
  /// Adds to @p dweight, and to @p dbias unless it is empty.
  void weight_gradient(std::vector<double> const& x, std::vector<double> const& dy,
                       std::vector<double>& dweight, std::vector<double>& dbias) {
    std::vector<double> sum = filters(dweight);
    host::convolution_weight_gradient<double>(
        team_, g_, batch_, images(x).data(), channels_first(dy, batch_, g_.out_channels).data(),
        sum.data(), dbias.empty() ? nullptr : dbias.data(), true, scratch_.data());
    dweight = channels_last(sum, g_.out_channels, g_.in_channels / g_.groups);
  }

 private:
  [[nodiscard]] std::vector<double> images(std::vector<double> const& x) const {
    return channels_first(x, batch_, g_.in_channels);
  }
  [[nodiscard]] std::vector<double> filters(std::vector<double> const& weight) const {
    return channels_first(weight, g_.out_channels, g_.in_channels / g_.groups);
  }

  ConvolutionGeometry g_;
  int batch_;
  ConvolutionSizes size_;
  host::Team team_{1};
  std::vector<double> scratch_;
};

}  // namespace tandem::test
