// SPDX-License-Identifier: Apache-2.0
// Stages that only pass on what they received send it from where it arrived: the next microbatch
// must not arrive there before it has left, however slow the receiver is.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace sent_memory_test {

using Portably = BasicHost<Portable>;

/// Passes its input on, slowly, so that messages pile up before it.
struct Slow {
  static constexpr std::string_view name = "Slow";
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& call) {
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) { std::ranges::copy(call.dy, call.dx.begin()); }
};

TrainerOptions options() {
  return {.batch = 16, .optimizer = Sgd{.learning_rate = 0.1F}, .seed = 3, .threads_per_device = 1};
}

template <class Net, class S>
using One = Trainer<Net, SingleDevice<Microbatches<S::batching.microbatches>>, Portably>;

/// Predictions and losses of evaluation on whole batches and on such as leave microbatches empty,
/// have the bits of one device.
template <class Net, class S>
void check_evaluation() {
  Watchdog const watchdog{"evaluation with stages that pass on"};
  One<Net, S> one{options()};
  Trainer<Net, S, Portably> many{options()};
  for (int const count : {16, 4, 13}) {
    INFO(count << " samples");
    auto const data = dataset(many.input, 3, count);
    CHECK(many.predict(data) == one.predict(data));
    CHECK(many.evaluate(data).loss == one.evaluate(data).loss);
  }
}

/// So have losses and weights of training.
template <class Net, class S>
void check_training() {
  Watchdog const watchdog{"training with stages that pass on"};
  One<Net, S> one{options()};
  Trainer<Net, S, Portably> many{options()};
  for (int const count : {16, 9, 13}) {
    Samples<float> const data{many.input, 3, count};
    CHECK(many.step(data.x, data.y).loss == one.step(data.x, data.y).loss);
  }
  CHECK(first_difference(many.parameters(), one.parameters()) == "");
}

using End = Sequential<Slow, Linear<3>>;
using Three = ModelParallel<Split<1>, Split<1>, Split<1>, Microbatches<8>>;

struct Stem : Network<Vector<4>,
                      Sequential<Frozen<Linear<64>>, Sequential<ReLU, Dropout<Percent<25>>>, End>> {
};
struct View : Network<Image<1, 2, 2>, Sequential<Frozen<Conv2d<16>>, Flatten, End>> {};

TEST_CASE("a ReLU in place, a Dropout, a Flatten between two devices; no gradient comes back") {
  check_evaluation<Stem, Three>();
  check_training<Stem, Three>();
  check_evaluation<View, Three>();
  check_training<View, Three>();
}

struct Long : Network<Vector<4>, Sequential<Linear<64>, ReLU, ReLU, End>> {};

struct Flat : Network<Image<2, 3, 3>, Sequential<Flatten, Linear<4>, ReLU, Linear<3>>> {};

TEST_CASE("a first stage of a Flatten alone sends the network's input to the next one") {
  check_evaluation<Flat, Pipeline<GPipe, 3, Split<1>, Split<3>>>();
  check_training<Flat, Pipeline<GPipe, 3, Split<1>, Split<3>>>();
}

TEST_CASE("a pipeline's stages, with microbatches that have no samples") {
  check_evaluation<Long, Pipeline<OneFOneB, 8, Split<1>, Split<1>, Split<1>, Split<1>>>();
}

struct Fork
    : Network<Image<1, 2, 2>,
              Sequential<Conv2d<16>, Concat<Sequential<Conv2d<4>, Flatten>, Flatten>, End>> {};
inline constexpr auto fork = place<Fork>({{"1", 2}, {"1.0", 1}, {"1.1", 0}, {"2", 2}});

TEST_CASE("a view of another stage's value is sent from that stage's memory") {
  check_evaluation<Fork, ModelParallel<Placed<fork>, Microbatches<8>>>();
}

TEST_CASE("an asynchronous pipeline evaluates all microbatches in one place") {
  check_evaluation<Long, Pipeline<PipeDream2BW, 8, Split<1>, Split<2>, Split<1>>>();
}

}  // namespace sent_memory_test
}  // namespace tandem::test
