// SPDX-License-Identifier: Apache-2.0
// Which token is drawn, and what a generation asks of the network.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include <tandem/train/generate.hpp>

namespace tandem {
namespace generate_test {

TEST_CASE("without temperature the likeliest token is drawn, the first of equals") {
  std::vector<float> const logits{0.5F, 2.0F, -1.0F, 2.0F};
  CHECK(draw_token(logits, {.temperature = 0.0}, 0) == 1);
  CHECK(draw_token(logits, {.top_k = 1}, 7) == 1);
}

TEST_CASE("draws follow the softmax of the logits, sharper where the temperature is lower") {
  std::vector<float> const logits{0.0F, 1.0F, 2.0F};
  for (double const temperature : {1.0, 0.5}) {
    std::array<int, 3> counts{};
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      ++counts[static_cast<std::size_t>(
          draw_token(logits, {.temperature = temperature, .seed = 3}, i))];
    }
    double sum = 0.0;
    for (float const logit : logits) {
      sum += std::exp(double{logit} / temperature);
    }
    for (std::size_t c = 0; c < 3; ++c) {
      double const expected = std::exp(double{logits[c]} / temperature) / sum;
      double const deviation = std::sqrt(expected * (1 - expected) / draws);
      CHECK(std::fabs(counts[c] / double{draws} - expected) < 4.5 * deviation);
    }
  }
}

TEST_CASE("only the top k are drawn, and of equal logits as many as there is room for") {
  std::vector<float> const logits{1.0F, 3.0F, 1.0F, 2.0F, 1.0F};
  std::array<bool, 5> drawn{};
  for (int i = 0; i < 2000; ++i) {
    drawn[static_cast<std::size_t>(draw_token(logits, {.top_k = 3}, i))] = true;
  }
  CHECK(drawn == std::array<bool, 5>{true, true, false, true, false});
}

TEST_CASE("one row is read a token, and the later half again when the window is full") {
  struct Call {
    std::vector<std::int32_t> tokens;
    int position;
    bool operator==(Call const&) const = default;
  };
  std::vector<Call> calls;
  std::vector<std::int32_t> const prompt{1, 2};
  auto const text = generate_tokens(
      prompt, {.tokens = 6, .temperature = 0.0}, 4, 9,
      [&](std::span<std::int32_t const> tokens, int position, std::span<float> logits) {
        calls.push_back({{tokens.begin(), tokens.end()}, position});
        std::fill(logits.begin(), logits.end(), 0.0F);
        logits[static_cast<std::size_t>(tokens.back() + 1)] = 1.0F;
      });
  CHECK(text == std::vector<std::int32_t>{3, 4, 5, 6, 7, 8});
  CHECK(calls ==
        std::vector<Call>{{{1, 2}, 0}, {{3}, 2}, {{4}, 3}, {{4, 5}, 0}, {{6}, 2}, {{7}, 3}});
}

TEST_CASE("a prompt longer than the window is read from its end") {
  std::vector<std::int32_t> const prompt{1, 2, 3, 4, 5, 6};
  int first = 0;
  generate_tokens(prompt, {.tokens = 1}, 4, 9,
                  [&](std::span<std::int32_t const> tokens, int position, std::span<float>) {
                    first = tokens.front();
                    CHECK(tokens.size() == 4);
                    CHECK(position == 0);
                  });
  CHECK(first == 3);
  CHECK_THROWS_AS(generate_tokens(std::span{prompt}.first(0), {}, 4, 9, [](auto...) {}),
                  ContractError);
  CHECK_THROWS_AS(generate_tokens(prompt, {.temperature = -1.0}, 4, 9, [](auto...) {}),
                  ContractError);
}

}  // namespace generate_test
}  // namespace tandem
