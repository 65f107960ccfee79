// SPDX-License-Identifier: Apache-2.0
// Rows of time dealt out between the layers that devices share: the numbers of one device, what is
// sent, and what is kept.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/describe.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace sequence_rows_test {

using test::Double;

/// Steps have six, five and four rows of its twelve, so that the last of four devices has some that
/// are none.
struct Long : models::Gpt<test::gpt_words, 12, 8, 4, 2, Percent<20>> {};

using One = SingleDevice<Microbatches<2>>;
template <int N, class... Options>
using Rows = TensorParallel<N, Microbatches<2>, SequenceRows, Options...>;

template <class S>
void check_as_one_device() {
  static test::TrainedGpt<One, Double, Long> const one;
  test::check_trained_alike(one, test::TrainedGpt<S, Double, Long>{5}, S::ranks);
}

TEST_CASE("two and four devices, each with its rows, train as one does") {
  check_as_one_device<Rows<2>>();
  check_as_one_device<Rows<4>>();
}

TEST_CASE("so they do where activations are computed again") {
  check_as_one_device<Rows<2, Checkpoint<Every<2>>>>();
}

TEST_CASE("a file is that of one device, and what they write is what it writes") {
  test::TemporaryFolder const folder;
  TrainerOptions const options = test::gpt_options();
  Trainer<Long, One, Double> one{options};
  Trainer<Long, Rows<4>, Double> four{options};
  one.save(folder.file("one"));
  four.save(folder.file("four"));
  CHECK(test::content(folder.file("four")) == test::content(folder.file("one")));
  std::vector<std::int32_t> const prompt{1, 5, 2};
  GenerateOptions const greedy{.tokens = 3, .temperature = 0.0F};
  CHECK(four.generate(prompt, greedy) == one.generate(prompt, greedy));
}

// Of each microbatch: in forward rows come together before each pair and behind the last block, in
// backward behind each pair and before the first block, and are added the other way round.
TEST_CASE("what is sent is what a table of its spreads says") {
  test::Watchdog const watchdog{"rows that are sent"};
  Trainer<test::SmallGpt, Rows<2>, Double, DefaultLoss<test::SmallGpt>,
          DefaultMetric<DefaultLoss<test::SmallGpt>>, test::LoggingTransport>
      trainer{test::gpt_options()};
  using Own = test::DeviceOf<decltype(trainer)>;
  constexpr SpreadVolume volume = spread_volume(Own::graph);
  static_assert(volume.row_gathers == 10 && volume.row_scatters == 8);
  static_assert(volume.reduces == 0 && volume.copies == 0);
  for (int rank = 0; rank < 2; ++rank) {
    test::LoggingTransport<2>::clear();
  }
  test::gpt_step(trainer, 0);  // 5 and 4 samples of 6 rows
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = test::LoggingTransport<2>::log(rank);
    constexpr std::int64_t each = std::int64_t{9} * test::gpt_time * 8 * sizeof(double);
    CHECK(test::volume(log, Operation::all_gather) ==
          test::Volume{.calls = 2 * volume.row_gathers, .bytes = volume.row_gathers * each});
    CHECK(test::volume(log, Operation::reduce_scatter) ==
          test::Volume{.calls = 2 * volume.row_scatters, .bytes = volume.row_scatters * each});
    CHECK((volume.forward + volume.backward) * 9 * std::int64_t{sizeof(double)} ==
          (volume.row_gathers + volume.row_scatters) * each);
    CHECK(test::volume(log, Operation::all_gather, "enter").calls == 2 * 4);
    CHECK(test::volume(log, Operation::reduce_scatter, "gradient of enter").calls == 2 * 4);
    CHECK(test::volume(log, Operation::reduce_scatter, "leave").calls == 2 * 4);
    CHECK(test::volume(log, Operation::all_gather, "gradient of leave").calls == 2 * 4);
    CHECK(test::volume(log, Operation::all_gather, "collect").calls == 2);
    CHECK(test::volume(log, Operation::all_gather, "gradient of deal").calls == 2);
    CHECK(test::volume(log, Operation::all_reduce, "gradients of rows") ==
          test::Volume{.calls = 1,
                       .bytes = partial_gradients(Own::graph) * std::int64_t{sizeof(double)}});
    CHECK(test::volume(log, Operation::all_reduce).calls == 3);  // with losses and norm
  }
}

TEST_CASE("a description says so") {
  std::string const text = describe<test::SmallGpt, Rows<2>>();
  auto const has = [&](char const* line) { return text.find(line) != std::string::npos; };
  CHECK(has("Enter                   6x8 whole     partial         0.2       0.2\n"));
  CHECK(has("Leave                   3x8 rows      rows            0.2       0.2\n"));
  CHECK(has("Deal                    3x8 rows      rows              -       0.2\n"));
  CHECK(has("Collect                 6x8 whole     whole           0.2         -\n"));
  CHECK(has(
      "among these of rows, all-gathers: 10, reduce-scatters: 8; once a step gradients of rows, "
      "all-reduce: 0.4 KiB\n"));
}

TEST_CASE("a rank keeps its rows alone, and fits<> counts as many") {
  using Plain = TensorParallel<4, Microbatches<2>>;
  constexpr DeviceMemory whole = device_memory<Long, Plain, AdamW, Fp64>(9, 0);
  constexpr DeviceMemory most = device_memory<Long, Rows<4>, AdamW, Fp64>(9, 0);
  static_assert(most.parameters == whole.parameters);
  // Of a block the inputs of both norms, on five samples: three of four rows are elsewhere. What
  // enters a pair is all there.
  static_assert(whole.kept - most.kept > 0);
  static_assert(fits<Long, Rows<4>, AdamW, Fp64>(9, most.total()) &&
                !fits<Long, Plain, AdamW, Fp64>(9, most.total()));
  Trainer<Long, Rows<4>, Double> const trainer{test::gpt_options()};
  MemoryReport const own = trainer.memory(1);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
}

}  // namespace sequence_rows_test
}  // namespace tandem
