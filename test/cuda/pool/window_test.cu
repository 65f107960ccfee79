// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cuda/avg_pool.cuh>
#include <tandem/kernels/cuda/max_pool.cuh>
#include <tandem/kernels/host/avg_pool.hpp>
#include <tandem/kernels/host/max_pool.hpp>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using cuda::ComputeType;
using test::DeviceArray;

struct Case {
  Extent2d image;
  Window window;
};

constexpr Case cases[] = {
    {{1, 1}, {}},
    {{6, 5}, {{2, 2}, {2, 2}, {0, 0}}},
    {{7, 9}, {{3, 3}, {2, 2}, {1, 1}}},  // overlapping
    {{5, 6}, {{3, 2}, {1, 3}, {1, 0}}},  // rectangular; columns under no window
    {{9, 4}, {{2, 1}, {5, 2}, {0, 0}}},  // rows under no window
    {{8, 10}, {{3, 3}, {1, 1}, {1, 1}}},
    {{4, 5}, {{5, 4}, {1, 2}, {2, 2}}},  // windows that reach over the whole image
    {{2, 2}, {{1, 1}, {1, 1}, {1, 1}}},  // windows of padding only
};

// No multiple of a pack, one pack of every type, several.
constexpr int channel_counts[] = {1, 3, 8, 24};

PoolGeometry geometry(Case const& c, int channels) {
  return {channels, c.image, c.window.positions(c.image), c.window};
}

int pixels(Extent2d extent) { return extent.height * extent.width; }

/// Every position of a window against every cell, in the order of a loop over positions.
TEST_CASE("windows_over gives the windows over a cell, each as cells_under sees it") {
  for (Case const& c : cases) {
    PoolGeometry const g = geometry(c, 1);
    int wrong = 0;
    for (int h = 0; h < g.in.height; ++h) {
      for (int w = 0; w < g.in.width; ++w) {
        CellRange const windows = windows_over(g, h, w);
        for (int oh = 0; oh < g.out.height; ++oh) {
          for (int ow = 0; ow < g.out.width; ++ow) {
            CellRange const cells = cells_under(g, oh, ow);
            bool const under = cells.first_row <= h && h < cells.last_row &&
                               cells.first_column <= w && w < cells.last_column;
            bool const over = windows.first_row <= oh && oh < windows.last_row &&
                              windows.first_column <= ow && ow < windows.last_column;
            wrong += under != over;
          }
        }
      }
    }
    CHECK(wrong == 0);
  }
}

/// The numbers, row by row of the image, of the cells that were chosen in each map's windows.
template <class Cell>
std::vector<Cell> in_windows(std::vector<std::int32_t> const& index, PoolGeometry const& g) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < index.size(); ++i) {
    int const place = static_cast<int>(i) % (g.out.height * g.out.width);
    int const cell = index[i];
    cells.push_back(
        cell < 0 ? no_cell<Cell>
                 : static_cast<Cell>(cell_in_window(g, place / g.out.width, place % g.out.width,
                                                    cell / g.in.width, cell % g.in.width)));
  }
  return cells;
}

/// Random numbers with many ties, some NaNs and infinities; whole maps of minus infinity too.
template <class T>
std::vector<T> difficult(std::int64_t n, std::int64_t map) {
  using C = ComputeType<T>;
  auto x = test::random<T>(n, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    T& value = x[static_cast<std::size_t>(i)];
    C const few = static_cast<C>(static_cast<int>(cuda::load(value) * 4));
    C const infinity = std::numeric_limits<C>::infinity();
    value = cuda::store<T>(i % 29 == 11  ? std::numeric_limits<C>::quiet_NaN()
                           : i % 31 == 5 ? infinity
                           : i < map     ? -infinity
                                         : few);
  }
  return x;
}

