// SPDX-License-Identifier: Apache-2.0
// Loss scaling: a scale changes no bits, a step whose gradient overflows moves no weight, and every
// rank decides so at the same step.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace scaled_loss_test {

using test::message;
using test::TinyNet;
using R = Reproducible<>;
using One = SingleDevice<Microbatches<4>, R>;
using OnHost = BasicHost<Portable>;
constexpr int batch = 8;

/// Squared errors, with gradients of 2^30 or so.
struct Loud {
  static constexpr char const* name = "loud";
  using Target = std::int32_t;
  static constexpr int targets(Shape) { return 1; }
  template <class T>
  static double value(std::span<T const> y, std::span<std::int32_t const> label) {
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const off = static_cast<double>(y[i]) - (std::cmp_equal(i, label[0]) ? 1.0 : 0.0);
      sum += 0x1p29 * off * off;
    }
    return sum;
  }
  template <class T>
  static void gradient(std::span<T const> y, std::span<std::int32_t const> label, std::span<T> dy) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      dy[i] = T{0x1p30} * (y[i] - (std::cmp_equal(i, label[0]) ? T{1} : T{0}));
    }
  }
};

/// Of which a gradient of that in fp32 overflows in some first steps.
constexpr LossScaling too_much{.initial = 0x1p100, .every = 3};

TrainerOptions scaled(LossScaling const& scaling = too_much) {
  return {.batch = batch,
          .optimizer = Adam{.learning_rate = 0.01F},
          .clip_norm = 1e30,
          .loss_scaling = scaling,
          .average = {.decay = 0.75},
          .seed = 7,
          .threads_per_device = 1};
}

template <class S = One, class Net = TinyNet, class Loss = Loud>
using On = Trainer<Net, S, OnHost, Loss, NoMetric>;

template <class T>
StepResult step_of(T& trainer, int step) {
  test::Samples<float> const data{T::input, 5, batch, static_cast<std::uint64_t>(step)};
  return trainer.step(data.x, data.y);
}

/// Weights, statistics, averages and states.
template <class T>
std::vector<std::vector<float>> bits_of(T const& trainer) {
  std::vector<std::vector<float>> all;
  for (auto const& p : trainer.parameters()) {
    all.emplace_back(p.value.begin(), p.value.end());
    all.emplace_back(p.average.begin(), p.average.end());
    for (std::span<float const> const state : p.states) {
      all.emplace_back(state.begin(), state.end());
    }
  }
  return all;
}

struct Run {
  std::vector<double> numbers{};
  std::vector<std::vector<float>> bits{};
  int skipped = 0;
  friend bool operator==(Run const&, Run const&) = default;
};

template <class T>
void train(T& trainer, int begin, int end, Run& run) {
  for (int s = begin; s < end; ++s) {
    StepResult const r = step_of(trainer, s);
    run.numbers.insert(run.numbers.end(), {r.loss, r.metric, r.gradient_norm, r.loss_scale});
    run.skipped += r.skipped ? 1 : 0;
  }
  run.bits = bits_of(trainer);
}

template <class S, class Net = TinyNet, class Loss = Loud>
Run run_of(TrainerOptions const& options, int steps) {
  test::Watchdog const watchdog{"scaled steps"};
  On<S, Net, Loss> trainer{options};
  Run run;
  train(trainer, 0, steps, run);
  return run;
}

struct Plain : Network<Vector<6>, Sequential<Linear<8>, ReLU, Linear<5>>> {};

template <class S, class Net, class Loss>
void check_same_bits() {
  Run const plain = run_of<S, Net, Loss>(scaled(LossScaling::off()), 4);
  Run all = run_of<S, Net, Loss>(scaled({}), 4);
  CHECK(all.skipped == 0);
  for (std::size_t i = 3; i < all.numbers.size(); i += 4) {
    CHECK(all.numbers[i] == 65536.0);
    all.numbers[i] = 0.0;
  }
  CHECK(all == plain);
}

TEST_CASE("a power of two as scale changes no bit, of losses over samples and over targets") {
  check_same_bits<One, TinyNet, Loud>();
  check_same_bits<SingleDevice<>, Plain, SoftmaxCrossEntropy<>>();
  check_same_bits<SingleDevice<>, Plain, SoftmaxCrossEntropy<IgnoreIndex<2>>>();
}

