// SPDX-License-Identifier: Apache-2.0
// Evaluation and prediction: independent of strategy and batch size, and one tells of the other.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace evaluate_test {

constexpr int samples = 29;
auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);

template <class S>
using Tiny = Trainer<test::TinyNet, S, Host>;

TrainerOptions options(int batch) {
  return {.batch = batch, .optimizer = Sgd{.learning_rate = 0.1F}, .threads_per_device = 1};
}

/// Accuracy and mean loss of outputs, by the definitions, in double.
Evaluation from_outputs(std::vector<float> const& outputs) {
  Evaluation result{.samples = samples};
  for (std::size_t s = 0; s < samples; ++s) {
    std::span<float const> const row{outputs.data() + 5 * s, 5};
    std::vector<float> x(192);
    std::int32_t label = 0;
    data.read(static_cast<std::int64_t>(s), x, {&label, 1});
    double sum = 0.0;
    for (float const y : row) {
      sum += std::exp(double{y});
    }
    result.loss -= std::log(std::exp(double{row[static_cast<std::size_t>(label)]}) / sum) / samples;
    result.accuracy += (std::ranges::max_element(row) - row.begin() == label ? 1.0 : 0.0) / samples;
  }
  return result;
}

template <class S>
void check_equal(std::string const& weights, int batch, Evaluation const& wanted,
                 std::vector<float> const& outputs) {
  Tiny<S> trainer{options(batch)};
  trainer.load_weights(weights);
  Evaluation const result = trainer.evaluate(data);
  CHECK(result.samples == samples);
  CHECK(std::fabs(result.loss - wanted.loss) <= 1e-12 * wanted.loss);  // sums in double
  CHECK(result.accuracy == doctest::Approx(wanted.accuracy).epsilon(1e-12));
  CHECK(trainer.predict(data) == outputs);
}

TEST_CASE("evaluation and prediction do not depend on strategy and batch size") {
  test::Watchdog const watchdog{"evaluation"};
  test::TemporaryFolder const folder;
  std::string const weights = folder.file("weights");
  Tiny<SingleDevice<>> trainer{options(8)};
  for (auto epoch : epochs(2)) {
    trainer.train(data, epoch);
  }
  trainer.save(weights);
  std::vector<float> const outputs = trainer.predict(data);
  REQUIRE(outputs.size() == 5 * samples);
  Evaluation const result = trainer.evaluate(data);
  Evaluation const wanted = from_outputs(outputs);
  CHECK(result.accuracy == doctest::Approx(wanted.accuracy).epsilon(1e-12));
  CHECK(std::fabs(result.loss - wanted.loss) <= 1e-6 * wanted.loss);
  CHECK(result.accuracy > 0.2);  // it has learnt something

  check_equal<SingleDevice<>>(weights, 1, result, outputs);
  check_equal<SingleDevice<>>(weights, 40, result, outputs);
  check_equal<DataParallel<2>>(weights, 8, result, outputs);
  check_equal<DataParallel<2>>(weights, 2, result, outputs);  // in the end a rank without samples
  check_equal<DataParallel<3, Weighted<1, 0, 2>>>(weights, 7, result, outputs);
}

TEST_CASE("evaluation changes nothing, and training goes on as if it had not been") {
  Tiny<SingleDevice<>> watched{options(8)};
  Tiny<SingleDevice<>> plain{options(8)};
  test::Samples<float> const batch{watched.input, 5, 8};
  for (int s = 0; s < 3; ++s) {
    auto const before = test::values_of(watched.parameters());
    watched.evaluate(data);
    static_cast<void>(watched.predict(data));
    CHECK(test::values_of(watched.parameters()) == before);
    watched.step(batch.x, batch.y);
    plain.step(batch.x, batch.y);
  }
  CHECK(test::first_difference(watched.parameters(), plain.parameters()) == "");
}

TEST_CASE("an epoch's result is the mean over its samples") {
  Tiny<SingleDevice<>> trainer{options(8)};
  Tiny<SingleDevice<>> stepped{options(8)};
  EpochResult const result = trainer.train(data, 0);
  CHECK(result.steps == 4);
  CHECK(result.samples == samples);
  CHECK(result.seconds > 0.0);
  Loader loader{data, {.batch = 8}};
  double loss = 0.0;
  for (Batch<float, std::int32_t> b; loader.next(b);) {
    auto const n = static_cast<std::size_t>(b.size);
    loss += stepped.step({b.x, 192 * n}, {b.y, n}).loss * b.size;
  }
  CHECK(std::fabs(result.loss - loss / samples) <= 1e-12 * result.loss);
  CHECK(test::first_difference(trainer.parameters(), stepped.parameters()) == "");
}

struct Line : Network<Vector<2>, Sequential<Linear<1>>> {};
/// A user's metric: whether the output is within a tenth.
struct Close {
  static constexpr std::string_view name = "close";
  template <class T>
  static double value(std::span<T const> output, std::span<float const> target) {
    return std::fabs(static_cast<double>(output[0]) - double{target[0]}) < 0.1 ? 1.0 : 0.0;
  }
};

TEST_CASE("a regression with a user's metric learns a line") {
  test::Watchdog const watchdog{"regression"};
  std::vector<float> x;
  std::vector<float> y;
  for (int i = 0; i < 40; ++i) {
    x.insert(x.end(), {static_cast<float>(i % 5) * 0.2F, static_cast<float>(i % 8) * 0.1F});
    y.push_back(2.0F * x[x.size() - 2] - x[x.size() - 1] + 0.5F);
  }
  TensorDataset<float> const line{vector_shape(2), x, y};
  Trainer<Line, DataParallel<2>, Host, MeanSquaredError, Close> trainer{
      {.batch = 10, .optimizer = Adam{.learning_rate = 0.05F}, .threads_per_device = 1}};
  CHECK(trainer.evaluate(line).metric < 1.0);
  for (auto epoch : epochs(100)) {
    trainer.train(line, epoch);
  }
  CHECK(trainer.evaluate(line).metric == 1.0);
  CHECK(trainer.evaluate(line).loss < 1e-3);
}

}  // namespace evaluate_test
}  // namespace tandem
