// SPDX-License-Identifier: Apache-2.0
// PostValidated pipelines, whose devices go on into the next step before an update is known to be
// right, also where the first stage shares weights with the last: the bits of one device after two
// epochs in which some steps are clipped.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <parity.hpp>
#include <small_gpt.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {
namespace post_validated_test {

constexpr int samples = 100;  // eight steps an epoch, the last one of nine samples
constexpr double limit = 0.76;

auto rows() { return dataset(image_shape(3, 8, 8), 5, samples, 3); }

TrainerOptions options() {
  TrainerOptions own = parity_options();
  own.clip_norm = limit;
  own.shuffle = false;
  own.average = {.decay = 0.9};
  return own;
}

/// What there is at the end, and each epoch's mean loss.
struct Outcome {
  std::vector<double> losses{};
  std::vector<std::vector<float>> values{};

  friend bool operator==(Outcome const&, Outcome const&) = default;
};

template <class S>
Outcome two_epochs(TrainerOptions const& options) {
  Watchdog const watchdog{"two epochs"};
  Trainer<DeepNet, S, Host> trainer{options};
  Outcome all;
  for (auto epoch : epochs(2)) {
    all.losses.push_back(trainer.train(rows(), epoch).loss);
  }
  for (NamedParameter<float> const& p : trainer.parameters()) {
    all.values.emplace_back(p.value.begin(), p.value.end());
    all.values.emplace_back(p.average.begin(), p.average.end());
    for (std::span<float const> const state : p.states) {
      all.values.emplace_back(state.begin(), state.end());
    }
  }
  return all;
}

using One = SingleDevice<Microbatches<8>, Reproducible<>>;
using Four = InFour<PostValidated<ZeroBubbleH2>, 8, Reproducible<>>;
/// Two devices twice, of which the first has the first stage and the last one.
using TwiceTwo = Hybrid<DataParallel<2>, InFour<PostValidated<ZeroBubbleV>, 4, Reproducible<>>>;

/// Steps of two epochs whose gradient is clipped.
int count_clipped() {
  Trainer<DeepNet, One, Host> trainer{options()};
  int count = 0;
  for (auto epoch : epochs(2)) {
    trainer.train(rows(), epoch,
                  [&](StepReport const& step) { count += step.gradient_norm > limit ? 1 : 0; });
  }
  return count;
}

TEST_CASE("steps of which some are clipped have the bits of one device") {
  int const clipped = count_clipped();
  CHECK(clipped >= 3);
  CHECK(clipped <= 13);
  Outcome const one = two_epochs<One>(options());
  CHECK(two_epochs<Four>(options()) == one);
  CHECK(two_epochs<TwiceTwo>(options()) == one);
}

TEST_CASE("so have those of Adam, whose states are taken back, too") {
  TrainerOptions adam = options();
  adam.optimizer = Adam{.learning_rate = 0.01F};
  CHECK(two_epochs<Four>(adam) == two_epochs<One>(adam));
}

TEST_CASE("and those without clipping, where nothing but the loss is awaited") {
  TrainerOptions plain = options();
  plain.clip_norm = 0.0;
  CHECK(two_epochs<Four>(plain) == two_epochs<One>(plain));
}

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
std::vector<double> trained_gpt(double clip_norm) {
  Watchdog const watchdog{"two epochs of a GPT"};
  TrainerOptions own = gpt_options();
  own.batch = 8;
  own.clip_norm = clip_norm;
  own.shuffle = false;
  Trainer<SmallGpt, S, Host> trainer{own};
  std::vector<double> all;
  for (Epoch const epoch : epochs(2)) {
    all.push_back(trainer.train(Words{}, epoch).loss);
  }
  for (NamedParameter<float> const& parameter : trainer.parameters()) {
    all.insert(all.end(), parameter.value.begin(), parameter.value.end());
  }
  return all;
}

using OneGpt = SingleDevice<Microbatches<4>, Reproducible<>>;
using Three =
    Pipeline<PostValidated<ZeroBubbleH2>, 4, Split<2>, Split<2>, Split<2>, Reproducible<>>;

// Their gradients are summed before any update, right or not.
TEST_CASE("words that stages share have the bits of one device") {
  std::vector<double> const one = trained_gpt<OneGpt>(0.5);
  CHECK(trained_gpt<Three>(0.5) == one);
  std::vector<double> const unclipped = trained_gpt<OneGpt>(0);
  CHECK(trained_gpt<Three>(0) == unclipped);
  CHECK(one != unclipped);  // some steps are
}

}  // namespace post_validated_test
}  // namespace tandem::test