template <class T, class Cell>
void check_max_pool() {
  cuda::RankDevice device{cuda::Device{0}};
  host::Team team{1};
  int const batch = 3;
  for (Case const& c : cases) {
    for (int const channels : channel_counts) {
      for (bool const unaligned : {false, true}) {
        PoolGeometry const g = geometry(c, channels);
        std::int64_t const in = std::int64_t{batch} * channels * pixels(g.in);
        std::int64_t const out = std::int64_t{batch} * channels * pixels(g.out);
        auto const x = test::in_compute(difficult<T>(in, pixels(g.in)));
        auto const dy = test::random<T>(out, 2);
        std::vector<ComputeType<T>> y(static_cast<std::size_t>(out));
        std::vector<std::int32_t> index(y.size());
        auto dx = x;
        host::max_pool_forward(team, g, batch, x.data(), y.data(), index.data());
        host::max_pool_gradient(team, g, batch, test::in_compute(dy).data(), index.data(),
                                dx.data());

        test::DeviceArrayOptions const start{.unaligned = unaligned};
        auto const stored = test::rounded_to<T>(x);
        DeviceArray<T> const device_x{
            device, test::channels_last(stored, batch, channels, pixels(g.in)), start};
        DeviceArray<T> const device_y{device, out, start};
        DeviceArray<Cell> const chosen{device, out, start};
        DeviceArray<T> const device_dy{
            device, test::channels_last(dy, batch, channels, pixels(g.out)), start};
        DeviceArray<T> const device_dx{device, in, start};
        cuda::max_pool_forward(device.compute, g, batch, device_x.data(), device_y.data(),
                               chosen.data());
        cuda::max_pool_gradient(device.compute, g, batch, device_dy.data(), chosen.data(),
                                device_dx.data());
        auto const last = [&](auto const& values, Extent2d extent) {
          return test::channels_last(values, batch, channels, pixels(extent));
        };
        CHECK(test::same_numbers(device_y.host(), last(test::rounded_to<T>(y), g.out)));
        CHECK(chosen.host() == last(in_windows<Cell>(index, g), g.out));
        CHECK(test::same_bits(device_dx.host(), last(test::rounded_to<T>(dx), g.in)));
      }
    }
  }
}

TEST_CASE_TEMPLATE("max_pool chooses the cells that Host chooses", T, float, double, BFloat16) {
  check_max_pool<T, std::uint8_t>();
  check_max_pool<T, std::int32_t>();
}

/// Pixels with more channels than the op's, of which the op's are a slice.
template <class T>
struct Slice {
  Slice(cuda::RankDevice& device, std::int64_t count, int own, int all, int from)
      : pixels{count / own}, channels{own}, stride{all}, first{from} {
    wide.emplace(device, std::vector<T>(static_cast<std::size_t>(pixels * all),
                                        cuda::store<T>(ComputeType<T>{42})));
  }
  T* data() const { return wide->data() + first; }
  void set(cuda::RankDevice& device, std::vector<T> const& narrow) {
    std::vector<T> values = wide->host();
    for (std::int64_t i = 0; i < pixels * channels; ++i) {
      values[static_cast<std::size_t>(i / channels * stride + first + i % channels)] =
          narrow[static_cast<std::size_t>(i)];
    }
    wide.emplace(device, values);
  }
  /// The slice; and counts the neighbours that are no longer what they were.
  std::vector<T> host(int& changed) const {
    std::vector<T> values = wide->host();
    std::vector<T> narrow;
    for (std::int64_t i = 0; i < pixels * stride; ++i) {
      bool const own = i % stride >= first && i % stride < first + channels;
      T const value = values[static_cast<std::size_t>(i)];
      changed += !own && cuda::load(value) != ComputeType<T>{42};
      if (own) {
        narrow.push_back(value);
      }
    }
    return narrow;
  }

  std::int64_t pixels;
  int channels, stride, first;
  std::optional<DeviceArray<T>> wide;
};

// The same with y in a slice of wider pixels, on and off the 16 bytes.
TEST_CASE_TEMPLATE("pools write into slices of a Concat, and read dy there", T, float, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  int const batch = 2;
  for (Case const& c : cases) {
    for (int const channels : channel_counts) {
      for (int const first : {8, 3}) {
        PoolGeometry const g = geometry(c, channels);
        std::int64_t const in = std::int64_t{batch} * channels * pixels(g.in);
        std::int64_t const out = std::int64_t{batch} * channels * pixels(g.out);
        if (out == 0) {
          continue;
        }
        int const stride = (channels + first + 7) / 8 * 8 + (first == 8 ? 8 : 5);
        DeviceArray<T> const x{device, test::random<T>(in, 1)};
        std::vector<T> const dy = test::random<T>(out, 2);
        DeviceArray<T> const whole_dy{device, dy};
        DeviceArray<T> const y{device, out};
        DeviceArray<T> const dx{device, in};
        DeviceArray<T> const dx_of_slice{device, in};
        DeviceArray<std::uint8_t> const chosen{device, out};
        Slice<T> slice{device, out, channels, stride, first};
        int changed = 0;
        cuda::max_pool_forward(device.compute, g, batch, x.data(), y.data(), chosen.data());
        cuda::max_pool_forward(device.compute, g, batch, x.data(), slice.data(), chosen.data(),
                               stride);
        CHECK(test::same_bits(slice.host(changed), y.host()));
        cuda::avg_pool_forward(device.compute, g, batch, true, x.data(), y.data());
        cuda::avg_pool_forward(device.compute, g, batch, true, x.data(), slice.data(), stride);
        CHECK(test::same_bits(slice.host(changed), y.host()));
        slice.set(device, dy);
        cuda::max_pool_gradient(device.compute, g, batch, whole_dy.data(), chosen.data(),
                                dx.data());
        cuda::max_pool_gradient(device.compute, g, batch, slice.data(), chosen.data(),
                                dx_of_slice.data(), stride);
        CHECK(test::same_bits(dx_of_slice.host(), dx.host()));
        cuda::avg_pool_gradient(device.compute, g, batch, true, whole_dy.data(), dx.data());
        cuda::avg_pool_gradient(device.compute, g, batch, true, slice.data(), dx_of_slice.data(),
                                stride);
        CHECK(test::same_bits(dx_of_slice.host(), dx.host()));
        CHECK(changed == 0);
      }
    }
  }
}

