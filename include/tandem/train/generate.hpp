// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writing on, token by token: which token comes next, given the network's logits.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {

struct GenerateOptions {
  int tokens = 100;          ///< to be written
  double temperature = 1.0;  ///< logits are divided by it; 0: always the likeliest
  int top_k = 0;             ///< choose among so many likeliest; 0: among all
  std::uint64_t seed = 0;
};

/// Draws one token from softmax(logits / temperature), among the top_k likeliest; which one depends
/// on the logits, the seed and @p index, the number of the token, alone. Of equal logits the lower
/// index is likelier.
/// Cost: a sort of the vocabulary where top_k is set, else a pass over it.
TANDEM_ONCE std::int32_t draw_token(std::span<float const> logits, GenerateOptions const& options,
                                    std::int64_t index);

/// Writes on behind @p prompt. Rows go through the network once, and hand on keys and values; when
/// the text is longer than the network's window, its later half is read again.
/// @param window  T, the most tokens that the network reads at once
/// @param scores  scores(tokens, position, logits): tokens at positions from `position` on, behind
///                those of the calls before; position 0 begins anew
/// @returns the tokens written, without the prompt
/// @throws ContractError  the prompt is empty, or an option out of range
template <class Scores>
std::vector<std::int32_t> generate_tokens(std::span<std::int32_t const> prompt,
                                          GenerateOptions const& options, int window, int limit,
                                          Scores const& scores) {
  expects(!prompt.empty(), "generate(prompt): the prompt must have a token to begin with");
  expects(options.tokens >= 0 && options.top_k >= 0 && options.temperature >= 0.0 &&
              is_finite(options.temperature),
          "generate(prompt, options): .tokens, .top_k and .temperature must be 0 or more");
  std::vector<std::int32_t> text{prompt.begin(), prompt.end()};
  std::vector<float> logits(static_cast<std::size_t>(limit));
  std::size_t begin = 0;  // of what the network has in view
  std::size_t read = 0;   // what it has read
  if (text.size() > static_cast<std::size_t>(window)) {
    begin = read = text.size() - static_cast<std::size_t>(window);
  }
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (text.size() - begin > static_cast<std::size_t>(window)) {
      begin = read = text.size() - static_cast<std::size_t>(window + 1) / 2;
    }
    scores(std::span<std::int32_t const>{text}.subspan(read), static_cast<int>(read - begin),
           std::span<float>{logits});
    read = text.size();
    text.push_back(draw_token(logits, options, i));
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::int32_t draw_token(std::span<float const> logits, GenerateOptions const& options,
                                    std::int64_t index) {
  auto const best = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0.0 || options.top_k == 1) {
    return static_cast<std::int32_t>(best - logits.begin());
  }
  float least = -INFINITY;
  std::size_t ties = logits.size();  // how many equal to `least` may be taken
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < logits.size()) {
    std::vector<float> sorted{logits.begin(), logits.end()};
    auto const k = sorted.begin() + (options.top_k - 1);
    std::nth_element(sorted.begin(), k, sorted.end(), std::greater<>{});
    least = *k;
    auto const above =
        std::count_if(logits.begin(), logits.end(), [&](float x) { return x > least; });
    ties = static_cast<std::size_t>(options.top_k - above);
  }
  std::vector<double> weight(logits.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    bool const taken = logits[i] > least || (logits[i] == least && ties > 0);
    ties -= taken && logits[i] == least ? 1U : 0U;
    weight[i] = taken ? std::exp((double{logits[i]} - double{*best}) / options.temperature) : 0.0;
    sum += weight[i];
  }
  Random4 const random =
      philox(options.seed, RandomUse::generation, static_cast<std::uint64_t>(index), 0);
  double const place =
      (static_cast<double>(random.word[0]) + static_cast<double>(random.word[1]) * 0x1p-32) *
      0x1p-32 * sum;
  double before = 0.0;
  std::size_t last = static_cast<std::size_t>(best - logits.begin());
  for (std::size_t i = 0; i < weight.size(); ++i) {
    before += weight[i];
    if (weight[i] > 0.0) {
      last = i;
      if (place < before) {
        break;
      }
    }
  }
  return static_cast<std::int32_t>(last);
}

}  // namespace tandem

#endif
