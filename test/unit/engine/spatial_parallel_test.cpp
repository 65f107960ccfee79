// SPDX-License-Identifier: Apache-2.0
// Devices that each have a tile of every image: the numbers of one device, and what they send.

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <support/temporary_folder.hpp>
#include <tiled_images.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace spatial_parallel_test {

using test::Double;
using test::Tiles;

using One = SingleDevice<Microbatches<2>>;
template <int H, int W, class... Options>
using Shared = SpatialParallel<H, W, Microbatches<2>, Options...>;

template <class S>
using On = Trainer<Tiles, S, Double>;

template <class S>
using Trained = test::TrainedImages<Tiles, S>;

template <class S>
void check_as_one_device() {
  static Trained<One> const one;
  test::check_trained_alike(one, Trained<S>{}, S::ranks);
}

TEST_CASE("two devices with half of each image, and four with a quarter, train as one does") {
  check_as_one_device<Shared<2, 1>>();
  check_as_one_device<Shared<2, 2>>();
}

TEST_CASE("so do three where activations are computed again") {
  check_as_one_device<Shared<1, 3, Checkpoint<Every<2>>>>();
}

TEST_CASE("all ranks have the same bits, each run has them, and the file is one device's") {
  test::TemporaryFolder const folder;
  Trained<Shared<2, 2>> first;
  Trained<Shared<2, 2>> again;
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(test::first_difference(again.trainer.parameters(rank), first.trainer.parameters()) == "");
  }
  first.trainer.save(folder.file("saved"));
  On<One> one{test::parity_options()};
  one.load(folder.file("saved"));
  CHECK(test::first_difference(one.parameters(), first.trainer.parameters()) == "");
  double const loss = test::parity_step(first.trainer, 3).loss;
  CHECK(std::fabs(test::parity_step(one, 3).loss - loss) <= 1e-12);
}

// Each device has whole parameters.
TEST_CASE("an optimizer that takes norms of whole parameters gets them") {
  TrainerOptions options = test::parity_options();
  options.optimizer = own_optimizer<Double>(Lamb{});
  On<One> one{options};
  On<Shared<2, 2>> four{options};
  for (int s = 0; s < 2; ++s) {
    CHECK(std::fabs(test::parity_step(one, s).loss - test::parity_step(four, s).loss) <= 1e-12);
  }
  test::Difference const off =
      test::difference(four.parameters(3), one.parameters(), test::Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
}

TEST_CASE("a rank has its tiles alone, and fits<> counts as many") {
  On<Shared<2, 2>> const four{test::parity_options()};
  MemoryReport const own = four.memory(1);
  constexpr DeviceMemory most = device_memory<Tiles, Shared<2, 2>, Sgd, Fp64>(13, 0);
  constexpr DeviceMemory whole = device_memory<Tiles, One, Sgd, Fp64>(13, 0);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
  CHECK(most.kept < whole.kept);  // small images have wide halos
}

}  // namespace spatial_parallel_test
}  // namespace tandem
