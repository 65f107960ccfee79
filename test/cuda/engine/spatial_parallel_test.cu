// SPDX-License-Identifier: Apache-2.0

/// @file
/// Ranks on a GPU that each have a tile of every image train as one device on the host does.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiled_images.hpp>

#include "support.hpp"
#include "tiles_support.hpp"

namespace spatial_parallel_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using One = SingleDevice<Microbatches<2>>;
template <int H, int W, class... Options>
using Shared = SpatialParallel<H, W, Microbatches<2>, Options...>;

template <class S>
void check_tiles() {
  Watchdog const watchdog{"tiles"};
  OnHost<One, Fp64, Tiles> one{engine_options()};
  OnGpu<S, Fp64, Tiles> many{engine_options()};
  check_as_one_device(one, many, S::ranks, 4, 1e-12, {Part::value, Part::gradient});
}

TEST_CASE("two ranks with half of each image, and four with a quarter, train as the host does") {
  check_tiles<Shared<2, 1>>();
  check_tiles<Shared<2, 2>>();
}

TEST_CASE("so do three where activations are computed again") {
  check_tiles<Shared<1, 3, Checkpoint<Every<2>>>>();
}

TEST_CASE("replicas of a pipeline whose parts have tiles train as replicas on the host do") {
  using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;
  using Replicas = Hybrid<DataParallel<2>, Parts, SpatialParallel<2, 1>>;
  Watchdog const watchdog{"replicas of stages of tiles"};
  OnHost<DataParallel<2, Microbatches<2>>, Fp64, TiledBlocks> two{engine_options()};
  OnGpu<Replicas, Fp64, TiledBlocks> many{engine_options()};
  check_as_one_device(two, many, 4, 4, 1e-12, {Part::value});
}

TEST_CASE("ranks with tiles: a file is one device's, predictions are the host's") {
  Watchdog const watchdog{"a file of tiles"};
  TemporaryFolder const folder;
  OnHost<One, Fp64, Tiles> one{engine_options()};
  OnGpu<Shared<2, 2>, Fp64, Tiles> four{engine_options()};
  engine_step(one, 0);
  one.save(folder.file("one"));
  four.load(folder.file("one"));
  four.save(folder.file("four"));
  CHECK(content(folder.file("four")) == content(folder.file("one")));
  auto const data = dataset(Tiles::input::shape, 5, largest_batch + 2, 3);
  CHECK(std::fabs(one.evaluate(data).loss - four.evaluate(data).loss) <= 1e-12);
  auto const a = one.predict(data);
  auto const b = four.predict(data);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::fabs(a[i] - b[i]) <= 1e-12);
  }
}

TEST_CASE("ranks with tiles have their tiles alone, and fits<> counts as many") {
  OnGpu<Shared<2, 2>, Fp64, Tiles> const four{engine_options()};
  MemoryReport const own = four.memory(1);
  constexpr DeviceMemory most = device_memory<Tiles, Shared<2, 2>, Sgd, Fp64>(largest_batch, 0);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
}

}  // namespace spatial_parallel_test
