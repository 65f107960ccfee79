// SPDX-License-Identifier: Apache-2.0
// Pipelines whose sequences come in chunks of time: the numbers of one device.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <support/chunk_runs.hpp>

namespace chunks_test {

using namespace tandem;

constexpr double bound = 1e-12;  // about 50 roundings of numbers of size 1 each way, a thousandfold

TEST_CASE("two devices, two microbatches, three chunks") {
  Run<SingleDevice<Microbatches<2>>> const one;
  Run<Pipeline<OneFOneB, 2, Chunks<3>, Split<3>, Split<5>>> const two;
  CHECK(distance(one.numbers, two.numbers) <= bound);
  CHECK(two.trainer.memory(0).states > 0);
}

TEST_CASE("input gradients and weight gradients apart") {
  Run<SingleDevice<Microbatches<3>>> const one;
  Run<Pipeline<ZeroBubbleH1, 3, Chunks<2>, Split<4>, Split<4>>> const two;
  CHECK(distance(one.numbers, two.numbers) <= bound);
}

TEST_CASE("three devices, samples of several lengths, steps of rows that no chunks divide") {
  std::vector<std::int32_t> const lengths{6, 1, 2, 3, 4, 5, 6};
  Run<SingleDevice<>> const one{lengths};
  using Three = Pipeline<GPipe, 1, Chunks<3>, Split<2>, Split<3>, Split<3>>;
  Run<Three> const three{lengths};
  CHECK(distance(one.numbers, three.numbers) <= bound);
  CHECK(distance(one.numbers, Run<SingleDevice<>>{}.numbers) > 1e-3);
  for (int const time : {5, 4, 1}) {
    CHECK(distance(Run<SingleDevice<>>{{}, time}.numbers, Run<Three>{{}, time}.numbers) <= bound);
  }
}

}  // namespace chunks_test
