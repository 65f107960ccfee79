// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/element_loss.cuh>
#include <tandem/layers/loss.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace {

using test::DeviceArray;
using test::gpu;

TEST_CASE_TEMPLATE("mean squared error: loss and gradient", T, float, double, BFloat16) {
  using C = cuda::ComputeType<T>;
  for (std::int64_t n : {0, 1, 255, 4096, 4097, 100001}) {
    CAPTURE(n);
    auto const y = test::numbers<T>(n, 1);
    auto const t = test::numbers<float>(n, 2, 1, 0.25);
    double expected = 0;
    std::vector<double> gradient;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const error = test::number(y[i]) - static_cast<double>(t[i]);
      expected += error * error / 3;
      gradient.push_back(2 * error / 16);
    }
    DeviceArray<T> const in{gpu(), y};
    DeviceArray<float> const targets{gpu(), t};
    DeviceArray<double> const loss{gpu(), 1};
    DeviceArray<std::byte> const scratch{gpu(), cuda::element_loss_scratch_bytes(n)};
    cuda::element_loss_forward<MeanSquaredError>(gpu().compute, in.data(), targets.data(), {}, n,
                                                 3.0, loss.data(), scratch.data());
    // At most n additions in double on either side, of terms that are not negative.
    double const bound = static_cast<double>(2 * n + 8) * 0x1p-53 * expected;
    CHECK(std::abs(loss.host()[0] - expected) <= bound);
    static_cast<void>(scratch.host());

    DeviceArray<T> const place{gpu(), y, {.unaligned = true}};
    DeviceArray<T> const out{gpu(), n};
    cuda::element_loss_gradient<MeanSquaredError>(gpu().compute, in.data(), targets.data(), {}, n,
                                                  1.0 / 16, out.data());
    cuda::element_loss_gradient<MeanSquaredError>(gpu().compute, place.data(), targets.data(), {},
                                                  n, 1.0 / 16, place.data());
    CHECK(test::same_bits(out.host(), place.host()));
    test::check_within(out.host(), gradient, [&](std::size_t i) {
      return (2 * test::unit<C> + test::stored_unit<T>)*std::abs(gradient[i]) + 0x1p-149;
    });
  }
}

TEST_CASE("mean squared error: a NaN shows") {
  DeviceArray<float> const y{gpu(), std::vector<float>{1, NAN, 3}};
  DeviceArray<float> const t{gpu(), std::vector<float>{1, 2, 3}};
  DeviceArray<double> const loss{gpu(), 1};
  cuda::element_loss_forward<MeanSquaredError>(gpu().compute, y.data(), t.data(), {}, 3, 1.0,
                                               loss.data(), nullptr);
  CHECK(std::isnan(loss.host()[0]));
}

}  // namespace
}  // namespace tandem
