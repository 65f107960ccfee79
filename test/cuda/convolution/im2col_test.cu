// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cuda/convolution.cuh>
#include <tandem/kernels/cuda/im2col_index.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <cuda/convolution/support.hpp>
#include <device_array.hpp>

namespace tandem {

namespace im2col_test {

using namespace tandem::test;
using cuda::PatchIndex;
using cuda::RankDevice;

/// For each element of the matrix of patches the element of x there, or -1; by plain loops.
std::vector<std::int64_t> sources(ConvolutionGeometry const& g, int batch) {
  std::vector<std::int64_t> list;
  Window const& w = g.window;
  int const maps = g.in_channels / g.groups;
  for (int b = 0; b < batch; ++b) {
    for (int i = 0; i < g.out.height; ++i) {
      for (int j = 0; j < g.out.width; ++j) {
        for (int group = 0; group < g.groups; ++group) {
          for (int u = 0; u < w.kernel.height; ++u) {
            for (int v = 0; v < w.kernel.width; ++v) {
              int const row = i * w.stride.height + u * w.dilation.height - w.padding.height;
              int const column = j * w.stride.width + v * w.dilation.width - w.padding.width;
              bool const inside =
                  row >= 0 && row < g.in.height && column >= 0 && column < g.in.width;
              for (int c = 0; c < maps; ++c) {
                std::int64_t const pixel =
                    (std::int64_t{b} * g.in.height + row) * g.in.width + column;
                list.push_back(inside ? pixel * g.in_channels + group * maps + c : -1);
              }
            }
          }
        }
      }
    }
  }
  return list;
}

struct Collect {
  std::int64_t* places;
  int count;
  TANDEM_HOST_DEVICE void operator()(std::int64_t place) { places[count++] = place; }
};

TEST_CASE("PatchIndex: each place has its source, each source all its places, in order") {
  for (ConvolutionGeometry const& g : geometries()) {
    INFO(name_of(g));
    constexpr int batch = 3;
    std::vector<std::int64_t> const wanted = sources(g, batch);
    PatchIndex const index{g};
    REQUIRE(static_cast<std::int64_t>(wanted.size()) ==
            batch * index.positions() * index.columns());
    CHECK(index.columns() * index.positions() == cuda::patch_elements(g));
    std::vector<std::vector<std::int64_t>> places(
        static_cast<std::size_t>(ConvolutionSizes{g, batch}.x));
    bool equal = true;
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      equal = equal && index.source(static_cast<std::uint32_t>(n)) == wanted[n];
      if (wanted[n] >= 0) {
        places[static_cast<std::size_t>(wanted[n])].push_back(static_cast<std::int64_t>(n));
      }
    }
    CHECK(equal);
    for (std::size_t n = 0; n < places.size(); ++n) {
      std::int64_t found[64];  // no kernel here has more cells
      Collect collect{found, 0};
      index.each_place(static_cast<std::uint32_t>(n), collect);
      std::sort(places[n].begin(), places[n].end(), [&](std::int64_t a, std::int64_t b) {
        return a % index.columns() < b % index.columns();  // the order of the kernel's cells
      });
      equal = equal && std::vector<std::int64_t>(found, found + collect.count) == places[n];
    }
    CHECK(equal);
  }
}

TEST_CASE("PatchIndex in units of channels is PatchIndex of fewer channels") {
  ConvolutionGeometry const wide = geometry(32, 8, 2, {5, 6}, {{3, 3}, {2, 1}, {1, 1}});
  ConvolutionGeometry const narrow = geometry(8, 8, 2, {5, 6}, {{3, 3}, {2, 1}, {1, 1}});
  PatchIndex const a{wide, 4};
  PatchIndex const b{narrow};
  REQUIRE(a.columns() == b.columns());
  bool equal = true;
  for (std::uint32_t n = 0; n < 2 * a.columns() * a.positions(); ++n) {
    equal = equal && a.source(n) == b.source(n);
  }
  CHECK(equal);
}

template <class T>
void check_kernels(RankDevice& device, ConvolutionGeometry const& g, int batch, bool unaligned,
                   std::int64_t most = cuda::most_threads) {
  INFO(name_of(g) << ", batch " << batch << (unaligned ? ", unaligned" : ""));
  std::vector<std::int64_t> const from = sources(g, batch);
  std::vector<T> const x = numbers<T>(ConvolutionSizes{g, batch}.x, 1);
  DeviceArray<T> const on_x{device, x, {unaligned}};
  DeviceArray<T> const patches{device, from.size()};
  cuda::im2col(device.compute, g, batch, on_x.data(), patches.data(), most);
  std::vector<double> wanted;
  for (std::int64_t const source : from) {
    wanted.push_back(source < 0 ? 0.0 : to_double(x[static_cast<std::size_t>(source)]));
  }
  CHECK(in_double(patches.host()) == wanted);

  std::vector<T> const gradient = numbers<T>(static_cast<std::int64_t>(from.size()), 2);
  DeviceArray<T> const on_gradient{device, gradient};
  DeviceArray<T> const dx{device, x.size(), {unaligned}};
  cuda::col2im(device.compute, g, batch, on_gradient.data(), dx.data(), most);
  std::vector<double> sum(x.size(), 0.0);
  std::vector<double> magnitude(x.size(), 0.0);
  for (std::size_t n = 0; n < from.size(); ++n) {
    if (from[n] >= 0) {
      sum[static_cast<std::size_t>(from[n])] += to_double(gradient[n]);
      magnitude[static_cast<std::size_t>(from[n])] += std::fabs(to_double(gradient[n]));
    }
  }
  double const terms = g.window.kernel.height * g.window.kernel.width;
  CHECK(worst(dx.host(), sum, magnitude, terms * unit<cuda::ComputeType<T>>) <= 1.0);
}

TEST_CASE("im2col copies what the window sees, col2im adds up what came of a pixel") {
  RankDevice device{last_device()};
  for (ConvolutionGeometry const& g : geometries()) {
    check_kernels<float>(device, g, 2, false);
    check_kernels<double>(device, g, 1, false);
    check_kernels<BFloat16>(device, g, 3, false);
  }
  check_kernels<float>(device, geometries()[3], 5, false, 1);
  check_kernels<float>(device, geometries()[9], 5, false, 250);
  check_kernels<float>(device, geometries()[5], 2, true);
  check_kernels<BFloat16>(device, geometries()[12], 2, true);
}

TEST_CASE("im2col and col2im of no samples do nothing") {
  RankDevice device{cuda::Device{0}};
  ConvolutionGeometry const g = geometries().front();
  DeviceArray<float> const one{device, std::vector{3.0F}};
  cuda::im2col<float>(device.compute, g, 0, one.data(), one.data());
  cuda::col2im<float>(device.compute, g, 0, one.data(), one.data());
  CHECK(one.host() == std::vector{3.0F});
}

}  // namespace im2col_test

}  // namespace tandem
