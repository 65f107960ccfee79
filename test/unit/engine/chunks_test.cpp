// SPDX-License-Identifier: Apache-2.0
// Pipelines whose sequences come in chunks of time: the numbers of one device.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <support/chunk_runs.hpp>

namespace chunks_test {

using namespace tandem;

TEST_CASE("two devices, two microbatches, three chunks") {
  using Two = Pipeline<OneFOneB, 2, Chunks<3>, Split<3>, Split<5>>;
  check_chunks<Two>();
  CHECK(Run<Two>{}.trainer.memory(0).states > 0);
}

TEST_CASE("input gradients and weight gradients apart") {
  check_chunks<Pipeline<ZeroBubbleH1, 3, Chunks<2>, Split<4>, Split<4>>>();
}

TEST_CASE("three devices, samples of several lengths, steps of rows that no chunks divide") {
  std::vector<std::int32_t> const lengths{6, 1, 2, 3, 4, 5, 6};
  using Three = Pipeline<GPipe, 1, Chunks<3>, Split<2>, Split<3>, Split<3>>;
  check_chunks<Three>(lengths);
  using One = SingleDevice<Microbatches<1>>;
  CHECK(distance(Run<One>{lengths}.numbers, Run<One>{}.numbers) > 1e-3);
  for (int const time : {5, 4, 1}) {
    check_chunks<Three>({}, time);
  }
}

}  // namespace chunks_test
