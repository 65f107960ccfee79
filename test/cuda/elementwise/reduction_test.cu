// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#if !defined(TANDEM_CUDA_EMULATED)
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/transform_reduce.h>
#endif

#include <doctest/doctest.h>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cuda/sum_of_squares.cuh>
#include <tandem/kernels/cuda/tree_sum.cuh>
#include <tandem/kernels/host/elementwise.hpp>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using cuda::ComputeType;
using test::DeviceArray;

template <class T>
double norm(cuda::RankDevice& device, DeviceArray<T> const& x, std::int64_t n) {
  DeviceArray<double> const result{device, 1};
  DeviceArray<std::byte> const scratch{device,
                                       cuda::sum_of_squares_scratch_bytes<T>(device.compute, n)};
  cuda::sum_of_squares(device.compute, x.data(), n, result.data(), scratch.data());
  static_cast<void>(scratch.host());  // throws if it was too small
  return result.host()[0];
}

struct SquareOf {
  template <class T>
  TANDEM_HOST_DEVICE double operator()(T x) const {
    auto const value = static_cast<double>(cuda::load(x));
    return value * value;
  }
};

TEST_CASE_TEMPLATE("sum_of_squares is Host's within the bound, and always the same", T, float,
                   double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  host::Team team{1};
  // Fewer and more than one block's 256 threads, several blocks, 4 turns of a thread and a rest.
  for (std::int64_t const n : {0, 1, 255, 257, 4096, 4097, 50021}) {
    auto const x = test::random<T>(n, 1);
    auto const exact = test::in_compute(x);
    double const expected = host::sum_of_squares(team, exact.data(), n);
    DeviceArray<T> const on_device{device, x};
    DeviceArray<T> const unaligned{device, x, {.unaligned = true}};
    double const result = norm(device, on_device, n);
    // n products and n additions of terms of one sign, in double, on either side.
    double const bound = 2 * static_cast<double>(n + 1) * test::half_ulp<double> * 2 * expected;
    CHECK(std::abs(result - expected) <= bound);
    CHECK(norm(device, on_device, n) == result);
    CHECK(norm(device, unaligned, n) == result);
#if !defined(TANDEM_CUDA_EMULATED)
    double const thrust =
        thrust::transform_reduce(thrust::cuda::par.on(device.compute.get()), on_device.data(),
                                 on_device.data() + n, SquareOf{}, 0.0, thrust::plus<double>{});
    CHECK(std::abs(result - thrust) <= bound);
#endif
  }
}

TEST_CASE("sum_of_squares of many blocks is exact where every order is") {
  cuda::RankDevice device{cuda::Device{0}};
  // Powers of two add without rounding, so every order gives the same.
  std::int64_t const n = 300001;
  std::vector<float> x(static_cast<std::size_t>(n));
  double expected = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(1 << (i % 5));
    expected += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  DeviceArray<float> const on_device{device, x};
  CHECK(norm(device, on_device, n) == expected);
}

/// reduce_in_tree in ComputeType, rounded.
template <class T, class Op>
std::vector<T> host_tree(std::vector<std::vector<T>> const& inputs, std::int64_t begin,
                         std::int64_t end, Op op) {
  using C = ComputeType<T>;
  std::vector<std::vector<C>> exact;
  std::vector<C const*> pointers;
  for (auto const& input : inputs) {
    exact.push_back(test::in_compute(input));
  }
  for (auto const& input : exact) {
    pointers.push_back(input.data());
  }
  std::vector<C> result(exact[0].size());
  C* const output[] = {result.data()};
  reduce_in_tree(std::span<C const* const>{pointers}, static_cast<std::size_t>(begin),
                 static_cast<std::size_t>(end), std::span<C* const>{output}, op);
  return test::rounded_to<T>(result);
}

/// Elements outside [begin, end) keep what they were.
template <class T>
std::vector<T> spliced(std::vector<T> old, std::vector<T> const& result, std::int64_t begin,
                       std::int64_t end) {
  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
    old[i] = result[i];
  }
  return old;
}

template <class T, class Op>
void check_tree(cuda::RankDevice& device, int ranks, std::int64_t n, std::int64_t begin,
                std::int64_t end, Op op, test::DeviceArrayOptions start) {
  std::vector<std::vector<T>> values;
  std::vector<DeviceArray<T>> in;
  in.reserve(static_cast<std::size_t>(ranks));
  cuda::Pointers<T const> inputs;
  for (int r = 0; r < ranks; ++r) {
    values.push_back(test::random<T>(n, static_cast<std::uint64_t>(r)));
    if (r == ranks / 2 && end > begin) {
      values.back()[static_cast<std::size_t>(begin)] =
          static_cast<T>(std::numeric_limits<ComputeType<T>>::quiet_NaN());
    }
    inputs.at[inputs.count++] = in.emplace_back(device, values.back(), start).data();
  }
  auto const result = host_tree(values, begin, end, op);
  auto const poison = DeviceArray<T>{device, n}.host();
  // To another array, then into all the inputs.
  DeviceArray<T> const out{device, n, start};
  cuda::Pointers<T> outputs;
  outputs.at[outputs.count++] = out.data();
  cuda::tree_sum(device.compute, inputs, begin, end, outputs, op);
  CHECK(test::same_numbers(out.host(), spliced(poison, result, begin, end)));
  cuda::Pointers<T> places;
  for (DeviceArray<T> const& place : in) {
    places.at[places.count++] = place.data();
  }
  cuda::tree_sum(device.compute, inputs, begin, end, places, op);
  bool same = true;
  for (std::size_t r = 0; r < in.size(); ++r) {
    same = same && test::same_numbers(in[r].host(), spliced(values[r], result, begin, end));
  }
  CHECK(same);
}

TEST_CASE_TEMPLATE("tree_sum has the order and the bits of reduce_in_tree", T, float, double,
                   BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  for (int const ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 33, 63, 64}) {
    check_tree<T>(device, ranks, 1031, 0, 1031, Sum{}, {});
    check_tree<T>(device, ranks, 67, 16, 51, Sum{}, {});
    check_tree<T>(device, ranks, 67, 3, 51, Sum{}, {});
    check_tree<T>(device, ranks, 67, 0, 67, Sum{}, {.unaligned = true});
    check_tree<T>(device, ranks, 67, 16, 67, Max{}, {});
    check_tree<T>(device, ranks, 5, 2, 2, Sum{}, {});
  }
  CHECK_THROWS_WITH_AS(
      cuda::tree_sum(device.compute, cuda::Pointers<T const>{}, 0, 1, cuda::Pointers<T>{}, Sum{}),
      doctest::Contains("at least one array"), ContractError);
}

#if !defined(TANDEM_CUDA_EMULATED)
TEST_CASE("tree_sum of two against Thrust, which rounds alike") {
  cuda::RankDevice device{cuda::Device{0}};
  std::int64_t const n = 100003;
  DeviceArray<float> const a{device, test::random<float>(n, 1)};
  DeviceArray<float> const b{device, test::random<float>(n, 2)};
  DeviceArray<float> const tree{device, n};
  DeviceArray<float> const thrust_sum{device, n};
  cuda::Pointers<float const> in{{a.data(), b.data()}, 2};
  cuda::Pointers<float> out{{tree.data()}, 1};
  cuda::tree_sum(device.compute, in, 0, n, out, Sum{});
  thrust::transform(thrust::cuda::par.on(device.compute.get()), a.data(), a.data() + n, b.data(),
                    thrust_sum.data(), thrust::plus<float>{});
  CHECK(test::same_bits(tree.host(), thrust_sum.host()));
}
#endif

}  // namespace
}  // namespace tandem
