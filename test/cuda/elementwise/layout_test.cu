// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/layout.cuh>

#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cuda/image_launch.cuh>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using test::DeviceArray;

TEST_CASE("Divider: the quotient and the remainder of numbers below 2^31") {
  constexpr std::int64_t last = (std::int64_t{1} << 31) - 1;
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= 300; ++d) {
    divisors.push_back(d);
  }
  for (int power = 9; power < 31; ++power) {
    for (std::int64_t const near : {-1, 0, 1}) {
      divisors.push_back((std::int64_t{1} << power) + near);
    }
  }
  divisors.push_back(last);
  std::int64_t wrong = 0;
  for (std::int64_t const d : divisors) {
    cuda::Divider const divider{d};
    auto const check = [&](std::int64_t n) {
      auto rest = static_cast<std::uint32_t>(n);
      std::uint32_t const quotient = divider.split(rest);
      wrong += quotient != n / d || rest != n % d;
    };
    for (std::int64_t n = 0; n < 1000; ++n) {
      check(n);
      check(last - n);
    }
    // Around multiples, where a factor that is a little off shows first.
    for (std::int64_t k = 1; k <= 64; ++k) {
      std::int64_t const multiple = last / d * k / 64 * d;
      check(multiple);
      check(multiple > 0 ? multiple - 1 : 0);
    }
  }
  CHECK(wrong == 0);
}

struct Run {
  std::int64_t first, count;
  friend bool operator==(Run const&, Run const&) = default;
};

std::vector<Run> chunks(std::int64_t batch, std::int64_t items, std::int64_t most) {
  std::vector<Run> runs;
  cuda::for_chunks(
      batch, items,
      [&](std::int64_t first, std::int64_t count) {
        runs.push_back({first, count});
      },
      most);
  return runs;
}

TEST_CASE("for_chunks covers a batch by runs that are not too long") {
  CHECK(chunks(0, 5, 100).empty());
  CHECK(chunks(5, 0, 100).empty());
  CHECK(chunks(5, 20, 100) == std::vector<Run>{{0, 5}});
  CHECK(chunks(6, 20, 100) == std::vector<Run>{{0, 5}, {5, 1}});
  CHECK(chunks(3, 200, 100) == std::vector<Run>{{0, 1}, {1, 1}, {2, 1}});
  CHECK_THROWS_WITH_AS(chunks(1, cuda::most_threads + 1, cuda::most_threads),
                       doctest::Contains("more than 2^30 elements"), ContractError);
}

/// Adds one to every place that it is given, N channels at once.
template <int N>
__global__ void mark_kernel(std::uint32_t count, cuda::ImageThreads threads, Extent2d extent,
                            int channels, std::int32_t* y) {
  std::uint32_t const thread = blockIdx.x * cuda::image_block + threadIdx.x;
  if (thread < count) {
    std::int64_t const at = threads(thread).offset(extent, channels);
    for (int j = 0; j < N; ++j) {
      y[at + j] += static_cast<std::int32_t>(at) + j;
    }
  }
}

TEST_CASE("launch_images gives each place once, in one launch or in several") {
  cuda::RankDevice device{cuda::Device{0}};
  Extent2d const extent{3, 5};
  int const channels = 8;
  int const batch = 7;
  std::vector<std::int32_t> expected;
  for (int i = 0; i < batch * 3 * 5 * 8; ++i) {
    expected.push_back(i);
  }
  auto const check = [&](auto launch) {
    DeviceArray<std::int32_t> const y{device, std::vector<std::int32_t>(expected.size())};
    launch(y.data());
    CHECK(y.host() == expected);
  };
  check([&](std::int32_t* y) {
    cuda::launch_images(mark_kernel<1>, device.compute, batch, {extent, channels, 1}, extent,
                        channels, y);
  });
  check([&](std::int32_t* y) {
    cuda::launch_images<70>(mark_kernel<4>, device.compute, batch, {extent, channels, 4}, extent,
                            channels, y);
  });
}

constexpr std::pair<int, int> sizes[] = {
    {1, 1}, {1, 40}, {40, 1},  {2, 300}, {300, 3}, {8, 8},   {8, 7},
    {7, 9}, {9, 9},  {32, 32}, {33, 31}, {64, 96}, {50, 17}, {16, 1025},
};

template <class T, class U>
void check_layout(cuda::RankDevice& device) {
  for (auto const& [channels, pixels] : sizes) {
    for (int const batch : {0, 1, 3}) {
      for (bool const unaligned : {false, true}) {
        std::int64_t const n = std::int64_t{batch} * channels * pixels;
        auto const x = test::random<T>(n, 1);
        auto const casted = [&] {
          std::vector<U> y;
          for (T const value : x) {
            y.push_back(cuda::store<U>(cuda::load(value)));
          }
          return y;
        }();
        DeviceArray<T> const from{device, x, {.unaligned = unaligned}};
        DeviceArray<U> const last{device, n, {.unaligned = unaligned}};
        DeviceArray<U> const first{device, n};
        cuda::to_channels_last(device.compute, batch, channels, pixels, from.data(), last.data());
        cuda::from_channels_last(device.compute, batch, channels, pixels, from.data(),
                                 first.data());
        CHECK(test::same_bits(last.host(), test::channels_last(casted, batch, channels, pixels)));
        CHECK(test::same_bits(first.host(), test::channels_first(casted, batch, channels, pixels)));
      }
    }
  }
}

TEST_CASE("the two layouts, with a cast on the way") {
  cuda::RankDevice device{cuda::Device{0}};
  check_layout<float, float>(device);
  check_layout<double, double>(device);
  check_layout<float, BFloat16>(device);
  check_layout<BFloat16, float>(device);
  check_layout<BFloat16, BFloat16>(device);
}

}  // namespace
}  // namespace tandem
