// SPDX-License-Identifier: Apache-2.0
// Frozen<…>: what is in it stays, has no gradient, and changes no other gradient.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <rank_of.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace frozen_test {

/// Passes numbers on and counts the gradients that it is asked for.
struct Counter {
  static constexpr std::string_view name = "Counter";
  static inline int gradients = 0;
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& call) { std::ranges::copy(call.x, call.y.begin()); }
  static void input_gradient(auto const& call) {
    ++gradients;
    std::ranges::copy(call.dy, call.dx.begin());
  }
};

struct Stem : Sequential<Conv2d<4, Kernel<3>, Padding<1>>, Counter, BatchNorm2d<>, ReLU> {};
struct Middle : Sequential<Conv2d<4, Kernel<3>>, ReLU> {};

template <class First, class Second>
struct Net : Network<Image<3, 8, 8>, Sequential<First, BatchNorm2d<>, Second, BatchNorm2d<>,
                                                Counter, GlobalAvgPool, Linear<5>>> {};
struct AllTrained : Net<Stem, Middle> {};
struct FrozenStem : Net<Frozen<Stem>, Middle> {};
struct FrozenMiddle : Net<Stem, Frozen<Middle>> {};
/// All but the last layer.
struct FrozenBody
    : Network<
          Image<3, 8, 8>,
          Sequential<Frozen<Sequential<Stem, BatchNorm2d<>, Middle, GlobalAvgPool>>, Linear<5>>> {};

constexpr int batch = 6;
TrainerOptions options() {
  return {.batch = batch,
          .optimizer = AdamW{.learning_rate = 0.05F, .weight_decay = 0.1F},
          .threads_per_device = 1};
}
template <class N, class S = SingleDevice<>>
using Fp = Trainer<N, S, Host>;

template <class T>
StepResult step(T& trainer, std::uint64_t seed = 1) {
  test::Samples<float> const data{T::input, 5, batch, seed};
  return trainer.step(data.x, data.y);
}

/// The running statistics of a fresh network say little; give them values of their own.
template <class T>
void set_statistics(T& trainer) {
  for (auto const& p : trainer.parameters()) {
    if (p.role == Role::statistic) {
      trainer.set_parameter(
          p.name, std::vector<float>(p.value.size(), p.name.ends_with("mean") ? 0.2F : 0.7F));
    }
  }
}

/// After three steps frozen parameters and statistics have the bits of before, and all others not.
template <class T>
void check_stays(T& trainer, std::string const& prefix) {
  set_statistics(trainer);
  auto const before = test::values_of(trainer.parameters());
  for (std::uint64_t s = 0; s < 3; ++s) {
    step(trainer, s);
  }
  std::size_t i = 0;
  for (auto const& p : trainer.parameters()) {
    INFO(p.name);
    bool const frozen = p.name.starts_with(prefix);
    CHECK(p.frozen == frozen);
    CHECK(std::ranges::equal(p.value, before[i++]) == frozen);
    CHECK(p.gradient.empty() == frozen);
    CHECK(p.states.empty() == (frozen || p.role == Role::statistic));
  }
}

TEST_CASE("what is frozen stays as it is, statistics too, and has neither gradient nor state") {
  Fp<FrozenStem> stem{options()};
  check_stays(stem, "0.");
  Fp<FrozenMiddle> middle{options()};
  check_stays(middle, "2.");
  Fp<AllTrained> all{options()};
  MemoryReport const whole = all.memory();
  CHECK(stem.memory().parameters == whole.parameters);
  CHECK(stem.memory().gradients < whole.gradients);
  CHECK(stem.memory().gradients == 4 * test::DeviceOf<decltype(stem)>::layout.trained);
  CHECK(stem.memory().optimizer_state == 2 * stem.memory().gradients);
  CHECK(stem.memory().kept < whole.kept);  // backward reads nothing of it
}

TEST_CASE("the gradients of the others are the same bits as without Frozen") {
  Fp<AllTrained> all{options()};
  Fp<FrozenMiddle> middle{options()};
  CHECK(step(all).loss == step(middle).loss);
  auto const a = all.parameters();
  auto const b = middle.parameters();
  REQUIRE(a.size() == b.size());
  for (std::size_t p = 0; p < a.size(); ++p) {
    INFO(a[p].name);
    CHECK(a[p].name == b[p].name);
    CHECK((b[p].frozen || test::same_bits(a[p].gradient, b[p].gradient)));
  }
}

TEST_CASE("nothing below the first trained layer computes a gradient") {
  Fp<AllTrained> all{options()};
  Fp<FrozenMiddle> middle{options()};
  Fp<FrozenStem> stem{options()};
  auto const gradients = [](auto& trainer) {
    Counter::gradients = 0;
    step(trainer);
    return Counter::gradients;
  };
  CHECK(gradients(all) == 2);
  CHECK(gradients(middle) == 2);  // passes through what is frozen
  CHECK(gradients(stem) == 1);    // not into the stem
}

TEST_CASE("a frozen batch norm normalises by its running statistics, in training too") {
  test::Watchdog const watchdog{"frozen batch norm"};
  Fp<FrozenBody, DataParallel<2>> trainer{options()};
  test::Samples<float> const samples{trainer.input, 5, batch};
  auto const data = test::dataset(trainer.input, 5, batch);  // the same samples
  Evaluation const before = trainer.evaluate(data);
  StepResult const result = trainer.step(samples.x, samples.y);
  CHECK(std::fabs(result.loss - before.loss) <= 1e-6 * before.loss);
  check_stays(trainer, "0.");  // rank 0; with the other rank's gradients
}

}  // namespace frozen_test
}  // namespace tandem
