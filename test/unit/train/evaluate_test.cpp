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

using Uneven = DataParallel<3, Weighted<1, 0, 2>>;

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
  check_equal<Uneven>(weights, 7, result, outputs);
}

/// What a trainer answers before a step and behind the next: training goes on as if nothing had
/// been asked.
struct Answers {
  std::vector<float> before{};
  std::vector<double> numbers{};
  std::vector<float> after{};
  bool operator==(Answers const&) const = default;
};

template <class S>
Answers answers() {
  test::Watchdog const watchdog{"evaluation of a model that is cut"};
  Tiny<S> trainer{options(13)};  // batches of 13, 13 and 3: fewer samples than microbatches
  test::Samples<float> const batch{trainer.input, 5, 13};
  trainer.step(batch.x, batch.y);  // statistics of batch norm
  Answers own{.before = trainer.predict(data)};
  Evaluation const result = trainer.evaluate(data);
  own.numbers = {result.loss, result.accuracy, static_cast<double>(result.samples)};
  trainer.step(batch.x, batch.y);
  own.after = trainer.predict(data);
  return own;
}

using R = Reproducible<>;
using InTwoDirections = Pipeline<Chimera, 4, Split<4>, Split<5>, R>;

TEST_CASE("a model that is cut answers as one device with the same microbatches, bit for bit") {
  Answers const one = answers<SingleDevice<Microbatches<4>, R>>();
  REQUIRE(one.before.size() == 5 * samples);
  CHECK(one.after != one.before);
  CHECK((answers<Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<2>, Split<3>, R>>() == one));
  CHECK((answers<Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>, R,
                          Checkpoint<Boundaries>>>() == one));
  CHECK((answers<InTwoDirections>() == one));
  CHECK((answers<Hybrid<DataParallel<2, R>, Pipeline<GPipe, 2, Split<4>, Split<5>>>>() == one));
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

TEST_CASE("a confusion matrix counts each sample by its largest output") {
  Confusion matrix{3};
  auto const add = [&](int truth, std::vector<float> const& outputs) {
    detail::add_sample(matrix, truth, std::span<float const>{outputs}, 7);
  };
  add(0, {3, 1, 2});
  add(0, {1, 1, 1});  // the first of equals
  add(0, {0, 5, 0});
  add(1, {0, 5, 0});
  add(1, {6, 5, -1e30F});
  CHECK(matrix(0, 0) == 2);
  CHECK(matrix(0, 1) == 1);
  CHECK(matrix(1, 0) == 1);
  CHECK(matrix.samples() == 5);
  CHECK(matrix.of(0) == 3);
  CHECK(matrix.predicted(1) == 2);
  CHECK(matrix.accuracy() == 3.0 / 5);
  CHECK(matrix.precision(0) == 2.0 / 3);
  CHECK(matrix.recall(1) == 1.0 / 2);
  CHECK(matrix.f1(1) == 2.0 / 4);
  CHECK(matrix.precision(2) == 0.0);  // 0 / 0
  CHECK(matrix.f1(2) == 0.0);
  CHECK(matrix.macro_recall() == (2.0 / 3 + 1.0 / 2) / 2);  // of the classes that are there
  std::vector<std::string_view> const names{"cat", "stork"};
  CHECK(matrix.table(names) ==
        "true  | predicted\n"
        "      |   cat stork     2\n"
        "cat   |     2     1     0\n"
        "stork |     1     1     0\n"
        "2     |     0     0     0\n");
  CHECK(matrix.report(names) ==
        "          precision     recall         F1    samples\n"
        "cat          0.6667     0.6667     0.6667          3\n"
        "stork        0.5000     0.5000     0.5000          2\n"
        "2            0.0000     0.0000     0.0000          0\n"
        "macro        0.5833     0.5833     0.5833          5\n"
        "accuracy     0.6000\n");
  CHECK(test::message<ContractError>([&] {
          add(0, {0, std::nanf(""), 0});
        }) ==
        "confusion(data): the outputs of sample 7 have a NaN, so that it is taken for no class");
  CHECK(test::contains(test::message<ContractError>([&] { matrix.add(3, 0); }),
                       "a class must be from 0 to classes() - 1"));
  CHECK(test::contains(test::message<ContractError>([] { Confusion{4097}; }), "from 1 to 4096"));
}

TEST_CASE("the confusion of a data set is that of its outputs, whatever the strategy") {
  test::Watchdog const watchdog{"confusion"};
  Tiny<SingleDevice<>> one{options(8)};
  Tiny<Uneven> three{options(10)};  // batches of 10, 10 and 9 samples
  Tiny<InTwoDirections> cut{options(7)};
  Confusion wanted{5};
  std::vector<float> const outputs = one.predict(data);
  for (std::int64_t s = 0; s < samples; ++s) {
    std::vector<float> x(192);
    std::int32_t label = 0;
    data.read(s, x, {&label, 1});
    auto const row = std::span{outputs}.subspan(static_cast<std::size_t>(5 * s), 5);
    wanted.add(label, static_cast<int>(std::ranges::max_element(row) - row.begin()));
  }
  CHECK(one.confusion(data) == wanted);
  CHECK(three.confusion(data) == wanted);
  CHECK(cut.confusion(data) == wanted);
  CHECK(wanted.samples() == samples);
  CHECK(wanted.accuracy() == doctest::Approx(one.evaluate(data).accuracy).epsilon(1e-12));
}

TEST_CASE("ranks add up what each has, as processes do") {
  test::Watchdog const watchdog{"adding up"};
  Tiny<Uneven> trainer{options(6)};
  std::vector<std::vector<double>> numbers;
  for (int rank = 0; rank < 3; ++rank) {
    numbers.push_back({rank + 1.0, 0x1p52 * (rank == 1), 10.0 * rank});
  }
  trainer.workers().run([&](auto& rank) {
    for (int local = 0; local < 3; ++local) {
      if (&rank == &trainer.workers().rank(local)) {
        rank.add_up(numbers[static_cast<std::size_t>(local)]);
      }
    }
  });
  for (auto const& own : numbers) {
    CHECK(own == std::vector<double>{6.0, 0x1p52, 30.0});
  }
  CHECK(trainer.evaluate(data).samples == samples);  // it goes on
}

TEST_CASE("neither ignored labels are in a confusion, nor shares but the largest") {
  struct Same : Network<Vector<2>, Sequential<Linear<2>>> {};
  std::vector<float> const x(8, 1.0F);
  Trainer<Same, SingleDevice<>, Host, SoftmaxCrossEntropy<IgnoreIndex<>>> ignores{
      {.batch = 3, .threads_per_device = 1}};
  Confusion const some =
      ignores.confusion(TensorDataset<std::int32_t>{vector_shape(2), x, {-1, 1, 1, -1}});
  CHECK(some.samples() == 2);
  CHECK(some.of(1) == 2);
  Trainer<Same, SingleDevice<>, Host, SoftCrossEntropy<>> shares{
      {.batch = 3, .threads_per_device = 1}};
  std::vector<float> const soft{0.25F, 0.75F, 1, 0, 0, 1, 0.5F, 0.5F};
  Confusion const all = shares.confusion(TensorDataset<float>{vector_shape(2), x, soft, 2});
  CHECK(all.of(0) == 2);
  CHECK(all.of(1) == 2);
}

}  // namespace evaluate_test
}  // namespace tandem
