// SPDX-License-Identifier: Apache-2.0
// Small GNMTs against PyTorch's: each row's loss, every gradient, and five steps of Adam, in double
// and in float; under a pipeline.

#include "golden.hpp"

#include <support/watchdog.hpp>

namespace tandem {
namespace gnmt_test {

constexpr int words = 11;
constexpr int time = 5;

using TwoLayers = models::Gnmt<words, 5, 2, time>;
using ThreeLayers = models::Gnmt<words, 4, 3, time>;
using Double = BasicHost<Portable, Fp64>;

/// The sentences of a file.
struct Batch {
  explicit Batch(test::Golden const& golden)
      : x{golden.values<std::int32_t>("x")},
        second{golden.values<std::int32_t>("second")},
        targets{golden.values<std::int32_t>("targets")},
        lengths{golden.values<std::int32_t>("lengths")},
        second_lengths{golden.values<std::int32_t>("second_lengths")} {}

  std::vector<std::int32_t> x, second, targets, lengths, second_lengths;
};

/// What leaves the criterion, below the trainer's door.
template <class TrainerType>
void check_rows(TrainerType& trainer, test::Golden const& golden, Batch const& from, double bound) {
  using T = typename TrainerType::T;
  std::vector<T> outputs(from.targets.size() * 3);
  StepBatch<T, std::int32_t, std::int32_t> const batch{
      .x = from.x.data(),
      .targets = from.targets.data(),
      .outputs = outputs.data(),
      .size = static_cast<int>(from.lengths.size()),
      .time = time,
      .lengths = from.lengths.data(),
      .second = {from.second.data(), time, from.second_lengths.data()}};
  trainer.workers().run([&](auto& rank) { return rank.forward(StepState{}, batch); });
  std::vector<T> rows;
  for (std::size_t r = 0; r < from.targets.size(); ++r) {
    rows.push_back(from.targets[r] < 0 ? T{0} : outputs[r * 3]);
  }
  test::check_close<T>("rows", rows, golden.values("rows"), 1.0, bound);
}

/// PyTorch's numbers under S.
template <class Net, class Backend, class S = SingleDevice<>>
void check(std::string const& name, double bound) {
  test::Watchdog const watchdog{name.c_str()};
  test::Golden const golden{name};
  Batch const batch{golden};
  using TrainerType = Trainer<Net, S, Backend>;
  using T = typename TrainerType::T;
  TrainerType trainer{{.batch = static_cast<int>(batch.lengths.size()),
                       .optimizer = Adam{.learning_rate = 0.02F},
                       .clip_norm = 0.5,
                       .threads_per_device = 1}};
  trainer.load_weights(golden.path());
  if constexpr (S::ranks == 1) {
    check_rows(trainer, golden, batch, 10 * bound);
  }
  auto const losses = golden.values("losses.adam");
  auto const norms = golden.values("norms");
  for (std::size_t s = 0; s < losses.size(); ++s) {
    StepResult const result = trainer.step(
        batch.x, batch.targets,
        {.lengths = batch.lengths, .second = batch.second, .second_lengths = batch.second_lengths});
    INFO(name << ", step " << s);
    CHECK(std::abs(result.loss - losses[s]) <= bound * losses[s]);
    CHECK(std::abs(result.gradient_norm - norms[s]) <= 10 * bound * norms[s]);
    for (NamedParameter<T> const& p : trainer.parameters()) {
      if (s == 0) {
        auto const wanted = golden.values("gradient." + std::string{p.name});
        test::check_close<T>(p.name, p.gradient, wanted, test::largest(wanted), 10 * bound);
      }
    }
  }
}

TEST_CASE("a Gnmt has PyTorch's rows, loss, gradients and steps, in double") {
  check<TwoLayers, Double>("gnmt", 1e-12);
  check<ThreeLayers, Double>("gnmt_3", 1e-12);
}

TEST_CASE("in float, too, and in two models cut between encoder and decoder") {
  check<ThreeLayers, Host>("gnmt_3", 1e-5);
  check<TwoLayers, Double, CrossModelParallel<AverageGradients, Split<3>, Split<5>>>("gnmt", 1e-12);
}

}  // namespace gnmt_test
}  // namespace tandem
