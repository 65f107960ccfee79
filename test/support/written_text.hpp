// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whether what generate() writes is what the network, given the whole text at every token, would
/// write.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>

namespace tandem {
namespace test::written {

inline constexpr int vocabulary = 13;
inline constexpr int window = 12;
struct Net : models::Gpt<vocabulary, window, 16, 2, 2> {};

using Double = BasicHost<Portable, Fp64>;
inline TrainerOptions const options{
    .batch = 4, .optimizer = AdamW{.learning_rate = 0.01F}, .seed = 5};

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

/// Makes the weights so large that a row's result depends on all rows before it.
template <class TrainerType>
void enlarge(TrainerType& trainer) {
  for (auto const& p : trainer.parameters()) {
    std::vector<double> values(p.value.begin(), p.value.end());
    for (double& value : values) {
      value *= 5.0;
    }
    if (p.owner == p.index) {
      trainer.set_parameter(p.name, values);
    }
  }
}

template <class S, class Network = Net>
void check() {
  test::Watchdog const watchdog{"generate()"};
  Trainer<Network, S, Double> trainer{options};
  trainer.train(Data{}, Epoch{});
  enlarge(trainer);
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

}  // namespace test::written
}  // namespace tandem
