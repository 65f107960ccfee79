// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <tandem/tandem.hpp>

namespace tandem {
namespace integer_targets_test {

/// Counts, not labels: exp(y) - t y, of one output; the count may be far above the outputs.
struct PoissonLoss {
  using Target = std::int32_t;
  static constexpr std::string_view name = "PoissonLoss";
  static constexpr int targets(Shape) { return 1; }
  static double value(auto y, auto t) { return std::exp(double{y[0]}) - double(t[0]) * y[0]; }
  static void gradient(auto y, auto t, auto dy) {
    dy[0] = static_cast<float>(std::exp(double{y[0]}) - t[0]);
  }
};

struct Net : Network<Vector<1>, Sequential<Linear<1>>> {};

static_assert(targets_are_labels<SoftmaxCrossEntropy<>, NoMetric>);
static_assert(targets_are_labels<PoissonLoss, Accuracy>);
static_assert(!targets_are_labels<PoissonLoss, NoMetric>);
static_assert(!targets_are_labels<MeanSquaredError, NoMetric>);

std::vector<float> const x{0.0F, 1.0F};
std::vector<std::int32_t> const counts{2, 7};

TEST_CASE("integer targets of a loss of one's own may be any number") {
  Trainer<Net, SingleDevice<>, Host, PoissonLoss, NoMetric> trainer{
      {.batch = 2, .optimizer = Sgd{.learning_rate = 0.05F}}};
  double const first = trainer.step(x, counts).loss;
  for (int step = 0; step < 50; ++step) {
    trainer.step(x, counts);
  }
  CHECK(trainer.step(x, counts).loss < first - 1.0);
}

struct Yes : Network<Vector<2>, Sequential<Linear<2>>> {};

TEST_CASE("BinaryCrossEntropy counts the outputs on the right side") {
  std::vector<float> points, sides;
  for (int i = 0; i < 16; ++i) {
    points.insert(points.end(), {float(i % 4) - 1.5F, float(i / 4) - 1.5F});
    sides.insert(sides.end(), {i % 4 < 2 ? 1.0F : 0.0F, i / 4 < 2 ? 0.0F : 1.0F});
  }
  TensorDataset<float> const data{vector_shape(2), points, sides, 2};
  Trainer<Yes, DataParallel<2>, Host, BinaryCrossEntropy> trainer{{.batch = 8}};
  std::vector<float> const scores = trainer.predict(data);
  double right = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    right += (scores[i] > 0) == (sides[i] > 0.5F) ? 1 : 0;
  }
  CHECK(trainer.evaluate(data).accuracy == right / 32);
  CHECK(right > 0);
  CHECK(right < 32);
}

TEST_CASE("but a metric that looks the label up wants labels") {
  Trainer<Net, SingleDevice<>, Host, PoissonLoss, Accuracy> trainer{{.batch = 2}};
  try {
    trainer.step(x, counts);
    FAIL("a count of 2 was taken for the label of one output");
  } catch (ContractError const& error) {
    CHECK(std::string{error.what()}.find("label 2 of sample 0 of the batch is out of range") == 0);
  }
}

}  // namespace integer_targets_test
}  // namespace tandem