/// Nine steps on one device, of which some are skipped.
Run const& nine_steps() {
  static Run const run = run_of<One>(scaled(), 9);
  return run;
}

TEST_CASE("steps whose gradients overflow are skipped alike on any ranks") {
  Run const& one = nine_steps();
  CHECK(one.skipped >= 1);
  CHECK(one.skipped <= 7);
  CHECK(run_of<DataParallel<4, R>>(scaled(), 9) == one);
  CHECK(run_of<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>(scaled(), 9) == one);
  CHECK(run_of<Pipeline<Chimera, 4, Split<4>, Split<5>, R>>(scaled(), 9) == one);
}

TEST_CASE("a skipped step moves statistics, as PyTorch's do, but neither weights nor states") {
  On<> trainer{scaled()};
  auto const before = trainer.parameters();
  std::vector<std::vector<float>> values;
  for (auto const& p : before) {
    values.emplace_back(p.value.begin(), p.value.end());
  }
  StepResult const result = step_of(trainer, 0);
  REQUIRE(result.skipped);
  CHECK(result.loss_scale == 0x1p100);
  CHECK(result.gradient_norm == std::numeric_limits<double>::infinity());
  CHECK(trainer.position().scaling == LossScale{0x1p99F, 0, 1});
  int statistics = 0;
  std::size_t i = 0;
  for (auto const& p : trainer.parameters()) {
    bool const same = std::ranges::equal(p.value, values[i++]);
    bool const statistic = p.name.find("running_") != std::string::npos;
    CHECK(same != statistic);
    statistics += statistic ? 1 : 0;
    for (std::span<float const> const state : p.states) {
      CHECK(std::ranges::count(state, 0.0F) == std::ssize(state));
    }
    if (!p.average.empty()) {
      CHECK(std::ranges::equal(p.average, p.value));  // it begins at the first step
    }
  }
  CHECK(statistics > 0);
}

TEST_CASE("optimizers count the steps that they took: Adam goes on as if none had been skipped") {
  On<SingleDevice<>, Plain> with{scaled()};
  int s = 0;
  while (step_of(with, s).skipped) {
    ++s;
  }
  CHECK(s >= 1);
  On<SingleDevice<>, Plain> without{scaled(LossScaling::off())};
  step_of(without, s);
  for (int after = s + 1; after < s + 4; ++after) {
    CHECK(step_of(with, after).loss == step_of(without, after).loss);
  }
  auto const a = with.parameters();
  auto const b = without.parameters();
  for (std::size_t p = 0; p < a.size(); ++p) {
    CHECK(std::ranges::equal(a[p].value, b[p].value));
    CHECK(std::ranges::equal(a[p].states[1], b[p].states[1]));
  }
}

TEST_CASE("scale and counts are in checkpoints, on which any ranks go on bit by bit") {
  test::TemporaryFolder const folder;
  On<> first{scaled()};
  Run begun;
  train(first, 0, 4, begun);
  first.save(folder.file("four"));
  CHECK(first.position().scaling.skipped == begun.skipped);
  On<DataParallel<4, R>> second{scaled({.initial = 8, .every = 3})};
  second.load(folder.file("four"));
  CHECK(second.position().scaling == first.position().scaling);
  train(second, 4, 9, begun);
  CHECK(begun == nine_steps());

  On<> off{scaled(LossScaling::off())};  // takes no notice
  off.load(folder.file("four"));
  CHECK(!off.position().scaling.on());
  CHECK(step_of(off, 4).loss_scale == 0.0);
  off.save(folder.file("off"));
  On<> anew{scaled({.initial = 8})};  // of a file that has none
  anew.load(folder.file("off"));
  CHECK(anew.position().scaling == LossScale{.scale = 8.0F});
  CHECK(step_of(anew, 5).loss_scale == 8.0);
}

/// A loss with a value and without a slope.
struct Steep {
  static constexpr char const* name = "steep";
  using Target = float;
  static constexpr int targets(Shape) { return 1; }
  template <class T>
  static double value(std::span<T const>, std::span<float const>) {
    return 1.0;
  }
  template <class T>
  static void gradient(std::span<T const>, std::span<float const> target, std::span<T> dy) {
    std::fill(dy.begin(), dy.end(), target[0] > 0.0F ? std::numeric_limits<T>::infinity() : T{1});
  }
};

