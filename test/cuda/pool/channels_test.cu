// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cuda/concat.cuh>
#include <tandem/kernels/cuda/global_avg_pool.cuh>
#include <tandem/kernels/cuda/subsample.cuh>
#include <tandem/kernels/host/concat.hpp>
#include <tandem/kernels/host/global_avg_pool.hpp>
#include <tandem/kernels/host/subsample.hpp>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using cuda::ComputeType;
using test::DeviceArray;

struct Maps {
  int batch, channels, pixels;
};

// Fewer and more pixels than the 8 interleaved sums, fewer and more packs than a block's 32.
constexpr Maps maps[] = {{0, 8, 9},  {1, 1, 1},   {2, 3, 5},   {3, 8, 49},
                         {2, 16, 8}, {1, 300, 7}, {2, 264, 17}};

TEST_CASE_TEMPLATE("global_avg_pool is Host's within the bound, its gradient exactly", T, float,
                   double, BFloat16) {
  using C = ComputeType<T>;
  cuda::RankDevice device{cuda::Device{0}};
  host::Team team{1};
  for (auto const& [batch, channels, pixels] : maps) {
    for (bool const unaligned : {false, true}) {
      std::int64_t const n = std::int64_t{batch} * channels * pixels;
      std::int64_t const means = std::int64_t{batch} * channels;
      auto const x = test::random<T>(n, 1);
      auto const dy = test::random<T>(means, 2);
      std::vector<C> y(static_cast<std::size_t>(means));
      std::vector<C> dx(static_cast<std::size_t>(n));
      host::global_avg_pool_forward(team, batch, channels, pixels, test::in_compute(x).data(),
                                    y.data());
      host::global_avg_pool_gradient(team, batch, channels, pixels, test::in_compute(dy).data(),
                                     dx.data());
      // Each side adds `pixels` terms and divides; T rounds once. Terms are at most 1.
      std::vector<double> bound;
      for (C const value : y) {
        bound.push_back(2 * (pixels + 1) * test::half_ulp<C> * 1.01 +
                        (sizeof(T) == 2 ? std::abs(value) * test::half_ulp<T> * 1.01 : 0));
      }
      test::DeviceArrayOptions const start{.unaligned = unaligned};
      DeviceArray<T> const device_x{device, test::channels_last(x, batch, channels, pixels), start};
      DeviceArray<T> const device_y{device, means, start};
      DeviceArray<T> const device_dy{device, dy, start};
      DeviceArray<T> const device_dx{device, n, start};
      cuda::global_avg_pool_forward(device.compute, batch, channels, pixels, device_x.data(),
                                    device_y.data());
      cuda::global_avg_pool_gradient(device.compute, batch, channels, pixels, device_dy.data(),
                                     device_dx.data());
      CHECK(test::within(device_y.host(), std::vector<double>(y.begin(), y.end()), bound));
      CHECK(test::same_bits(device_dx.host(),
                            test::channels_last(test::rounded_to<T>(dx), batch, channels, pixels)));
    }
  }
}

TEST_CASE("global_avg_pool adds in the order that it documents, so that small terms survive") {
  cuda::RankDevice device{cuda::Device{0}};
  // 2²⁴ + 1 is no float: one sum in order would lose the ones, 8 interleaved sums lose none.
  int const pixels = 64;
  std::vector<float> x(pixels, 1.0F);
  x[0] = 0x1p24F;
  x[8] = -0x1p24F;
  DeviceArray<float> const device_x{device, x};
  DeviceArray<float> const device_y{device, 1};
  cuda::global_avg_pool_forward(device.compute, 1, 1, pixels, device_x.data(), device_y.data());
  CHECK(device_y.host()[0] == 62.0F / 64.0F);
}

