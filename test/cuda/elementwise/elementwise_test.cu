// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/elementwise.cuh>

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/cast_many.cuh>
#include <tandem/kernels/cuda/relu.cuh>
#include <tandem/kernels/host/activation.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/runtime/cuda/cast_queue.hpp>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using cuda::ComputeType;
using test::DeviceArray;

// None, one, less and more than a pack of 2, 4 or 8, around a block's share (512 packs), many
// blocks.
constexpr std::int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 511, 512, 513, 2047, 4099, 24571};

/// From here on CUB's transform is used, and one more, where it is not.
template <class T>
constexpr std::int64_t bulk = cuda::detail::bulk_bytes / static_cast<std::int64_t>(sizeof(T));

constexpr test::DeviceArrayOptions starts[] = {{.unaligned = false}, {.unaligned = true}};

template <class T>
struct CountInto {
  T* y;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = static_cast<T>(static_cast<float>(i % 128) + static_cast<float>(y[i]));
  }
};

TEST_CASE_TEMPLATE("fill and copy write each element, and no other", T, float, double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  for (std::int64_t const n : lengths) {
    for (auto const start : starts) {
      for (float const value : {0.0F, -0.0F, 3.0F}) {
        DeviceArray<T> const y{device, n, start};
        cuda::fill(device.compute, y.data(), n, static_cast<T>(value));
        std::vector<T> const expected(static_cast<std::size_t>(n), static_cast<T>(value));
        CHECK(test::same_bits(y.host(), expected));
      }
      auto const x = test::random<T>(n, 1);
      DeviceArray<T> const from{device, x, start};
      DeviceArray<T> const to{device, n};
      cuda::copy(device.compute, from.data(), to.data(), n);
      cuda::copy(device.compute, to.data(), to.data(), n);
      CHECK(test::same_bits(to.host(), x));
    }
  }
}

TEST_CASE_TEMPLATE("each calls its functor once for every i", T, float, double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  for (std::int64_t const n : lengths) {
    DeviceArray<T> const y{device, std::vector<T>(static_cast<std::size_t>(n))};
    cuda::each(device.compute, n, CountInto<T>{y.data()});
    std::int64_t wrong = 0;
    std::int64_t i = 0;
    for (T const value : y.host()) {
      wrong += static_cast<float>(value) != static_cast<float>(i++ % 128);
    }
    CHECK(wrong == 0);
  }
}

// Rounded to T behind each addition.
template <class T>
std::vector<T> added_one_by_one(std::vector<std::vector<ComputeType<T>>> const& values,
                                std::int64_t n) {
  std::vector<ComputeType<T>> sum(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < values.size(); ++k) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = k == 0 ? values[k][i]
                      : static_cast<ComputeType<T>>(static_cast<T>(sum[i] + values[k][i]));
    }
  }
  return test::rounded_to<T>(sum);
}

TEST_CASE_TEMPLATE("sum adds its inputs in order, also in place, with Host's bits", T, float,
                   double, BFloat16) {
  using C = ComputeType<T>;
  cuda::RankDevice device{cuda::Device{0}};
  host::Team team{1};
  for (std::int64_t const n : lengths) {
    for (auto const start : starts) {
      for (int const k : {0, 1, 2, 3, 5, 64}) {
        if (k == 64 && n > 600) {
          continue;
        }
        std::vector<DeviceArray<T>> in;
        std::vector<std::vector<C>> values;
        std::vector<T const*> pointers;
        std::vector<C const*> host_pointers;
        in.reserve(64);
        values.reserve(64);
        for (int j = 0; j < k; ++j) {
          auto const x = test::random<T>(n, static_cast<std::uint64_t>(j));
          pointers.push_back(in.emplace_back(device, x, start).data());
          host_pointers.push_back(values.emplace_back(test::in_compute(x)).data());
        }
        std::vector<C> expected(static_cast<std::size_t>(n));
        host::sum(team, host_pointers.data(), k, expected.data(), n);
        DeviceArray<T> const out{device, n, start};
        cuda::sum(device.compute, pointers.data(), k, out.data(), n);
        CHECK(test::same_bits(out.host(), test::rounded_to<T>(expected)));
        cuda::sum(device.compute, pointers.data(), k, out.data(), n, Rounding::each);
        CHECK(test::same_bits(out.host(), added_one_by_one<T>(values, n)));
        if (k > 0) {
          DeviceArray<T> const& place = in[static_cast<std::size_t>(k / 2)];
          cuda::sum(device.compute, pointers.data(), k, place.data(), n);
          CHECK(test::same_bits(place.host(), test::rounded_to<T>(expected)));
        }
      }
    }
  }
  T const* const none[1] = {};
  CHECK_THROWS_WITH_AS(cuda::sum(device.compute, none, 65, static_cast<T*>(nullptr), 0),
                       doctest::Contains("at most 64 arrays"), ContractError);
}