TEST_CASE("a gradient that no scale makes finite ends with a sentence, and changes nothing") {
  Trainer<Plain, SingleDevice<>, OnHost, Steep, NoMetric> trainer{
      {.batch = 2, .loss_scaling = LossScaling{.initial = 0x1p-12}}};
  std::vector<float> const x(12, 0.5F);
  std::vector<float> const bad(2, 1.0F);
  std::vector<float> const good(2, 0.0F);
  auto const before = bits_of(trainer);
  CHECK(trainer.step(x, bad).skipped);
  CHECK(trainer.step(x, bad).skipped);
  CHECK(message<NonFiniteLoss>([&] { trainer.step(x, bad); }) ==
        "step 2: its gradient is not finite, even with the loss scaled by 6.10352e-05, so that "
        "scaling is not what it lacks; parameters are those of before the step: lower the learning "
        "rate, or train in Bf16 or Fp32");
  CHECK(bits_of(trainer) == before);
  CHECK(trainer.position().step == 2);
  CHECK(!trainer.step(x, good).skipped);  // another batch may go on
}

TEST_CASE("a loss that is not finite is an error as ever, and moves no scale") {
  On<SingleDevice<>, Plain> trainer{scaled({})};
  test::Samples<float> data{vector_shape(6), 5, batch, 1};
  data.x[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(message<NonFiniteLoss>([&] { trainer.step(data.x, data.y); }).find("sample 0") !=
        std::string::npos);
  CHECK(trainer.position().scaling == LossScale{65536.0F});
}

TEST_CASE("watchers and logs see skipped steps") {
  test::TemporaryFolder const folder;
  auto const data = test::dataset(On<>::input, 5, 9 * batch, 3);
  On<> trainer{scaled()};
  std::int64_t skipped = 0;
  {
    StepLog log{folder.file("run.jsonl")};
    EpochResult const result = trainer.train(data, 0, Progress::none(), [&](StepReport const& r) {
      skipped += r.skipped ? 1 : 0;
      log(r);
    });
    CHECK(skipped >= 1);
    CHECK(result.skipped == skipped);
    CHECK(trainer.position().scaling.skipped == skipped);
  }
  std::ifstream file{folder.file("run.jsonl")};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  CHECK(text.find("\"gradient_norm\":null") != std::string::npos);
  CHECK(text.find(",\"loss_scale\":1.2676506e+30,\"skipped\":1}\n") != std::string::npos);
  CHECK(text.find("\"skipped\":0}\n") != std::string::npos);
}

TEST_CASE("what loss scaling cannot have is refused in a sentence") {
  auto const refused = [](LossScaling const& scaling) {
    return message<ContractError>([&] { On<SingleDevice<>, Plain>{scaled(scaling)}; });
  };
  CHECK(refused({.initial = -1.0}).find("LossScaling: initial must be") != std::string::npos);
  CHECK(refused({.initial = std::nan("")}).find("LossScaling: initial") != std::string::npos);
  CHECK(refused({.growth = 0.5}).find("LossScaling: growth must be") != std::string::npos);
  CHECK(refused({.backoff = 1.0}).find("LossScaling: backoff must be") != std::string::npos);
  CHECK(refused({.every = 0}).find("LossScaling: every must be") != std::string::npos);
  TrainerOptions const options{.batch = batch, .loss_scaling = LossScaling{}};
  using InTwoModels = CrossModelParallel<AverageWeights<>, Split<1>, Split<2>>;
  CHECK(message<ContractError>([&] {
          On<InTwoModels, Plain>{options};
        }).find("with this averaging rule each of two models has its own") != std::string::npos);
  using Late = Pipeline<PipeDream, 1, Split<1>, Split<2>>;
  CHECK(message<ContractError>([&] {
          On<Late, Plain>{options};
        }).find("asynchronous pipeline updates each stage before it has seen") !=
        std::string::npos);
}

}  // namespace scaled_loss_test
}  // namespace tandem
