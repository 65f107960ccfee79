// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training in fp16 with loss scaling: a scale that is too large at first, near fp32, the same bits
/// on any ranks, recorded and resumed.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <tandem/models/gpt.hpp>
#include <tandem/optim/lamb.hpp>
#include <tandem/optim/lion.hpp>

#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <token_network.hpp>

#include "support.hpp"

namespace tandem::test {
namespace scaled_training {

using R = Reproducible<>;
using One = SingleDevice<Microbatches<4>, R>;
using InTwo = DataParallel<2, Microbatches<2>, R>;

// Without dropout, so that precisions can be compared; the result is a criterion's.
struct Gpt : models::Gpt<words, longest, 8, 2, 2, Percent<0>> {};

template <class S, class Precision, class Net>
using OnDevice =
    Trainer<Net, S, BasicCuda<Portable, Precision>, DefaultLoss<Net>, Accuracy, VirtualTransport>;

TrainerOptions scaled(double initial) {
  TrainerOptions options = engine_options();
  options.optimizer = AdamW{.learning_rate = 0.01F};
  options.loss_scaling = LossScaling{.initial = initial, .every = 4};
  return options;
}

template <class T>
StepResult step_of(T& trainer, int step) {
  if constexpr (T::graph.node[0].limit > 0) {
    TokenBatch const batch = token_batch(12, longest - step % 2, step, step % 3 == 0);
    return trainer.step(batch.x, batch.targets, {.time = batch.time, .lengths = batch.lengths});
  } else {
    return engine_step(trainer, step % 5);  // of at most 13 samples
  }
}

struct Run {
  std::vector<double> numbers{};
  std::vector<bool> skipped{};
  friend bool operator==(Run const&, Run const&) = default;
};

template <class T>
void take_steps(T& trainer, int begin, int end, Run& run) {
  Watchdog const watchdog{"scaled steps"};
  for (int s = begin; s < end; ++s) {
    StepResult const r = step_of(trainer, s);
    run.numbers.insert(run.numbers.end(), {r.loss, r.metric, r.gradient_norm, r.loss_scale});
    run.skipped.push_back(r.skipped);
  }
}
template <class T>
void take_bits(T const& trainer, Run& run) {
  for (auto const& p : trainer.parameters()) {
    run.numbers.insert(run.numbers.end(), p.value.begin(), p.value.end());
    for (auto const state : p.states) {
      run.numbers.insert(run.numbers.end(), state.begin(), state.end());
    }
  }
}

constexpr int steps = 12;

template <class S, class Net>
Run run_of(TrainerOptions const& options) {
  OnDevice<S, Fp16, Net> trainer{options};
  Run run;
  take_steps(trainer, 0, steps, run);
  take_bits(trainer, run);
  return run;
}

template <class Net, class... Many>
void check_ranks(double initial) {
  TrainerOptions options = scaled(initial);
  Run const one = run_of<One, Net>(options);
  auto const skips = std::ranges::count(one.skipped, true);
  CHECK(one.skipped[0]);
  CHECK(skips >= 2);
  CHECK(skips <= steps / 2);
  CHECK(((one == run_of<Many, Net>(options)) && ...));
  options.record = false;
  CHECK(one == run_of<One, Net>(options));  // recorded as walked
}

TEST_CASE("fp16: a CNN skips steps until its scale fits, alike on any ranks, recorded or walked") {
  check_ranks<TinyNet, InTwo, Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>(0x1p24);
}

TEST_CASE("fp16: a GPT, whose criterion makes gradients in forward, likewise") {
  check_ranks<Gpt, Pipeline<OneFOneB, 4, Split<3>, Split<3>, R>>(0x1p23);
}

/// Losses of the same steps, of which none is skipped: in fp16 each value of some 2^-11 is off.
template <class Net>
void check_near_fp32() {
  TrainerOptions options = engine_options();
  OnDevice<SingleDevice<>, Fp32, Net> full{options};
  OnDevice<SingleDevice<>, Fp16, Net> half{options};
  CHECK(half.options().loss_scaling->initial == 65536.0);
  CHECK(!full.options().loss_scaling->on());
  for (int s = 0; s < 8; ++s) {
    StepResult const a = step_of(full, s);
    StepResult const b = step_of(half, s);
    CAPTURE(s);
    CHECK(b.loss_scale == 65536.0);
    CHECK(!b.skipped);
    CHECK(std::fabs(a.loss - b.loss) <= 0.01 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 0.05 * a.gradient_norm);
  }
}

TEST_CASE("fp16: with the scale of the default losses and norms are near fp32's") {
  check_near_fp32<TinyNet>();
  check_near_fp32<Gpt>();
}

TEST_CASE("fp16: a run resumes with the bits of one that never stopped, on other ranks") {
  TemporaryFolder const folder;
  TrainerOptions const options = scaled(0x1p24);
  OnDevice<One, Fp16, TinyNet> whole{options};
  Run wanted;
  take_steps(whole, 0, 8, wanted);
  take_bits(whole, wanted);
  OnDevice<One, Fp16, TinyNet> first{options};
  Run run;
  take_steps(first, 0, 5, run);
  first.save(folder.file("five"));
  OnDevice<InTwo, Fp16, TinyNet> second{scaled(1.0)};
  second.load(folder.file("five"));
  CHECK(second.position().scaling == first.position().scaling);
  CHECK(second.position().scaling.skipped > 0);
  take_steps(second, 5, 8, run);
  take_bits(second, run);
  CHECK(run == wanted);
}

/// Weights and averages of a skipped step are those of before, statistics those of any step.
void check_skipped(Optimizer const& optimizer) {
  CAPTURE(optimizer_name(optimizer));
  TrainerOptions options = scaled(0x1p30);
  options.optimizer = optimizer;
  options.average = {.decay = 0.5};
  using T = OnDevice<SingleDevice<>, Fp16, TinyNet>;
  T const begin{options};
  T skipping{options};
  CHECK(engine_step(skipping, 1).skipped);
  options.loss_scaling = LossScaling::off();
  T plain{options};
  CHECK(!engine_step(plain, 1).skipped);
  auto const was = begin.parameters();
  auto const is = skipping.parameters();
  auto const other = plain.parameters();
  for (std::size_t p = 0; p < was.size(); ++p) {
    CAPTURE(was[p].name);
    bool const statistic = was[p].name.find("running_") != std::string::npos;
    CHECK(std::ranges::equal(is[p].value, (statistic ? other : was)[p].value));
    CHECK(std::ranges::equal(is[p].value, (statistic ? was : other)[p].value) == false);
    CHECK((is[p].average.empty() || std::ranges::equal(is[p].average, is[p].value)));
    for (std::size_t s = 0; s < is[p].states.size(); ++s) {
      CHECK(std::ranges::equal(is[p].states[s], was[p].states[s]));
    }
  }
}

TEST_CASE("fp16: a skipped step moves statistics alone, whatever the optimizer") {
  using Backend = BasicCuda<Portable, Fp16>;
  check_skipped(Sgd{.learning_rate = 0.1F, .momentum = 0.9F});
  check_skipped(own_optimizer<Backend>(Lion{.learning_rate = 0.01F}));
  check_skipped(own_optimizer<Backend>(Lamb{.learning_rate = 0.01F}));
}

/// A slope that no scale makes finite.
struct Cliff {
  static constexpr char const* name = "cliff";
  using Target = std::int32_t;
  static constexpr int targets(Shape) { return 1; }
  TANDEM_HOST_DEVICE static double value(Row<float const> y, Row<std::int32_t const>) {
    return static_cast<double>(y[0]) * 0.0 + 1.0;
  }
  TANDEM_HOST_DEVICE static void gradient(Row<float const>, Row<std::int32_t const>,
                                          Row<float> dy) {
    for (float& element : dy) {
      element = HUGE_VALF;
    }
  }
};

TEST_CASE("fp16: a lost scale ends train() with a sentence, steps that were queued behind it too") {
  using T = Trainer<TinyNet, SingleDevice<>, BasicCuda<Portable, Fp16>, Cliff, NoMetric,
                    VirtualTransport>;
  TrainerOptions options = scaled(0x1p-13);
  T trainer{options};
  auto const data = dataset(T::input, 5, 60);
  std::string const text = message<NonFiniteLoss>([&] { trainer.train(data, 0); });
  CHECK(text.find("step 1: its gradient is not finite, even with the loss scaled by") == 0);
  CHECK(trainer.position().step == 1);
  CHECK(trainer.position().scaling == LossScale{0x1p-15F, 0, 2});
}

}  // namespace scaled_training
}  // namespace tandem::test
