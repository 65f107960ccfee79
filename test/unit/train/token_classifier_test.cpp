// SPDX-License-Identifier: Apache-2.0
// A classifier of token sequences, as a user would write it: from tokens to one vector a sample and
// a label of it, under strategies that cut it before and behind that.

#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace token_classifier_test {

constexpr int words = 7;
constexpr int longest = 9;

struct Looks : Sequential<LayerNorm<>, Linear<48>, Attention<2>, Linear<16>> {};
template <class Pool>
struct Classifier
    : Network<Tokens<longest, words>,
              Sequential<Embedding<words, 16, InitNormal<1, 10>>, Positions<InitNormal<1, 10>>,
                         Residual<Looks>, Pool, Linear<3>>> {};

/// Sentences of 2 to 9 words; the label is which of the words 0, 1 and 2 occurs in them.
struct Sentences {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 120; }
  [[nodiscard]] Shape shape() const { return tokens_shape(longest); }
  [[nodiscard]] int targets() const { return 1; }
  [[nodiscard]] int classes() const { return 3; }
  [[nodiscard]] int length(std::int64_t index) const { return 2 + static_cast<int>(index % 8); }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      auto const word = (index * 5 + static_cast<std::int64_t>(t) * 3 + index / 7) % (words - 3);
      x[t] = 3 + static_cast<std::int32_t>(word);
    }
    y[0] = static_cast<std::int32_t>(index % 3);
    x[static_cast<std::size_t>(index / 3 % length(index))] = y[0];
  }
};

TrainerOptions options(Optimizer optimizer = Sgd{.learning_rate = 0.1F}) {
  return {.batch = 12, .optimizer = optimizer, .threads_per_device = 1};
}

using Double = BasicHost<Portable, Fp64>;

template <class S, class Pool = MeanOverTime, class Backend = Double>
Trainer<Classifier<Pool>, S, Backend>& trained(Trainer<Classifier<Pool>, S, Backend>& trainer,
                                               int all) {
  for (Epoch const epoch : epochs(all)) {
    trainer.train(Sentences{}, epoch);
  }
  return trainer;
}

template <class Pool, class... S>
void check_as_one_device() {
  test::Watchdog const watchdog{"an epoch of sentences"};
  Trainer<Classifier<Pool>, SingleDevice<>, Double> one{options()};
  double const loss = trained(one, 1).evaluate(Sentences{}).loss;
  auto const check = [&](auto&& many) {
    CHECK(trained(many, 1).evaluate(Sentences{}).loss == doctest::Approx(loss).epsilon(1e-12));
    CHECK(test::difference(one.parameters(), many.parameters(), test::Part::value).error <= 1e-12);
  };
  (check(Trainer<Classifier<Pool>, S, Double>{options()}), ...);
}

TEST_CASE("a classifier of tokens trains alike on replicas and in a pipeline") {
  using InThePool = Pipeline<OneFOneB, 3, Split<3>, Split<2>>;
  check_as_one_device<MeanOverTime, DataParallel<2>, InThePool>();
  check_as_one_device<LastRow, Hybrid<DataParallel<2>, ModelParallel<Split<4>, Split<1>>>>();
}

TEST_CASE("it learns, on Host as it is installed") {
  test::Watchdog const watchdog{"epochs of sentences"};
  Trainer<Classifier<MeanOverTime>, DataParallel<2>, Host> trainer{
      options(Adam{.learning_rate = 1e-2F})};
  Evaluation const after = trained(trainer, 6).evaluate(Sentences{});
  CHECK(after.loss < 0.1);
  CHECK(after.accuracy > 0.95);
  std::vector<float> const outputs = trainer.predict(Sentences{});
  REQUIRE(outputs.size() == 3 * 120);
  int right = 0;
  for (std::size_t i = 0; i < 120; ++i) {
    float const* const own = &outputs[3 * i];
    right += std::max_element(own, own + 3) - own == static_cast<std::ptrdiff_t>(i % 3) ? 1 : 0;
  }
  CHECK(right == doctest::Approx(after.accuracy * 120));
}

TEST_CASE("sentences of other lengths in the batch change nothing") {
  Trainer<Classifier<LastRow>, SingleDevice<>, Double> one{options()};
  Trainer<Classifier<LastRow>, SingleDevice<>, Double> two{options()};
  std::vector<std::int32_t> const labels{2, 0};
  std::vector<std::int32_t> const lengths{3, 2};
  double const loss =
      one.step(std::vector<std::int32_t>{1, 4, 2, 0, 5, 6}, labels, {.time = 3, .lengths = lengths})
          .loss;
  CHECK(two.step(std::vector<std::int32_t>{1, 4, 2, 6, 6, 0, 5, 3, 3, 3}, labels,
                 {.time = 5, .lengths = lengths})
            .loss == doctest::Approx(loss).epsilon(1e-13));
  CHECK(test::difference(one.parameters(), two.parameters(), test::Part::value).error <= 1e-13);
}

}  // namespace token_classifier_test
}  // namespace tandem
