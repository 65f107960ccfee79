// SPDX-License-Identifier: Apache-2.0
// A program's own loss and metric of whole samples against those of Host in double.
#include <tandem/ops/cuda/own_loss.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/ops/host/user_layer.hpp>

#include <own_parts.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace own_loss_test {
namespace {

using test::DeviceArray;
using test::gpu;
using test::PlaceOfWorst;
using test::RampLoss;

using OnHost = BasicHost<Portable, Fp64>;

/// (B, C, pixels) as (B, pixels, C), or back.
template <class T>
std::vector<T> exchanged(std::vector<T> const& x, std::ptrdiff_t rows, std::ptrdiff_t columns) {
  std::vector<T> y;
  for (auto at = x.begin(); at != x.end(); at += rows * columns) {
    auto const one = test::transposed(std::vector<T>(at, at + rows * columns), rows, columns);
    y.insert(y.end(), one.begin(), one.end());
  }
  return y;
}

template <class Precision>
void check(Shape shape, int batch) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using OnCuda = BasicCuda<Portable, Precision>;
  constexpr int largest = 70;
  std::int64_t const n = batch * shape.elements();
  std::ptrdiff_t const channels = shape.rank == 3 ? shape[0] : 1;
  std::ptrdiff_t const pixels = shape.elements() / channels;
  auto const x = test::numbers<T>(n, 1);
  auto const t = test::numbers<float>(n, 2);
  host::Device device{1};
  Pass<host::Device> const on_host{.device = device, .batch = batch};
  auto const wide = test::in_double(x);
  double expected[2] = {};
  std::vector<double> expected_dy(x.size());
  LossOp<RampLoss, OnHost> const reference{shape, largest};
  reference.forward(on_host, wide.data(), t.data(), &expected[0]);
  reference.gradient(on_host, wide.data(), t.data(), 0.125, expected_dy.data());
  MetricOp<PlaceOfWorst, RampLoss, OnHost>{shape}.count(on_host, wide.data(), t.data(),
                                                        &expected[1]);

  LossOp<RampLoss, OnCuda> const loss{shape, largest};
  MetricOp<PlaceOfWorst, RampLoss, OnCuda> const metric{shape};
  DeviceArray<T> const y{gpu(), exchanged(x, channels, pixels)};
  DeviceArray<float> const targets{gpu(), t};
  DeviceArray<T> const dy{gpu(), n};
  DeviceArray<double> const sums{gpu(), 2};
  Pass<cuda::RankDevice> const pass{.device = gpu(), .batch = batch};
  auto const with_scratch = [&](std::int64_t bytes, auto const& f) {
    DeviceArray<std::byte> const scratch{gpu(), bytes};
    gpu().scratch = scratch.data();
    gpu().scratch_bytes = bytes;
    f();
    static_cast<void>(scratch.host());
  };
  with_scratch(loss.scratch_bytes(), [&] {
    loss.forward(pass, y.data(), targets.data(), sums.data());
    loss.gradient(pass, y.data(), targets.data(), 0.125, dy.data());
  });
  with_scratch(metric.scratch_bytes(batch),
               [&] { metric.count(pass, y.data(), targets.data(), sums.data() + 1); });
  auto const got = sums.host();
  CHECK(std::abs(got[0] - expected[0]) <= static_cast<double>(2 * n + 8) * 0x1p-53 * expected[0]);
  CHECK(got[1] == expected[1]);
  auto const got_dy = exchanged(dy.host(), pixels, channels);
  test::check_within(got_dy, expected_dy, [&](std::size_t i) {
    double const size = static_cast<double>(shape.elements()) / 4;  // of 0.125 (i + 1) times 2
    return 4 * test::unit<P> * size + test::stored_unit<T> * std::abs(expected_dy[i]);
  });
}

TEST_CASE_TEMPLATE("a program's own loss and metric of samples are Host's", Precision, Fp64, Fp32,
                   Bf16) {
  for (Shape const& shape : {vector_shape(7), image_shape(3, 4, 5), image_shape(1, 2, 3),
                             image_shape(5, 1, 1), vector_shape(1)}) {
    for (int const batch : {1, 2, 70}) {
      CAPTURE(shape[0]);
      CAPTURE(batch);
      check<Precision>(shape, batch);
    }
  }
}

}  // namespace
}  // namespace own_loss_test
}  // namespace tandem
