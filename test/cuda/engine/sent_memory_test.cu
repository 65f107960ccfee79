// SPDX-License-Identifier: Apache-2.0

/// @file
/// Stages that only pass on what they received send it from where it arrived, on a GPU too: the
/// next microbatch must not arrive there before it has left.

#include <doctest/doctest.h>

#include <string>

#include <support/watchdog.hpp>

#include "support.hpp"

namespace sent_memory_test {

using namespace tandem;
using namespace tandem::test;

struct Stem
    : Network<Vector<4>,
              Sequential<Frozen<Linear<64>>, Sequential<ReLU, Dropout<Percent<25>>>, Linear<3>>> {};
struct Long : Network<Vector<4>, Sequential<Linear<64>, ReLU, ReLU, Linear<3>>> {};

/// Predictions, and losses and weights of training, have the bits of one device.
template <class Net, class S>
void check() {
  Watchdog const watchdog{"stages that pass on"};
  constexpr int microbatches = S::batching.microbatches;
  OnGpu<SingleDevice<Microbatches<microbatches>>, Fp32, Net> one{engine_options()};
  OnGpu<S, Fp32, Net> many{engine_options()};
  auto const predicted = [&](int count) {
    auto const data = dataset(many.input, 3, count);
    CHECK(many.predict(data) == one.predict(data));
    CHECK(many.evaluate(data).loss == one.evaluate(data).loss);
  };
  predicted(largest_batch);
  for (int step = 0; step < 4; ++step) {  // recorded, and replayed
    CHECK(engine_step(many, step).loss == engine_step(one, step).loss);
  }
  CHECK(first_difference(many.parameters(), one.parameters()) == "");
  predicted(largest_batch);
  predicted(4);
}

TEST_CASE("sent memory: a ReLU in place and a Dropout between two devices; no gradient returns") {
  check<Stem, ModelParallel<Split<1>, Split<1>, Split<1>, Microbatches<8>>>();
}

TEST_CASE("sent memory: a pipeline's stages, with microbatches that have no samples") {
  check<Long, Pipeline<OneFOneB, 8, Split<1>, Split<1>, Split<1>, Split<1>>>();
}

}  // namespace sent_memory_test
