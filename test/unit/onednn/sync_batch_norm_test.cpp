// SPDX-License-Identifier: Apache-2.0
// With the channels-last kernels, too, a batch norm spread over replicas is that of the whole
// batch, a ReLU fused or not.

#if defined(TANDEM_ONEDNN)

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <tandem/core/precision.hpp>
#include <tandem/ops/onednn/sync_batch_norm.hpp>

#include <replicas_of_op.hpp>
#include <unit/engine/synchronized.hpp>

#include "channels_last.hpp"

namespace tandem {
namespace sync_batch_norm_test {

struct Spread {
  int channels, pixels;
  std::vector<int> shards;
  double middle = 0;

  [[nodiscard]] int batch() const {
    int all = 0;
    for (int const s : shards) {
      all += s;
    }
    return all;
  }
};

template <class Precision>
using OnFast = BasicHost<OneDnn, Precision>;

template <class Precision>
test::NormInput<OnFast<Precision>> input(Spread const& spread) {
  using T = typename Precision::Scalar;
  std::int64_t const n = std::int64_t{spread.batch()} * spread.channels * spread.pixels;
  test::NormInput<OnFast<Precision>> in{spread.channels, spread.pixels, {}, {}, {}};
  for (float const value : test::random<float>(n, 1)) {
    in.x.push_back(static_cast<T>(value + static_cast<float>(spread.middle)));
  }
  for (float const value : test::random<float>(n, 2)) {
    in.dy.push_back(static_cast<T>(value));
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    in.parameter.push_back(test::random<float>(spread.channels, 3 + i));
  }
  return in;
}

/// The largest error, relative to the largest value or to 1.
double worst(std::vector<double> const& a, std::vector<double> const& b) {
  double error = a.size() == b.size() ? 0.0 : INFINITY;
  double largest = 1.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double const off = std::abs(a[i] - b[i]);
    error = !(off <= error) ? off : error;
    largest = std::max(largest, std::abs(b[i]));
  }
  return error / largest;
}

template <class Precision>
void check(Spread const& spread, test::NormOptions const& options) {
  CAPTURE(spread.shards);
  CAPTURE(options.relu);
  CAPTURE(options.accumulate);
  CAPTURE(options.input_gradient);
  auto const in = input<Precision>(spread);
  auto const whole = test::on_whole(in, spread.batch(), options);
  auto const parts = test::on_replicas(in, spread.shards, options);
  bool const is_half = sizeof(typename Precision::Scalar) == 2;
  double const sums = 1e-5 * (1 + std::abs(spread.middle));  // in float, of up to 1000 terms
  double const stored = is_half ? 1.0 / 64 : sums;           // a rounding may go the other way
  CHECK(worst(parts.y, whole.y) <= stored);
  CHECK(worst(parts.dx, whole.dx) <= stored);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(worst(parts.gradient[i], whole.gradient[i]) <= sums);
  }
}

std::vector<Spread> const spreads{{1, 1, {1, 1}},      {17, 5, {2, 2}},    {2, 130, {5, 1, 3}},
                                  {24, 60, {4, 0, 1}}, {40, 9, {0, 6, 2}}, {16, 50, {3, 4}, 4.0}};

TEST_CASE_TEMPLATE("onednn: replicas have the batch norm of the whole batch", Precision, Fp32,
                   Bf16) {
  for (Spread const& spread : spreads) {
    for (bool const relu : {false, true}) {
      for (bool const accumulate : {false, true}) {
        for (bool const input_gradient : {false, true}) {
          check<Precision>(spread, {.relu = relu,
                                    .input_gradient = input_gradient,
                                    .accumulate = accumulate,
                                    .threads = accumulate ? 3 : 1});
        }
      }
    }
  }
}

TEST_CASE("onednn: without replicas SyncBatchNorm2d has BatchNorm2d's bits") {
  auto in = input<Fp32>(spreads[3]);
  test::NormReplica<SyncBatchNorm2d<>, OnFast<Fp32>> one{in, {.relu = true}, 0, 5, 1.0};
  one.op().forward(one.operands(), one.pass());
  one.op().input_gradient(one.operands(), one.pass());
  one.op().weight_gradient(one.operands(), one.pass());
  test::NormResult result;
  one.add_to(result);
  test::NormResult const plain = test::on_whole(in, 5, {.relu = true});
  CHECK(result.y == plain.y);
  CHECK(result.dx == plain.dx);
  CHECK(result.gradient == plain.gradient);
}

TEST_CASE("onednn: replicas have the gradients of one device with the portable kernels") {
  test::Watchdog const watchdog{"synchronized statistics with oneDNN"};
  using Replicas = DataParallel<3, Weighted<2, 0, 1>>;
  Trainer<test::OnOne, SingleDevice<>, test::Double> exact{test::parity_options()};
  Trainer<test::OnAll, Replicas, OnFast<Fp32>> fast{test::parity_options()};
  double const wanted = test::parity_step(exact, 0).loss;
  CHECK(std::abs(test::parity_step(fast, 0).loss - wanted) <= 1e-5 * wanted);
  test::Difference const off =
      test::difference(fast.parameters(), exact.parameters(), test::Part::gradient);
  INFO("gradient of " << off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-4);
}
}  // namespace sync_batch_norm_test
}  // namespace tandem

#endif
