// SPDX-License-Identifier: Apache-2.0
// A model of the library's that the compiler cuts so that stages only pass on what they received:
// see sent_memory_test.cpp.

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace sent_memory_models_test {

struct Small : models::SmallCnn<10> {};

TEST_CASE("SmallCnn on seven devices predicts as on one") {
  Watchdog const watchdog{"SmallCnn on seven devices"};
  TrainerOptions const options{.batch = 64, .seed = 3, .threads_per_device = 1};
  Trainer<Small, SingleDevice<Microbatches<16>>, Host> one{options};
  Trainer<Small, ModelParallel<Auto<7>, Microbatches<16>>, Host> many{options};
  auto const data = dataset(many.input, 10, 64);
  auto const outputs = one.predict(data);
  for (int i = 0; i < 3; ++i) {
    CHECK(many.predict(data) == outputs);
  }
}

}  // namespace sent_memory_models_test
}  // namespace tandem::test
