// SPDX-License-Identifier: Apache-2.0
// A first stage that computes nothing sends the network's input on.

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace sent_input_test {

struct Flat : Network<Image<2, 3, 3>, Sequential<Flatten, Linear<4>, ReLU, Linear<3>>> {};

TEST_CASE("a stage of a Flatten alone sends the input to the next one") {
  Watchdog const watchdog{"a stage of a Flatten"};
  TrainerOptions const options{.batch = 7, .threads_per_device = 1};
  Trainer<Flat, SingleDevice<Microbatches<3>>, BasicHost<Portable>> one{options};
  Trainer<Flat, Pipeline<GPipe, 3, Split<1>, Split<3>>, BasicHost<Portable>> two{options};
  Samples<float> const samples{Flat::input::shape, 3, 7};
  for (int s = 0; s < 2; ++s) {
    CHECK(two.step(samples.x, samples.y).loss == one.step(samples.x, samples.y).loss);
  }
  CHECK(first_difference(two.parameters(), one.parameters()) == "");
  auto const data = dataset(Flat::input::shape, samples);
  CHECK(two.predict(data) == one.predict(data));
}

}  // namespace sent_input_test
}  // namespace tandem::test
