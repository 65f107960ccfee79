// SPDX-License-Identifier: Apache-2.0
// Rows of time dealt out between the layers that devices share, and devices that each have a tile
// of every image: the numbers of one device, its files, what is sent, and what is kept.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/describe.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/watchdog.hpp>
#include <tiled_images.hpp>
#include <trained_alike.hpp>

namespace tandem::test {
namespace shared_rows_and_tiles_test {

/// Steps have six, five and four rows of its twelve, so that the last of four devices has some that
/// are none.
struct Long : models::Gpt<gpt_words, 12, 8, 4, 2, Percent<20>> {};

using One = SingleDevice<Microbatches<2>>;
template <int N, class... Options>
using Rows = TensorParallel<N, Microbatches<2>, tandem::SequenceRows, Options...>;
template <int H, int W, class... Options>
using Shared = SpatialParallel<H, W, Microbatches<2>, Options...>;

TEST_CASE("two and four devices, each with its rows, train as one does") {
  check_shared<Long, Rows<2>>();
  check_shared<Long, Rows<4>>();
}

TEST_CASE("two devices with half of each image, and four with a quarter, train as one does") {
  check_shared<Tiles, Shared<2, 1>>();
  check_shared<Tiles, Shared<2, 2>>();
}

TEST_CASE("so they do where activations are computed again") {
  check_shared<Long, Rows<2, Checkpoint<Every<2>>>>();
  check_shared<Tiles, Shared<1, 3, Checkpoint<Every<2>>>>();
}

TEST_CASE("all ranks have the same bits, and each run has them") {
  check_same_bits_on_ranks<Tiles, Shared<2, 2>>();
}

TEST_CASE("a file is that of one device, and goes on under another number of devices") {
  check_files<Long, Rows<2>, Rows<4>>();
  check_files<Tiles, Shared<2, 1>, Shared<2, 2>>();
}

TEST_CASE("what devices with rows write is what one device writes") {
  check_generates<Long, Rows<4>>();
}

// Of each microbatch: in forward rows come together before each pair and behind the last block, in
// backward behind each pair and before the first block, and are added the other way round.
TEST_CASE("what is sent is what a table of its spreads says") {
  Watchdog const watchdog{"rows that are sent"};
  Trainer<SmallGpt, Rows<2>, Double, DefaultLoss<SmallGpt>, DefaultMetric<DefaultLoss<SmallGpt>>,
          LoggingTransport>
      trainer{gpt_options()};
  using Own = DeviceOf<decltype(trainer)>;
  constexpr SpreadVolume said = spread_volume(Own::graph);
  static_assert(said.row_gathers == 10 && said.row_scatters == 8);
  static_assert(said.reduces == 0 && said.copies == 0);
  for (int rank = 0; rank < 2; ++rank) {
    LoggingTransport<2>::clear();
  }
  gpt_step(trainer, 0);  // 5 and 4 samples of 6 rows
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = LoggingTransport<2>::log(rank);
    constexpr std::int64_t each = std::int64_t{9} * gpt_time * 8 * sizeof(double);
    CHECK(volume(log, Operation::all_gather) ==
          Volume{.calls = 2 * said.row_gathers, .bytes = said.row_gathers * each});
    CHECK(volume(log, Operation::reduce_scatter) ==
          Volume{.calls = 2 * said.row_scatters, .bytes = said.row_scatters * each});
    CHECK((said.forward + said.backward) * 9 * std::int64_t{sizeof(double)} ==
          (said.row_gathers + said.row_scatters) * each);
    CHECK(volume(log, Operation::all_gather, "enter").calls == 2 * 4);
    CHECK(volume(log, Operation::reduce_scatter, "gradient of enter").calls == 2 * 4);
    CHECK(volume(log, Operation::reduce_scatter, "leave").calls == 2 * 4);
    CHECK(volume(log, Operation::all_gather, "gradient of leave").calls == 2 * 4);
    CHECK(volume(log, Operation::all_gather, "collect").calls == 2);
    CHECK(volume(log, Operation::all_gather, "gradient of deal").calls == 2);
    CHECK(
        volume(log, Operation::all_reduce, "gradients of rows") ==
        Volume{.calls = 1, .bytes = partial_gradients(Own::graph) * std::int64_t{sizeof(double)}});
    CHECK(volume(log, Operation::all_reduce).calls == 3);  // with losses and norm
  }
}

TEST_CASE("a description says so") {
  std::string const text = describe<SmallGpt, Rows<2>>();
  auto const has = [&](char const* line) { return text.find(line) != std::string::npos; };
  CHECK(has("Enter                   6x8 whole     partial         0.2       0.2\n"));
  CHECK(has("Leave                   3x8 rows      rows            0.2       0.2\n"));
  CHECK(has("Deal                    3x8 rows      rows              -       0.2\n"));
  CHECK(has("Collect                 6x8 whole     whole           0.2         -\n"));
  CHECK(has(
      "among these of rows, all-gathers: 10, reduce-scatters: 8; once a step gradients of rows, "
      "all-reduce: 0.4 KiB\n"));
}

TEST_CASE("a rank keeps its rows or its tiles alone, and fits<> counts as many") {
  using Plain = TensorParallel<4, Microbatches<2>>;
  constexpr DeviceMemory whole = device_memory<Long, Plain, AdamW, Fp64>(9, 0);
  constexpr DeviceMemory most = device_memory<Long, Rows<4>, AdamW, Fp64>(9, 0);
  static_assert(most.parameters == whole.parameters);
  // Of a block the inputs of both norms, on five samples: three of four rows are elsewhere. What
  // enters a pair is all there.
  static_assert(whole.kept - most.kept > 0);
  static_assert(fits<Long, Rows<4>, AdamW, Fp64>(9, most.total()) &&
                !fits<Long, Plain, AdamW, Fp64>(9, most.total()));
  check_memory<Long, Rows<4>>(1);
  check_memory<Tiles, Shared<2, 2>>(1);
  static_assert(device_memory<Tiles, Shared<2, 2>, Sgd, Fp64>(13, 0).kept <
                device_memory<Tiles, One, Sgd, Fp64>(13, 0).kept);  // small images have wide halos
}

// Each device has whole parameters.
TEST_CASE("an optimizer that takes norms of whole parameters gets them from tiles") {
  TrainerOptions options = parity_options();
  options.optimizer = own_optimizer<Double>(Lamb{});
  Trainer<Tiles, One, Double> one{options};
  Trainer<Tiles, Shared<2, 2>, Double> four{options};
  for (int s = 0; s < 2; ++s) {
    CHECK(std::fabs(parity_step(one, s).loss - parity_step(four, s).loss) <= 1e-12);
  }
  Difference const off = difference(four.parameters(3), one.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
}

}  // namespace shared_rows_and_tiles_test
}  // namespace tandem::test
