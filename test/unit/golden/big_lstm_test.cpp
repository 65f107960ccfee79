// SPDX-License-Identifier: Apache-2.0
// A small BigLstm against PyTorch, with the softmax of all words and with TensorFlow's sampled one:
// outputs, losses, every gradient, and five steps of its recipe, in double and in float.

#include "../ops/sequence_op.hpp"
#include "golden.hpp"

#include <support/watchdog.hpp>

namespace tandem {
namespace big_lstm_golden_test {

constexpr int words = 31;
constexpr int time = 20;
constexpr int drawn = 6;

struct Full : models::BigLstm<words, 7, 4, 2, Percent<0>> {};
struct Drawing : models::BigLstm<words, 7, 4, 2, Percent<0>, Sampled<drawn>> {};
struct DrawingRows : models::BigLstm<words, 7, 4, 2, Percent<0>, Sampled<drawn>, RowGradient> {};

using Double = BasicHost<Portable, Fp64>;

struct File {
  explicit File(std::string const& name) : golden{name} {}
  test::Golden golden;

  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 3; }
  [[nodiscard]] Shape shape() const { return tokens_shape(time); }
  [[nodiscard]] int targets() const { return time; }
  [[nodiscard]] int classes() const { return words; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    auto const xs = golden.values<std::int32_t>("x");
    auto const ys = golden.values<std::int32_t>("targets");
    std::copy_n(xs.begin() + index * time, time, x.begin());
    std::copy_n(ys.begin() + index * time, time, y.begin());
  }
};

TrainerOptions recipe() {
  return {
      .batch = 3,
      .groups = {{.pattern = "0.*", .gradient_scale = 3}, {.pattern = "2.*", .clip_norm = 0.25}},
      .threads_per_device = 1};
}

template <class Net, class Backend, class S = SingleDevice<>>
void check(std::string const& name, double bound) {
  test::Watchdog const watchdog{name.c_str()};
  using TrainerType = Trainer<Net, S, Backend>;
  using T = typename TrainerType::T;
  File const file{name};
  test::Golden const& golden = file.golden;
  TrainerType trainer{
      recipe(), Adagrad{.learning_rate = 0.2F, .initial_accumulator_value = 1.0F, .epsilon = 0.0F}};
  trainer.load_weights(golden.path());
  double const evaluated = golden.value("evaluation");
  CHECK(std::abs(trainer.evaluate(file).loss - evaluated) <= bound * evaluated);
  auto const losses = golden.values("losses.adagrad");
  auto const x = golden.values<std::int32_t>("x");
  auto const targets = golden.values<std::int32_t>("targets");
  for (std::size_t s = 0; s < losses.size(); ++s) {
    StepResult const result = trainer.step(x, targets);
    INFO(name << ", step " << s);
    CHECK(std::abs(result.loss - losses[s]) <= bound * losses[s]);
    for (NamedParameter<T> const& p : trainer.parameters()) {
      if (s == 0 && !p.gradient.empty()) {  // those of rows show in the losses behind
        auto const wanted = golden.values("gradient." + std::string{p.name});
        test::check_close<T>(p.name, p.gradient, wanted, test::largest(wanted), bound);
      }
    }
  }
}

TEST_CASE("the words that the file's steps drew are those of LogUniformSampler") {
  test::Golden const golden{"big_lstm_sampled"};
  auto const wanted = golden.values<std::int32_t>("sample");
  LogUniformSampler sampler{words};
  for (std::uint32_t step = 0; step < 5; ++step) {
    std::vector<std::int32_t> sample(drawn);
    CHECK(sampler.draw(sample, 0, step, 7) == golden.values<std::int64_t>("tries")[step]);
    CHECK(std::equal(sample.begin(), sample.end(), wanted.begin() + step * drawn));
  }
}

TEST_CASE("a projected LSTM with a forget bias has PyTorch's outputs") {
  using Cell = Lstm<7, OneBias, Projection<4>, ForgetBias<1>>;
  test::Golden const golden{"big_lstm"};
  test::OpTask const task{.batch = 3, .time = time, .training = false};
  test::Numbers rows;
  test::Numbers const table = golden.values("0.weight");
  for (std::int32_t const word : golden.values<std::int32_t>("x")) {
    rows.insert(rows.end(), table.begin() + word * 4, table.begin() + (word + 1) * 4);
  }
  for (std::string const cell : {"2.0.0.", "2.1.0."}) {
    std::vector<test::Numbers> weights;
    for (char const* const name : {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "weight_hr_l0"}) {
      weights.push_back(golden.values(cell + name));
    }
    rows = test::run_op<Cell, Double>(timed_shape(time, 4), task, rows, weights, {}).y;
  }
  test::check_close<double>("hidden", rows, golden.values("hidden"), 1.0, 1e-14);
}

TEST_CASE("BigLstm has PyTorch's losses, gradients and steps of its recipe") {
  check<Full, Double>("big_lstm", 1e-12);
  check<Full, Host>("big_lstm", 1e-5);
}

TEST_CASE("so it has with TensorFlow's sampled softmax, on one device and on three") {
  check<Drawing, Double>("big_lstm_sampled", 1e-12);
  check<Drawing, Host>("big_lstm_sampled", 1e-5);
  check<Drawing, Double, DataParallel<3>>("big_lstm_sampled", 1e-12);
  check<DrawingRows, Double, DataParallel<3>>("big_lstm_sampled", 1e-12);
}

}  // namespace big_lstm_golden_test
}  // namespace tandem