TEST_CASE_TEMPLATE("subsample and its gradient copy what Host copies", T, float, double, BFloat16) {
  using C = ComputeType<T>;
  cuda::RankDevice device{cuda::Device{0}};
  host::Team team{1};
  SubsampleGeometry const geometries[] = {
      {3, 6, {1, 1}, 2},   {3, 8, {5, 4}, 2},   {16, 32, {7, 6}, 2},
      {16, 32, {4, 4}, 1}, {16, 24, {5, 5}, 3},  // first = 4, no multiple of 8
      {8, 8, {6, 9}, 4},   {8, 30, {3, 3}, 2},   // out_channels no multiple of a pack
      {12, 12, {3, 2}, 2},
  };
  for (SubsampleGeometry const& g : geometries) {
    for (int const batch : {0, 1, 3}) {
      for (bool const unaligned : {false, true}) {
        int const in_pixels = g.in.height * g.in.width;
        int const out_pixels = g.out().height * g.out().width;
        std::int64_t const in = std::int64_t{batch} * g.in_channels * in_pixels;
        std::int64_t const out = std::int64_t{batch} * g.out_channels * out_pixels;
        auto const x = test::random<T>(in, 1);
        auto const dy = test::random<T>(out, 2);
        std::vector<C> y(static_cast<std::size_t>(out));
        std::vector<C> dx(static_cast<std::size_t>(in));
        host::subsample_forward(team, g, batch, test::in_compute(x).data(), y.data());
        host::subsample_gradient(team, g, batch, test::in_compute(dy).data(), dx.data());

        test::DeviceArrayOptions const start{.unaligned = unaligned};
        DeviceArray<T> const device_x{
            device, test::channels_last(x, batch, g.in_channels, in_pixels), start};
        DeviceArray<T> const device_y{device, out, start};
        DeviceArray<T> const device_dy{
            device, test::channels_last(dy, batch, g.out_channels, out_pixels), start};
        DeviceArray<T> const device_dx{device, in, start};
        cuda::subsample_forward(device.compute, g, batch, device_x.data(), device_y.data());
        cuda::subsample_gradient(device.compute, g, batch, device_dy.data(), device_dx.data());
        CHECK(test::same_bits(device_y.host(), test::channels_last(test::rounded_to<T>(y), batch,
                                                                   g.out_channels, out_pixels)));
        CHECK(test::same_bits(device_dx.host(), test::channels_last(test::rounded_to<T>(dx), batch,
                                                                    g.in_channels, in_pixels)));
      }
    }
  }
}

/// Host's concatenation of parts that are stored channels-first.
template <class T>
std::vector<T> host_concat(std::vector<std::vector<T>> const& parts,
                           std::vector<int> const& channels, int batch, int pixels) {
  int whole = 0;
  for (int const c : channels) {
    whole += c;
  }
  std::vector<T> y(static_cast<std::size_t>(batch) * static_cast<std::size_t>(whole * pixels));
  host::Team team{1};
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::int64_t const part = std::int64_t{channels[i]} * pixels;
    host::concat_forward(team, batch, part, offset, std::int64_t{whole} * pixels, parts[i].data(),
                         y.data());
    offset += part;
  }
  return test::channels_last(y, batch, whole, pixels);
}

TEST_CASE_TEMPLATE("concat and its gradient copy what Host copies", T, float, double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  std::vector<std::vector<int>> const joins = {
      {1}, {3, 1, 2}, {8, 16}, {64, 128, 32, 32}, {8, 12, 8}, std::vector<int>(64, 2)};
  for (auto const& channels : joins) {
    for (auto const& [batch, pixels] : {std::pair{0, 4}, {1, 1}, {3, 35}}) {
      for (bool const unaligned : {false, true}) {
        test::DeviceArrayOptions const start{.unaligned = unaligned};
        std::vector<std::vector<T>> parts;
        std::vector<DeviceArray<T>> in;
        std::vector<DeviceArray<T>> out;
        cuda::Pointers<T const> inputs;
        cuda::Pointers<T> outputs;
        in.reserve(channels.size());
        out.reserve(channels.size());
        for (std::size_t i = 0; i < channels.size(); ++i) {
          std::int64_t const n = std::int64_t{batch} * channels[i] * pixels;
          parts.push_back(test::random<T>(n, i));
          in.emplace_back(device, test::channels_last(parts[i], batch, channels[i], pixels), start);
          out.emplace_back(device, n, start);
          inputs.at[inputs.count++] = in[i].data();
          // One gradient is not wanted.
          outputs.at[outputs.count++] = i == 1 ? nullptr : out[i].data();
        }
        auto const expected = host_concat(parts, channels, batch, pixels);
        DeviceArray<T> const whole{device, expected.size(), start};
        std::int64_t const all = std::int64_t{batch} * pixels;
        cuda::concat_forward(device.compute, all, inputs, channels.data(), whole.data());
        CHECK(test::same_bits(whole.host(), expected));
        cuda::concat_gradient(device.compute, all, outputs, channels.data(),
                              static_cast<T const*>(whole.data()));
        for (std::size_t i = 0; i < channels.size(); ++i) {
          auto const poison = DeviceArray<T>{device, out[i].size()}.host();
          CHECK(test::same_bits(out[i].host(), i == 1 ? poison : in[i].host()));
        }
      }
    }
  }
  int const no_channels[] = {0};
  cuda::Pointers<float const> const one{.at = {}, .count = 1};
  CHECK_THROWS_WITH_AS(
      cuda::concat_forward(device.compute, 1, one, no_channels, static_cast<float*>(nullptr)),
      doctest::Contains("at least one channel"), ContractError);
}

}  // namespace
}  // namespace tandem