template <class T>
void check_add_and_relu(cuda::RankDevice& device, std::int64_t n, test::DeviceArrayOptions start) {
  using C = ComputeType<T>;
  host::Team team{1};
  auto const a = test::random<T>(n, 1);
  auto b = test::random<T>(n, 2);
  if (n > 4) {
    b[0] = static_cast<T>(std::numeric_limits<C>::quiet_NaN());
    b[1] = static_cast<T>(C{0});
    b[2] = static_cast<T>(-C{0});
    b[3] = static_cast<T>(-std::numeric_limits<C>::infinity());
  }
  auto const x = test::in_compute(a);
  auto const y = test::in_compute(b);
  std::vector<C> expected(x.size());

  DeviceArray<T> const from{device, a, start};
  DeviceArray<T> const to{device, b, start};
  C const* const both[] = {x.data(), y.data()};
  host::sum(team, both, 2, expected.data(), n);
  cuda::add(device.compute, from.data(), to.data(), n);
  CHECK(test::same_numbers(to.host(), test::rounded_to<T>(expected)));

  DeviceArray<T> const place{device, b, start};
  DeviceArray<T> const other{device, n, start};
  host::relu_forward(team, y.data(), expected.data(), n);
  cuda::relu_forward(device.compute, place.data(), other.data(), n);
  CHECK(test::same_numbers(other.host(), test::rounded_to<T>(expected)));
  cuda::relu_forward(device.compute, place.data(), place.data(), n);
  CHECK(test::same_numbers(place.host(), test::rounded_to<T>(expected)));

  DeviceArray<T> const gradient{device, n, start};
  auto const outputs = expected;
  host::relu_gradient(team, outputs.data(), x.data(), expected.data(), n);
  cuda::relu_gradient(device.compute, place.data(), from.data(), gradient.data(), n);
  CHECK(test::same_numbers(gradient.host(), test::rounded_to<T>(expected)));
  cuda::relu_gradient(device.compute, place.data(), from.data(), from.data(), n);
  CHECK(test::same_numbers(from.host(), test::rounded_to<T>(expected)));
}

TEST_CASE_TEMPLATE("add and ReLU have Host's bits, in place too", T, float, double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  for (std::int64_t const n : lengths) {
    for (auto const start : starts) {
      check_add_and_relu<T>(device, n, start);
    }
  }
  for (std::int64_t const n : {bulk<T>, bulk<T> + 1}) {
    check_add_and_relu<T>(device, n, {});
  }
}

template <class T, class U>
void check_cast(cuda::RankDevice& device, std::int64_t n, test::DeviceArrayOptions start) {
  auto const x = test::random<T>(n, 1);
  auto const old = test::random<U>(n, 2);
  std::vector<U> casted;
  std::vector<U> added;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const value = cuda::load(x[i]);
    casted.push_back(static_cast<U>(value));
    added.push_back(static_cast<U>(cuda::load(old[i]) + value));
  }
  DeviceArray<T> const from{device, x, start};
  DeviceArray<U> const to{device, n, start};
  DeviceArray<U> const sum{device, old};
  cuda::cast(device.compute, from.data(), to.data(), n);
  cuda::cast_add(device.compute, from.data(), sum.data(), n);
  CHECK(test::same_bits(to.host(), casted));
  CHECK(test::same_bits(sum.host(), added));
}

TEST_CASE("cast rounds once, cast_add adds and rounds once") {
  cuda::RankDevice device{cuda::Device{0}};
  for (std::int64_t const n : lengths) {
    for (auto const start : starts) {
      check_cast<float, BFloat16>(device, n, start);
      check_cast<float, Float16>(device, n, start);
      check_cast<Float16, float>(device, n, start);
      check_cast<BFloat16, float>(device, n, start);
      check_cast<float, Float16>(device, n, start);
      check_cast<Float16, float>(device, n, start);
      check_cast<float, float>(device, n, start);
      check_cast<double, double>(device, n, start);
      check_cast<double, BFloat16>(device, n, start);
      check_cast<BFloat16, double>(device, n, start);
      check_cast<BFloat16, BFloat16>(device, n, start);
    }
  }
  check_cast<float, BFloat16>(device, bulk<BFloat16>, {});
  check_cast<BFloat16, float>(device, bulk<float>, {});
}

TEST_CASE_TEMPLATE("cast_many gives the bits of cast and cast_add, in one launch", T, float,
                   BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  for (bool const adds : {false, true}) {
    std::vector<DeviceArray<T>> from;
    std::vector<DeviceArray<float>> one;
    std::vector<DeviceArray<float>> many;
    std::vector<cuda::CastQueue::Entry> entries;
    for (std::int64_t const n : lengths) {
      for (auto const start : starts) {
        auto const x = test::random<T>(n, static_cast<std::uint64_t>(n));
        auto const old = test::random<float>(n, 2);
        from.emplace_back(device, x, start);
        one.emplace_back(device, old);
        many.emplace_back(device, old);
        entries.push_back({from.back().data(), many.back().data(), n});
        if (adds) {
          cuda::cast_add(device.compute, from.back().data(), one.back().data(), n);
        } else {
          cuda::cast(device.compute, from.back().data(), one.back().data(), n);
        }
      }
    }
    auto const count = static_cast<int>(entries.size());
    cuda::cast_many<T, float>(device.compute, entries.data(), count, adds);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CAPTURE(i);
      CHECK(test::same_bits(many[i].host(), one[i].host()));
    }
  }
  cuda::cast_many<T, float>(device.compute, nullptr, 0, false);
}

}  // namespace
}  // namespace tandem
