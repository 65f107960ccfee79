// SPDX-License-Identifier: Apache-2.0
// A PostValidated pipeline whose first stage shares weights with its last: their gradients are
// summed before any update, right or not.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <small_gpt.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {
namespace post_validated_ties_test {

struct Words {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 64; }  // eight steps an epoch
  [[nodiscard]] Shape shape() const { return tokens_shape(gpt_time); }
  [[nodiscard]] int targets() const { return gpt_time; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      auto const word = (index * 7 + static_cast<std::int64_t>(t) * 3) % gpt_words;
      x[t] = static_cast<std::int32_t>(word);
      y[t] = (x[t] * 5 + 1) % gpt_words;
    }
  }
};

/// Losses of two epochs, and the parameters behind them.
template <class S>
std::vector<double> trained(double clip_norm) {
  Watchdog const watchdog{"two epochs of a GPT"};
  TrainerOptions options = gpt_options();
  options.batch = 8;
  options.clip_norm = clip_norm;
  options.shuffle = false;
  Trainer<SmallGpt, S, Host> trainer{options};
  std::vector<double> all;
  for (Epoch const epoch : epochs(2)) {
    all.push_back(trainer.train(Words{}, epoch).loss);
  }
  for (NamedParameter<float> const& parameter : trainer.parameters()) {
    all.insert(all.end(), parameter.value.begin(), parameter.value.end());
  }
  return all;
}

using One = SingleDevice<Microbatches<4>, Reproducible<>>;
using Three =
    Pipeline<PostValidated<ZeroBubbleH2>, 4, Split<2>, Split<2>, Split<2>, Reproducible<>>;

TEST_CASE("words that stages share have the bits of one device") {
  std::vector<double> const one = trained<One>(0.5);
  CHECK(trained<Three>(0.5) == one);
  std::vector<double> const unclipped = trained<One>(0);
  CHECK(trained<Three>(0) == unclipped);
  CHECK(one != unclipped);  // some steps are
}

}  // namespace post_validated_ties_test
}  // namespace tandem::test
