// SPDX-License-Identifier: Apache-2.0
// What generate() writes is what the network, given the whole text at every token, would write.

#include <doctest/doctest.h>

#include <vector>

#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>

namespace tandem {
namespace generated_text_test {

constexpr int vocabulary = 13;
constexpr int window = 12;
struct Net : models::Gpt<vocabulary, window, 16, 2, 2> {};

using Double = BasicHost<Portable, Fp64>;
TrainerOptions const options{.batch = 4, .optimizer = AdamW{.learning_rate = 0.01F}, .seed = 5};

/// Text in which each token follows from the one before, all but one of five.
struct Data {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 48; }
  [[nodiscard]] Shape shape() const { return tokens_shape(window); }
  [[nodiscard]] int targets() const { return window; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    std::int64_t token = index * 5;
    for (std::size_t t = 0; t < x.size(); ++t) {
      x[t] = static_cast<std::int32_t>(token % vocabulary);
      token = token * 3 + 1 + (t % 5 == 4 ? index : 0);
      y[t] = static_cast<std::int32_t>(token % vocabulary);
    }
  }
};

/// One sequence, of whose last row one target is asked for.
struct One {
  using Input = std::int32_t;
  using Target = std::int32_t;
  std::vector<std::int32_t> const* text;
  std::int32_t next;
  [[nodiscard]] std::int64_t size() const { return 1; }
  [[nodiscard]] Shape shape() const { return tokens_shape(window); }
  [[nodiscard]] int targets() const { return window; }
  [[nodiscard]] int length(std::int64_t) const { return static_cast<int>(text->size()); }
  void read(std::int64_t, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    std::copy(text->begin(), text->end(), x.begin());
    std::fill(y.begin(), y.end(), -1);
    y.back() = next;
  }
};

/// The likeliest token behind @p text, by the losses of all that could come.
template <class TrainerType>
std::int32_t likeliest(TrainerType& trainer, std::vector<std::int32_t> const& text) {
  std::int32_t best = 0;
  double least = 1e30;
  for (std::int32_t token = 0; token < vocabulary; ++token) {
    double const loss = trainer.evaluate(One{&text, token}).loss;
    best = loss < least ? token : best;
    least = std::min(least, loss);
  }
  return best;
}

template <class S>
void check() {
  test::Watchdog const watchdog{"generate()"};
  Trainer<Net, S, Double> trainer{options};
  trainer.train(Data{}, Epoch{});
  std::vector<std::int32_t> text{1, 4, 0};
  auto const written = trainer.generate(text, {.tokens = 9, .temperature = 0.0});
  REQUIRE(written.size() == 9);
  for (std::int32_t const token : written) {
    CHECK(token == likeliest(trainer, text));
    text.push_back(token);
  }
  CHECK(trainer.generate(std::span{text}.first(2), {.tokens = 20, .seed = 3}) ==
        trainer.generate(std::span{text}.first(2), {.tokens = 20, .seed = 3}));
}

TEST_CASE("on one device, with keys and values carried") { check<SingleDevice<>>(); }

TEST_CASE("under strategies of several devices") {
  check<DataParallel<2>>();
  check<Pipeline<OneFOneB, 2, Split<3>, Split<3>>>();
}

TEST_CASE("under two models, and in an interleaved pipeline") {
  check<CrossModelParallel<AverageGradients, Split<3>, Split<3>>>();
  check<Pipeline<Interleaved<2>, 2, Split<1>, Split<1>, Split<2>, Split<2>>>();
}

}  // namespace generated_text_test
}  // namespace tandem
