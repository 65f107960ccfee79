// SPDX-License-Identifier: Apache-2.0
// A batch norm spread over replicas is that of the whole batch.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <tandem/ops/check_layer.hpp>
#include <tandem/ops/host/all.hpp>

#include <replicas_of_op.hpp>
#include <unit/kernels/support.hpp>

namespace tandem {
namespace sync_batch_norm_test {

template <class T>
using Portable = BasicHost<tandem::Portable, std::conditional_t<sizeof(T) == 8, Fp64, Fp32>>;

template <class T>
test::NormInput<Portable<T>> input(int channels, int pixels, int batch, double middle = 0) {
  std::int64_t const n = std::int64_t{batch} * channels * pixels;
  test::NormInput<Portable<T>> in{
      channels, pixels, test::random<T>(n, 1), test::random<T>(n, 2), {}};
  for (T& value : in.x) {
    value += static_cast<T>(middle);
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    in.parameter.push_back(test::random<T>(channels, 3 + i));
  }
  return in;
}

double worst(std::vector<double> const& a, std::vector<double> const& b) {
  double error = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    double const off = std::abs(a[i] - b[i]);
    error = !(off <= error) ? off : error;
  }
  return error;
}

struct Spread {
  int channels, pixels;
  std::vector<int> shards;

  [[nodiscard]] int batch() const {
    int all = 0;
    for (int const s : shards) {
      all += s;
    }
    return all;
  }
};

std::vector<Spread> const spreads{{1, 1, {1, 1}},     {3, 5, {2, 2}},        {2, 7, {5, 1, 3}},
                                  {5, 20, {4, 0, 1}}, {4, 33, {0, 0, 6, 2}}, {3, 9, {4}}};

/// Values and gradients are of size 1, sums of `terms` of them; inverse deviations are below 10.
template <class T>
void check(Spread const& spread, test::NormOptions const& options, double middle) {
  CAPTURE(spread.shards);
  CAPTURE(options.accumulate);
  auto const in = input<T>(spread.channels, spread.pixels, spread.batch(), middle);
  auto const whole = test::on_whole(in, spread.batch(), options);
  auto const parts = test::on_replicas(in, spread.shards, options);
  double const terms = spread.batch() * spread.pixels + 8;
  double const off = terms * (1 + std::abs(middle)) * test::eps<T>;
  CHECK(worst(parts.y, whole.y) <= 100 * off);
  CHECK(worst(parts.dx, whole.dx) <= 1000 * off);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(worst(parts.gradient[i], whole.gradient[i]) <= 100 * terms * off);
  }
}

TEST_CASE_TEMPLATE("replicas have the batch norm of the whole batch", T, float, double) {
  for (Spread const& spread : spreads) {
    for (bool const accumulate : {false, true}) {
      check<T>(spread, {.accumulate = accumulate}, 0.0);
      check<T>(spread, {.input_gradient = false, .accumulate = accumulate}, 0.0);
      check<T>(spread, {.threads = 3}, 0.0);
    }
  }
}

TEST_CASE("a mean far from the running mean costs the variance few digits") {
  check<double>({2, 50, {3, 2}}, {}, 1000.0);
  check<float>({2, 50, {3, 2}}, {}, 30.0);
}

TEST_CASE("one value a channel on each replica has a variance over all of them") {
  auto const in = input<double>(4, 1, 3);
  auto const parts = test::on_replicas(in, {1, 1, 1}, {});
  for (std::size_t c = 0; c < 4; ++c) {
    double const mean = (in.x[c] + in.x[c + 4] + in.x[c + 8]) / 3;
    double squares = 0;
    for (std::size_t s = 0; s < 3; ++s) {
      squares += (in.x[c + 4 * s] - mean) * (in.x[c + 4 * s] - mean);
    }
    CHECK(std::abs(parts.gradient[2][c] - mean) <= 1e-15);
    CHECK(std::abs(parts.gradient[3][c] - squares / 2) <= 1e-15);  // unbiased
  }
}

TEST_CASE("a NaN of one replica is in all of the channel, and in no other") {
  auto in = input<double>(3, 4, 4);
  in.x[5] = std::numeric_limits<double>::quiet_NaN();  // sample 0, channel 1
  auto const parts = test::on_replicas(in, {2, 2}, {});
  for (std::size_t i = 0; i < parts.y.size(); ++i) {
    CHECK(std::isnan(parts.y[i]) == (i / 4 % 3 == 1));
  }
  CHECK(std::isnan(parts.gradient[3][1]));
}

// L = Σ dy y over all replicas.
double objective(test::NormInput<Portable<double>> const& in, std::vector<int> const& shards) {
  auto const y = test::on_replicas(in, shards, {}).y;
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += in.dy[i] * y[i];
  }
  return sum;
}

TEST_CASE("gradients over replicas pass finite differences") {
  std::vector<int> const shards{2, 0, 3};
  auto in = input<double>(3, 4, 5);
  auto const result = test::on_replicas(in, shards, {});
  auto const slope = [&](double& variable) {
    double const middle = variable;
    variable = middle + 1e-5;
    double const above = objective(in, shards);
    variable = middle - 1e-5;
    double const below = objective(in, shards);
    variable = middle;
    return (above - below) / 2e-5;
  };
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    CHECK(std::abs(slope(in.x[i]) - result.dx[i]) <= 1e-7);
  }
  for (std::size_t p = 0; p < 2; ++p) {
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(std::abs(slope(in.parameter[p][c]) - result.gradient[p][c]) <= 1e-7);
    }
  }
}

TEST_CASE("without replicas SyncBatchNorm2d passes check_layer, and has BatchNorm2d's bits") {
  LayerCheck const check = check_layer<SyncBatchNorm2d<>, Image<3, 4, 5>>();
  CHECK_MESSAGE(check.ok(), check.problem);
  auto in = input<float>(3, 7, 4);
  test::NormReplica<SyncBatchNorm2d<>, Portable<float>> one{in, {}, 0, 4, 1.0};
  one.op().forward(one.operands(), one.pass());
  one.op().input_gradient(one.operands(), one.pass());
  one.op().weight_gradient(one.operands(), one.pass());
  test::NormResult result;
  one.add_to(result);
  test::NormResult const plain = test::on_whole(in, 4, {});
  CHECK(result.y == plain.y);
  CHECK(result.dx == plain.dx);
  CHECK(result.gradient == plain.gradient);
}

TEST_CASE("parameters are BatchNorm2d's") {
  Parameters const own = SyncBatchNorm2d<Momentum<1, 5>>::parameters(image_shape(6, 4, 4));
  Parameters const plain = BatchNorm2d<Momentum<1, 5>>::parameters(image_shape(6, 4, 4));
  REQUIRE(own.count == plain.count);
  for (int i = 0; i < own.count; ++i) {
    CHECK(std::string_view{own.item[i].name} == plain.item[i].name);
    CHECK(own.item[i].shape == plain.item[i].shape);
    CHECK(own.item[i].role == plain.item[i].role);
    CHECK(own.item[i].rate == plain.item[i].rate);
  }
}

}  // namespace sync_batch_norm_test
}  // namespace tandem
