// SPDX-License-Identifier: Apache-2.0
// What stands behind the end of a short sequence changes no bit of a step.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "cuda/engine/support.hpp"

#include <support/watchdog.hpp>

namespace tandem {
namespace padding_test {

constexpr int words = 3;
constexpr int rows = 6;
constexpr int batch = 8;

struct Net : Network<Tokens<rows, words>,
                     Sequential<Embedding<words, 2>, Tanh, Residual<Gru<2>>, Vocabulary<words>>> {};

/// The gradients of a step, whose padding is word @p padding.
template <class S>
std::vector<double> gradients(std::int32_t padding) {
  test::Watchdog const watchdog{"a step of padded sequences"};
  Trainer<Net, S, BasicCuda<Portable, Fp64>> trainer{{.batch = batch}};
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> lengths;
  for (int s = 0; s < batch; ++s) {
    lengths.push_back(1 + (5 * s) % rows);
    for (int t = 0; t < rows; ++t) {
      bool const is_word = t < lengths.back();
      tokens.push_back(is_word ? (s * s + t) % words : padding);
      targets.push_back(is_word ? (s + t * t) % words : -1);
    }
  }
  trainer.step(tokens, targets, {.lengths = lengths});
  std::vector<double> all;
  for (NamedParameter<double> const& p : trainer.parameters()) {
    all.insert(all.end(), p.gradient.begin(), p.gradient.end());
  }
  return all;
}

TEST_CASE("words behind the end of a sequence change no bit of a gradient") {
  using Two = Pipeline<OneFOneB, 2, Split<1>, Split<3>, Reproducible<>>;
  for (std::int32_t const word : {1, 2}) {
    CHECK(gradients<SingleDevice<>>(word) == gradients<SingleDevice<>>(0));
    CHECK(gradients<Two>(word) == gradients<Two>(0));
  }
}

}  // namespace padding_test
}  // namespace tandem