TEST_CASE_TEMPLATE("avg_pool is Host's, with padding counted and not", T, float, double, BFloat16) {
  using C = ComputeType<T>;
  cuda::RankDevice device{cuda::Device{0}};
  host::Team team{1};
  int const batch = 3;
  for (Case const& c : cases) {
    for (int const channels : channel_counts) {
      for (bool const counted : {false, true}) {
        PoolGeometry const g = geometry(c, channels);
        std::int64_t const in = std::int64_t{batch} * channels * pixels(g.in);
        std::int64_t const out = std::int64_t{batch} * channels * pixels(g.out);
        auto const x = test::random<T>(in, 1);
        auto const dy = test::random<T>(out, 2);
        std::vector<C> y(static_cast<std::size_t>(out));
        std::vector<C> dx(static_cast<std::size_t>(in));
        host::avg_pool_forward(team, g, batch, counted, test::in_compute(x).data(), y.data());
        host::avg_pool_gradient(team, g, batch, counted, test::in_compute(dy).data(), dx.data());
        // The same with absolute values, for the bound of the gradient.
        std::vector<double> absolute;
        for (T const value : dy) {
          absolute.push_back(std::abs(static_cast<double>(cuda::load(value))));
        }
        std::vector<double> sums(static_cast<std::size_t>(in));
        host::avg_pool_gradient(team, g, batch, counted, absolute.data(), sums.data());

        test::DeviceArrayOptions const start{.unaligned = counted};
        DeviceArray<T> const device_x{device, test::channels_last(x, batch, channels, pixels(g.in)),
                                      start};
        DeviceArray<T> const device_y{device, out, start};
        DeviceArray<T> const device_dy{device,
                                       test::channels_last(dy, batch, channels, pixels(g.out))};
        DeviceArray<T> const device_dx{device, in};
        cuda::avg_pool_forward(device.compute, g, batch, counted, device_x.data(), device_y.data());
        cuda::avg_pool_gradient(device.compute, g, batch, counted, device_dy.data(),
                                device_dx.data());
        auto const last = [&](auto const& values, Extent2d extent) {
          return test::channels_last(values, batch, channels, pixels(extent));
        };
        // One order of additions and one division on both: the same bits.
        CHECK(test::same_bits(device_y.host(), last(test::rounded_to<T>(y), g.out)));
        // A term is off by at most 3 roundings (reciprocal, product; Host's quotient), a sum of k
        // terms by k roundings on each side; then T rounds once.
        auto const expected = last(std::vector<double>(dx.begin(), dx.end()), g.in);
        auto bound = last(sums, g.in);
        int const most = g.window.kernel.height * g.window.kernel.width;
        for (std::size_t i = 0; i < bound.size(); ++i) {
          bound[i] = bound[i] * (2 * most + 3) * test::half_ulp<C> * 1.01 +
                     (sizeof(T) == 2 ? std::abs(expected[i]) * test::half_ulp<T> * 1.01 : 0);
        }
        CHECK(test::within(device_dx.host(), expected, bound));
      }
    }
  }
}

TEST_CASE("pooling of no sample does nothing") {
  cuda::RankDevice device{cuda::Device{0}};
  PoolGeometry const g = geometry(cases[2], 8);
  float* const none = nullptr;
  std::int32_t* const index = nullptr;
  cuda::max_pool_forward(device.compute, g, 0, none, none, index);
  cuda::max_pool_gradient(device.compute, g, 0, none, index, none);
  cuda::avg_pool_forward(device.compute, g, 0, true, none, none);
  cuda::avg_pool_gradient(device.compute, g, 0, true, none, none);
  device.compute.synchronize();
}

}  // namespace
}  // namespace tandem
