// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a backend which absorbs biases (graph/rewrite.hpp) trains as the portable kernels
/// do, which add each bias where it stands: the same losses, running means and predictions.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {

template <int Out, template <class...> class Norm, class... Options>
using BiasedNorm = Sequential<Conv2d<Out, Options...>, Norm<>, ReLU>;

/// Biases that are absorbed: 0, 3.0.0, 3.1.0, 4 and 7.body.0; and that are not: 3.2.0, whose norm
/// is frozen, and 8, which no norm reads.
template <template <class...> class Norm>
struct BiasedNet
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<6, Kernel<3>, Padding<1>>, Norm<>, ReLU,  // 0 1 2
                         Concat<BiasedNorm<4, Norm>, BiasedNorm<3, Norm>,
                                Sequential<Conv2d<2>, Frozen<Norm<>>, ReLU>>,  // 3 (9, 8, 8)
                         Conv2d<6, Kernel<3>, Stride<2>, Groups<3>>,           // 4 (6, 3, 3)
                         Norm<>, ReLU,                                         // 5 6
                         Residual<Sequential<Conv2d<6>, Norm<>>>,              // 7
                         Conv2d<5>, ReLU, GlobalAvgPool, Linear<5>>> {};       // 8 9 10 11

using ExactHost = BasicHost<Portable, Fp64>;

inline TrainerOptions biased_options() {
  return {.batch = 13,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F},
          .seed = 7,
          .threads_per_device = 1};
}

/// Step @p step on a batch of its own.
template <class Trainer>
StepResult biased_step(Trainer& trainer, int step) {
  static constexpr int sizes[] = {13, 12, 8, 13};
  using T = typename Trainer::T;
  Samples<T> const data{Trainer::input, Trainer::output[0], sizes[step],
                        static_cast<std::uint64_t>(step)};
  return trainer.step(data.x, data.y);
}

using Names = std::initializer_list<char const*>;
inline constexpr Names all_absorbed = {"0.bias", "3.0.0.bias", "3.1.0.bias", "4.bias",
                                       "7.body.0.bias"};

/// The gradient of each bias in @p absorbed is 0, and of the others is not, on every rank.
template <class Trainer>
void check_bias_gradients(Trainer& trainer, Names absorbed) {
  for (auto const& own : trainer.parameters()) {
    bool const zero = std::all_of(own.gradient.begin(), own.gradient.end(),
                                  [](auto g) { return g == 0 && !std::signbit(g); });
    bool const wanted = std::count(absorbed.begin(), absorbed.end(), own.name) > 0;
    INFO(own.name);
    CHECK((zero || !wanted));
    CHECK((!zero || wanted || own.gradient.empty()));
  }
}

template <class A, class B>
void check_predictions(A& exact, B& tested, double bound) {
  auto const data = dataset(A::input, A::output[0], 11, 99);
  double const loss = exact.evaluate(data).loss;
  CHECK(std::fabs(tested.evaluate(data).loss - loss) <= bound * loss);
  std::vector<float> const a = exact.predict(data);
  std::vector<float> const b = tested.predict(data);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::fabs(a[i] - b[i]) <= std::max(bound, 1e-6) * (1.0F + std::fabs(a[i])));
  }
}

/// Four steps on batches of several sizes, then an evaluation, under the same microbatches.
/// @tparam Exact   of portable kernels
/// @param absorbed names of biases
template <class Exact, class Tested>
void check_trains_alike(double bound, Names absorbed = all_absorbed) {
  Watchdog const watchdog{"absorbed biases"};
  Exact exact{biased_options()};
  Tested tested{biased_options()};
  for (int s = 0; s < 4; ++s) {
    StepResult const a = biased_step(exact, s);
    StepResult const b = biased_step(tested, s);
    CHECK(std::fabs(a.loss - b.loss) <= bound * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= bound * a.gradient_norm);
  }
  check_bias_gradients(tested, absorbed);  // not before: it would empty an asynchronous pipeline
  Difference const off = difference(tested.parameters(), exact.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= bound);
  check_predictions(exact, tested, bound);
}

/// What one saves the other loads: it predicts alike, and goes on alike.
template <class Exact, class Tested>
void check_checkpoints(double bound) {
  Watchdog const watchdog{"checkpoints of absorbed biases"};
  TemporaryFolder const folder;
  Exact exact{biased_options()};
  Tested tested{biased_options()};
  biased_step(exact, 0);
  exact.save(folder.file("exact"));
  tested.load(folder.file("exact"));
  check_predictions(exact, tested, bound);
  for (int s = 1; s < 3; ++s) {
    biased_step(exact, s);
    biased_step(tested, s);
  }
  check_predictions(exact, tested, bound);
  tested.save(folder.file("tested"));
  exact.load(folder.file("tested"));
  check_predictions(exact, tested, bound);
  StepResult const a = biased_step(exact, 3);
  StepResult const b = biased_step(tested, 3);
  CHECK(std::fabs(a.loss - b.loss) <= bound * a.loss);
}

}  // namespace tandem::test
