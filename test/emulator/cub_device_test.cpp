// SPDX-License-Identifier: Apache-2.0
// The stand-ins of CUB's device-wide algorithms against plain loops, and their misuse.

#include <cub/device/device_for.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_select.cuh>
#include <cub/device/device_transform.cuh>
#include <functional>
#include <numeric>

#include "test_support.hpp"

namespace {

using namespace emulator_test;

struct Add {
  TANDEM_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Twice {
  TANDEM_HOST_DEVICE float operator()(float a) const { return 2.0F * a; }
};

std::vector<float> numbers(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(i * 7919 % 101) - 50.0F;
  }
  return values;
}

TEST_CASE("DeviceTransform maps one or two arrays") {
  auto const values = numbers(1000);
  Stream const stream{Device{0}};
  Array<float> x{values};
  Array<float> y{1000};
  CHECK(cub::DeviceTransform::Transform(cuda::std::make_tuple(x.data(), x.data()), y.data(), 1000,
                                        Add{}, stream.get()) == cudaSuccess);
  CHECK(cub::DeviceTransform::Transform(y.data(), y.data(), 999, Twice{}, stream.get()) ==
        cudaSuccess);
  CHECK(cub::DeviceTransform::Transform(y.data(), y.data(), 0, Twice{}, stream.get()) ==
        cudaSuccess);
  cudaStreamSynchronize(stream.get());
  auto const host = y.host();
  for (std::size_t i = 0; i < 1000; ++i) {
    CHECK(host[i] == (i < 999 ? 4.0F : 2.0F) * values[i]);
  }
}

struct Store {
  float* y;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<float>(i); }
};
struct Increment {
  TANDEM_HOST_DEVICE void operator()(float& x) const { x += 1.0F; }
};

TEST_CASE("DeviceFor visits every index and every element once") {
  Stream const stream{Device{0}};
  Array<float> y{100};
  CHECK(cub::DeviceFor::Bulk(std::int64_t{100}, Store{y.data()}, stream.get()) == cudaSuccess);
  CHECK(cub::DeviceFor::ForEachN(y.data(), 100, Increment{}, stream.get()) == cudaSuccess);
  cudaStreamSynchronize(stream.get());
  auto const host = y.host();
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(host[i] == static_cast<float>(i + 1));
  }
}

TEST_CASE("DeviceReduce sums and finds extrema, in two phases") {
  auto const values = numbers(5000);
  Stream const stream{Device{0}};
  Array<float> x{values};
  Array<float> y{5};
  Array<std::int64_t> where{1};
  std::size_t bytes = 0;
  REQUIRE(cub::DeviceReduce::Sum(nullptr, bytes, x.data(), y.data(), 5000, stream.get()) ==
          cudaSuccess);
  REQUIRE(bytes > 0);
  Array<std::byte> scratch{bytes};
  void* const s = scratch.data();
  float* const out = y.data();
  CHECK(cub::DeviceReduce::Sum(s, bytes, x.data(), out, 5000, stream.get()) == cudaSuccess);
  CHECK(cub::DeviceReduce::Max(s, bytes, x.data(), out + 1, 5000, stream.get()) == cudaSuccess);
  CHECK(cub::DeviceReduce::Min(s, bytes, x.data(), out + 2, 5000, stream.get()) == cudaSuccess);
  CHECK(cub::DeviceReduce::TransformReduce(s, bytes, x.data(), out + 3, 5000, Add{}, Twice{}, 1.0F,
                                           stream.get()) == cudaSuccess);
  CHECK(cub::DeviceReduce::ArgMax(s, bytes, x.data(), out + 4, where.data(), 5000, stream.get()) ==
        cudaSuccess);
  cudaStreamSynchronize(stream.get());
  auto const host = y.host();
  float const sum = std::accumulate(values.begin(), values.end(), 0.0F);
  auto const largest = std::max_element(values.begin(), values.end());
  CHECK(host[0] == sum);
  CHECK(host[1] == *largest);
  CHECK(host[2] == *std::min_element(values.begin(), values.end()));
  CHECK(host[3] == 2.0F * sum + 1.0F);
  CHECK(host[4] == *largest);
  CHECK(where.host()[0] == largest - values.begin());
}

TEST_CASE("DeviceSelect keeps the first of equal neighbours, and its value") {
  Stream const stream{Device{0}};
  Array<std::uint32_t> keys{std::vector<std::uint32_t>{3, 3, 5, 3, 7, 7, 7}};
  Array<int> values{std::vector<int>{0, 1, 2, 3, 4, 5, 6}};
  Array<std::uint32_t> kept{std::vector<std::uint32_t>(7, 9)};
  Array<int> first{std::vector<int>(7, 9)};
  Array<int> count{1};
  auto const select = [&](void* scratch, std::size_t& bytes, int n) {
    return cub::DeviceSelect::UniqueByKey(scratch, bytes, keys.data(), values.data(), kept.data(),
                                          first.data(), count.data(), n, stream.get());
  };
  std::size_t bytes = 0;
  REQUIRE(select(nullptr, bytes, 7) == cudaSuccess);
  Array<std::byte> scratch{bytes};
  CHECK(select(scratch.data(), bytes, 7) == cudaSuccess);
  cudaStreamSynchronize(stream.get());
  CHECK(count.host() == std::vector<int>{4});
  CHECK(kept.host() == std::vector<std::uint32_t>{3, 5, 3, 7, 9, 9, 9});
  CHECK(first.host() == std::vector<int>{0, 2, 3, 4, 9, 9, 9});
  std::size_t none = 0;
  CHECK(select(scratch.data(), none, 7) == cudaErrorInvalidValue);
  CHECK(select(scratch.data(), bytes, 8) == cudaErrorIllegalAddress);
}

