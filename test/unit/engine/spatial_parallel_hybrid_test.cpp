// SPDX-License-Identifier: Apache-2.0
// Tiles within replicas and parts of a pipeline, with statistics of all of them; in the backend
// that everybody takes, with its rewrites; and what is sent.

#include <doctest/doctest.h>

#include <cstdint>

#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <tiled_images.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace spatial_parallel_hybrid_test {

using Blocks = test::TiledBlocks;

using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;

TEST_CASE("replicas of a pipeline whose parts have tiles train as replicas do") {
  test::check_three_steps<Blocks, Hybrid<DataParallel<2>, Parts, SpatialParallel<2, 1>>,
                          test::Double>(1e-12);
}

// Three steps in float: of sums, cut otherwise, each off by eps times their number.
TEST_CASE("so do devices in the backend that everybody takes") {
  test::check_three_steps<Blocks, SpatialParallel<2, 2>, Host>(1e-4);
}

// Of two tiles one above the other each has one neighbour: of a halo it gets half.
TEST_CASE("each rank gets what a table of its spreads says, and one sum of gradients a step") {
  Trainer<Blocks, SpatialParallel<2, 1, Microbatches<2>>, Host, DefaultLoss<Blocks>,
          DefaultMetric<DefaultLoss<Blocks>>, test::LoggingTransport>
      trainer{test::parity_options()};
  using Own = test::DeviceOf<decltype(trainer)>;
  test::LoggingTransport<2>::clear();
  test::parity_step(trainer, 0);  // 13 samples in two microbatches
  constexpr std::int64_t row = 8 * 13 * sizeof(float);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = test::LoggingTransport<2>::log(rank);
    test::Volume const got = test::volume(log, Operation::receive, "tiles");
    // Rows of 2 channels and of 4 in forward and in backward; of 10, of which the first tile has
    // nothing above it; the second half of 8 channels of 4 x 4.
    std::int64_t const halos = 2 * (2 + 4) + (rank == 1 ? 10 : 0) + (rank == 0 ? 10 : 0);
    CHECK(got.bytes == row * halos + 13 * 8 * 8 * std::int64_t{sizeof(float)});
    CHECK(test::volume(log, Operation::all_reduce, "gradients of tiles").calls == 1);
    CHECK(test::volume(log, Operation::all_reduce, "statistics").calls == 2 * 2 * 5);
    CHECK(test::volume(log, Operation::all_reduce, "losses").calls == 1);
  }
  constexpr SpreadVolume volume = spread_volume(Own::graph);
  static_assert(volume.exchanges == 5 && volume.reduces + volume.copies == 0);
}

}  // namespace spatial_parallel_hybrid_test
}  // namespace tandem
