// SPDX-License-Identifier: Apache-2.0
// Devices that share tables of words: the numbers of one device, with any number of words, smoothed
// targets and shared weights.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <split_words.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace tensor_parallel_words_test {

using test::Double;

using test::SplitTied;
using Free = test::FreeWords;
using Tied = test::TiedWords;
constexpr int channels = test::word_channels;

using One = SingleDevice<Microbatches<2>>;
template <int N>
using Split = test::SplitWords<N>;

template <class S, class Net>
void check_as_one_device() {
  test::TrainedGpt<One, Double, Net> const one;
  test::check_trained_alike(one, test::TrainedGpt<S, Double, Net>{5}, S::ranks);
}

TEST_CASE("devices that share words train as one does, whatever their number") {
  check_as_one_device<Split<2>, Free>();
  check_as_one_device<Split<8>, Free>();
}

TEST_CASE("so they do with a table that two layers share, and with logits that are made again") {
  check_as_one_device<SplitTied, Tied>();
}

// What an embedding's devices add up goes to each one's rows.
TEST_CASE("and so does each with its rows of what they do not share") {
  check_as_one_device<
      TensorParallel<2, Microbatches<2>, SplitInputs<0>, SplitOutputs<3>, SequenceRows>, Tied>();
}

template <class S>
using On = Trainer<Free, S, Double>;

TEST_CASE("a file has the words of the network and no others, and goes on anywhere") {
  test::Watchdog const watchdog{"a checkpoint of words"};
  test::TemporaryFolder const folder;
  On<One> one{test::gpt_options()};
  On<Split<8>> eight{test::gpt_options()};
  one.save(folder.file("one"));
  eight.save(folder.file("eight"));
  CHECK(test::content(folder.file("eight")) == test::content(folder.file("one")));
  test::gpt_step(eight, 0);
  eight.save(folder.file("later"));
  On<Split<2>> two{test::gpt_options()};
  two.load(folder.file("later"));
  one.load(folder.file("later"));
  CHECK(test::first_difference(one.parameters(0), eight.parameters(7)) == "");
  CHECK(test::first_difference(two.parameters(1), eight.parameters(0)) == "");
  double const loss = test::gpt_step(eight, 1).loss;
  CHECK(std::fabs(test::gpt_step(two, 1).loss - loss) <= 1e-12);
  CHECK(std::fabs(test::gpt_step(one, 1).loss - loss) <= 1e-12);
}

TEST_CASE("what they evaluate, and what they write, is what one device does") {
  test::TrainedGpt<One, Double, Free> one;
  test::TrainedGpt<Split<8>, Double, Free> eight;
  std::vector<std::int32_t> const prompt{1, 5, 2};
  GenerateOptions const greedy{.tokens = 3, .temperature = 0.0F};
  CHECK(eight.trainer.generate(prompt, greedy) == one.trainer.generate(prompt, greedy));
}

// Of each microbatch: the words that are looked up, the pair, and the gradient of what the
// criterion reads; and four doubles of each row and device, once.
TEST_CASE("four numbers a row go around, and what spread_volume says") {
  Trainer<Free, Split<2>, Double, DefaultLoss<Free>, DefaultMetric<DefaultLoss<Free>>,
          test::LoggingTransport>
      trainer{test::gpt_options()};
  using Own = test::DeviceOf<decltype(trainer)>;
  test::LoggingTransport<2>::clear();
  test::gpt_step(trainer, 0);  // 9 samples of 6 rows in two microbatches
  constexpr std::int64_t rows = std::int64_t{9} * test::gpt_time;
  constexpr SpreadVolume volume = spread_volume(Own::graph);
  static_assert(volume.reduces == 2 && volume.copies == 2 && volume.gathers == 1);
  static_assert(volume.gathered == std::int64_t{4} * 2 * test::gpt_time);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = test::LoggingTransport<2>::log(rank);
    test::Volume const forward = test::volume(log, Operation::all_reduce, "reduce");
    test::Volume const backward = test::volume(log, Operation::all_reduce, "gradient of copy");
    test::Volume const row = test::volume(log, Operation::all_gather, "vocabulary");
    CHECK(forward == test::Volume{.calls = 2 * 2, .bytes = 2 * rows * channels * 8});
    CHECK(backward == forward);
    CHECK(row == test::Volume{.calls = 2, .bytes = rows * 4 * 2 * 8});
    CHECK(forward.bytes == 9 * volume.forward * 8);
    CHECK(row.bytes == 9 * volume.gathered * 8);
  }
}

TEST_CASE("a rank has its words alone, padded, and fits<> counts as many") {
  using Own = test::DeviceOf<On<Split<8>>>;
  static_assert(Own::graph.parameter[0].parameter.shape == Shape{2, {2, channels}});
  On<Split<8>> const trainer{test::gpt_options()};
  MemoryReport const own = trainer.memory(6);
  constexpr DeviceMemory most = device_memory<Free, Split<8>, AdamW, Fp64>(9, 0);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.optimizer_state == most.optimizer_state);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
}

}  // namespace tensor_parallel_words_test
}  // namespace tandem