TEST_CASE("DeviceRadixSort sorts pairs by some bits of their keys, equal ones in their order") {
  std::vector<std::uint32_t> keys;
  std::vector<int> places;
  for (std::uint32_t i = 0; i < 300; ++i) {
    keys.push_back(i * 7919 % 101);
    places.push_back(static_cast<int>(i));
  }
  Stream const stream{Device{0}};
  Array<std::uint32_t> in{keys};
  Array<int> values{places};
  Array<std::uint32_t> sorted{300};
  Array<int> order{300};
  for (int const bits : {7, 3, 32}) {
    std::size_t bytes = 0;
    REQUIRE(cub::DeviceRadixSort::SortPairs(nullptr, bytes, in.data(), sorted.data(), values.data(),
                                            order.data(), 300, 0, bits,
                                            stream.get()) == cudaSuccess);
    Array<std::byte> scratch{bytes};
    CHECK(cub::DeviceRadixSort::SortPairs(scratch.data(), bytes, in.data(), sorted.data(),
                                          values.data(), order.data(), 300, 0, bits,
                                          stream.get()) == cudaSuccess);
    cudaStreamSynchronize(stream.get());
    auto expected = places;
    std::uint32_t const mask = bits == 32 ? ~0U : (1U << bits) - 1;
    std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) {
      return (keys[static_cast<std::size_t>(a)] & mask) <
             (keys[static_cast<std::size_t>(b)] & mask);
    });
    auto const at = order.host();
    auto const key = sorted.host();
    for (std::size_t i = 0; i < 300; ++i) {
      CHECK(at[i] == expected[i]);
      CHECK(key[i] == keys[static_cast<std::size_t>(expected[i])]);
    }
    CHECK(cub::DeviceRadixSort::SortPairs(scratch.data(), bytes, in.data(), sorted.data(),
                                          values.data(), order.data(), 300, 8, 4,
                                          stream.get()) == cudaErrorInvalidValue);
  }
}

TEST_CASE("DeviceSegmentedReduce sums each segment, also empty ones") {
  auto const values = numbers(100);
  std::vector<int> const offsets{0, 10, 10, 64, 100};
  Stream const stream{Device{0}};
  Array<float> x{values};
  Array<int> o{offsets};
  Array<float> y{4};
  std::size_t bytes = 0;
  cub::DeviceSegmentedReduce::Sum(nullptr, bytes, x.data(), y.data(), 4, o.data(), o.data() + 1,
                                  stream.get());
  Array<std::byte> scratch{bytes};
  CHECK(cub::DeviceSegmentedReduce::Sum(scratch.data(), bytes, x.data(), y.data(), 4, o.data(),
                                        o.data() + 1, stream.get()) == cudaSuccess);
  cudaStreamSynchronize(stream.get());
  auto const host = y.host();
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(host[s] ==
          std::accumulate(values.begin() + offsets[s], values.begin() + offsets[s + 1], 0.0F));
  }
}

TEST_CASE("ranges that the device cannot use, and scratch that is too small, are refused") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Array<float> x{100};
  std::vector<float> host(100);
  float* const on_host = host.data();
  CHECK(cub::DeviceTransform::Transform(on_host, x.data(), 100, Twice{}, stream.get()) ==
        cudaErrorIllegalAddress);
  CHECK(misuse.says("not wholly in memory"));
  CHECK(cub::DeviceTransform::Transform(x.data(), x.data(), 101, Twice{}, stream.get()) ==
        cudaErrorIllegalAddress);
  std::size_t bytes = 0;
  cub::DeviceReduce::Sum(nullptr, bytes, x.data(), x.data(), 100, stream.get());
  std::size_t less = bytes - 1;
  CHECK(cub::DeviceReduce::Sum(x.data(), less, x.data(), x.data(), 100, stream.get()) ==
        cudaErrorInvalidValue);
  CHECK(cub::DeviceReduce::Sum(host.data(), bytes, x.data(), x.data(), 100, stream.get()) ==
        cudaErrorIllegalAddress);
  Array<float> other{100};
  cudaSetDevice(1);  // the stream is device 0's
  CHECK(cub::DeviceFor::Bulk(100, Store{x.data()}, stream.get()) == cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
}

}  // namespace
