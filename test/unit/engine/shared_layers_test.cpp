// SPDX-License-Identifier: Apache-2.0
// Devices that share each layer, tables of words (any number of words, smoothed targets, shared
// weights), the channels of images, and parts of a pipeline: the numbers of one device, which no
// slice changes, its files, and what they send each other.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <shared_channels.hpp>
#include <small_gpt.hpp>
#include <split_words.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <trained_alike.hpp>

namespace tandem::test {
namespace shared_layers_test {

/// Of four heads, with dropout of embeddings, probabilities and both sums of a block.
struct Heads : models::Gpt<gpt_words, gpt_time, 8, 4, 2, Percent<20>> {};

using One = SingleDevice<Microbatches<2>>;
template <int N, class... Options>
using Blocks = TensorParallel<N, Microbatches<2>, Options...>;
template <int N>
using ByChannels = ChannelParallel<N, Microbatches<2>>;

TEST_CASE("two and four devices that share each block train as one does") {
  check_shared<Heads, Blocks<2>>();
  check_shared<Heads, Blocks<4>>();
}

TEST_CASE("so they do where activations are computed again") {
  check_shared<Heads, Blocks<2, Checkpoint<Every<2>>>>();
}

TEST_CASE("devices that share words train as one does, whatever their number") {
  check_shared<FreeWords, SplitWords<2>>();
  check_shared<FreeWords, SplitWords<8>>();
}

TEST_CASE("so they do with a table that two layers share, and with logits that are made again") {
  check_shared<TiedWords, SplitTied>();
}

// What an embedding's devices add up goes to each one's rows.
TEST_CASE("and so does each with its rows of what they do not share") {
  check_shared<TiedWords, TensorParallel<2, Microbatches<2>, SplitInputs<0>, SplitOutputs<3>,
                                         tandem::SequenceRows>>();
}

TEST_CASE("two and four devices that share channels train as one does") {
  check_shared<Channels, ByChannels<2>>();
  check_shared<Channels, ByChannels<4>>();
}

template <class Schedule, class... Options>
using Replicas = Hybrid<DataParallel<2, Options...>, Pipeline<Schedule, 2, Split<3>, Split<3>>,
                        TensorParallel<2>>;

template <class S>
void check_parts() {
  check_shared<SmallGpt, S, Double, SingleDevice<Microbatches<4>>>();
}

// With slices of the words, which the first part and the last share.
TEST_CASE("parts of a pipeline that devices share train as one device does") {
  check_parts<
      Hybrid<Pipeline<OneFOneB, 4, Split<3>, Split<3>>, TensorParallel<2, SplitInputs<0>>>>();
}

TEST_CASE("so do replicas whose ranks keep a part of their gradients, or of their parameters") {
  check_parts<Replicas<ZeroBubbleH1, BucketBytes<256, 512>, ShardedGradients>>();
  check_parts<Replicas<OneFOneB, BucketBytes<256, 512>, ShardedParameters>>();
}

// What goes from part to part is whole.
TEST_CASE("and parts whose devices have their rows of what they do not share") {
  check_parts<Hybrid<Pipeline<ZeroBubbleH1, 4, Split<3>, Split<3>>,
                     TensorParallel<2, tandem::SequenceRows>>>();
}

TEST_CASE("all ranks have the same bits of what is whole, and each run has them") {
  check_same_bits_on_ranks<Heads, Blocks<4>>();
}

TEST_CASE("a file is that of one device, and goes on under another number of devices") {
  check_files<Heads, Blocks<2>, Blocks<4>>();
  check_files<FreeWords, SplitWords<2>, SplitWords<8>>();
  check_files<Channels, ByChannels<2>, ByChannels<4>>();
}

TEST_CASE("what they write is what one device writes") {
  check_generates<Heads, Blocks<4>>();
  check_generates<FreeWords, SplitWords<8>>();
}

// A block adds its rows, (B, T, C), twice in forward and twice in backward.
TEST_CASE("a block makes four all-reduces a microbatch, of what a table of its spreads says") {
  Trainer<Heads, Blocks<2>, Double, DefaultLoss<Heads>, DefaultMetric<DefaultLoss<Heads>>,
          LoggingTransport>
      trainer{gpt_options()};
  using Own = DeviceOf<decltype(trainer)>;
  LoggingTransport<2>::clear();
  gpt_step(trainer, 0);  // 9 samples of 6 rows in two microbatches
  constexpr std::int64_t rows = std::int64_t{9} * gpt_time * 8 * sizeof(double);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = LoggingTransport<2>::log(rank);
    Volume const forward = volume(log, Operation::all_reduce, "reduce");
    Volume const backward = volume(log, Operation::all_reduce, "gradient of copy");
    CHECK(forward == Volume{.calls = 2 * 2 * 2, .bytes = 4 * rows});
    CHECK(backward == forward);
    CHECK(volume(log, Operation::all_reduce, "norm").calls == 1);
    CHECK(volume(log, Operation::all_reduce, "losses").calls == 1);
    CHECK(log.size() == 18);
  }
  constexpr SpreadVolume said = spread_volume(Own::graph);
  CHECK(said.forward * 9 * std::int64_t{sizeof(double)} == 4 * rows);
  CHECK(said.backward == said.forward);
}

// Of each microbatch: the words that are looked up, the pair, and the gradient of what the
// criterion reads; and four doubles of each row and device, once.
TEST_CASE("four numbers a row go around, and what spread_volume says") {
  Trainer<FreeWords, SplitWords<2>, Double, DefaultLoss<FreeWords>,
          DefaultMetric<DefaultLoss<FreeWords>>, LoggingTransport>
      trainer{gpt_options()};
  using Own = DeviceOf<decltype(trainer)>;
  LoggingTransport<2>::clear();
  gpt_step(trainer, 0);  // 9 samples of 6 rows in two microbatches
  constexpr std::int64_t rows = std::int64_t{9} * gpt_time;
  constexpr SpreadVolume said = spread_volume(Own::graph);
  static_assert(said.reduces == 2 && said.copies == 2 && said.gathers == 1);
  static_assert(said.gathered == std::int64_t{4} * 2 * gpt_time);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = LoggingTransport<2>::log(rank);
    Volume const forward = volume(log, Operation::all_reduce, "reduce");
    Volume const backward = volume(log, Operation::all_reduce, "gradient of copy");
    Volume const row = volume(log, Operation::all_gather, "vocabulary");
    CHECK(forward == Volume{.calls = 2 * 2, .bytes = 2 * rows * word_channels * 8});
    CHECK(backward == forward);
    CHECK(row == Volume{.calls = 2, .bytes = rows * 4 * 2 * 8});
    CHECK(forward.bytes == 9 * said.forward * 8);
    CHECK(row.bytes == 9 * said.gathered * 8);
  }
}

template <class Net, class S>
using DeviceWith = DeviceOf<Trainer<Net, S, Double>>;

TEST_CASE("a rank has its slices alone, and fits<> counts as many") {
  // Of a block 12 C C of weights are dealt out, and 7 C of biases.
  constexpr std::int64_t dealt = 2 * (12 * 8 * 8 + 7 * 8);
  static_assert(DeviceWith<Heads, Blocks<4>>::graph.parameter_elements() ==
                DeviceWith<Heads, One>::graph.parameter_elements() - dealt + dealt / 4);
  check_memory<Heads, Blocks<4>>(1);
  // Words are padded.
  static_assert(DeviceWith<FreeWords, SplitWords<8>>::graph.parameter[0].parameter.shape ==
                Shape{2, {2, word_channels}});
  check_memory<FreeWords, SplitWords<8>>(6);
  // Slices of the pairs, of kernels, groups, norms and a vector.
  constexpr std::int64_t pairs = 8 * 3 * 9 + 16 + (8 * 2 * 9 + 8) + 16 * 9 + 32 + 6 * 16 +
                                 (4 * 6 + 4) + 4 * 4 * 9 + (4 * 8 + 4) + 8 * 4 * 9 +
                                 (4 * 8 * 9 + 4) + 6 * 16;
  static_assert(DeviceWith<Channels, ByChannels<4>>::graph.parameter_elements() ==
                DeviceWith<Channels, One>::graph.parameter_elements() - pairs + pairs / 4);
}

TEST_CASE("an optimizer that takes norms of whole parameters is refused") {
  TrainerOptions options = gpt_options();
  options.optimizer = own_optimizer<Double>(Lamb{});
  std::string const why =
      message<ContractError>([&] { Trainer<Heads, Blocks<2>, Double> const trainer{options}; });
  CHECK(contains(why, "with TensorParallel each device has a slice"));
}

TEST_CASE("messages, sums of replicas and of slices each have their own ranks") {
  using P = Program<SmallGpt, Replicas<OneFOneB>, 8>;
  static_assert(P::ranks == 8 && P::devices == 2 && P::slices == 2);
  RankGroups const own{group_facts<P>, P::mesh};
  auto const groups = own.list();
  auto const ranks = [&](int group) { return groups[static_cast<std::size_t>(group)].ranks; };
  CHECK(ranks(own.of_stage(0, 0)) == std::vector{0, 4});
  CHECK(ranks(own.of_stage(7, 1)) == std::vector{3, 7});
  CHECK(ranks(own.of_slices(5)) == std::vector{4, 5});
  CHECK(ranks(own.of_slices(2)) == std::vector{2, 3});
  CHECK(ranks(own.of_link(0, 0, true)) == std::vector{0, 2});
  CHECK(ranks(own.of_link(3, 0, false)) == std::vector{7, 5});
  CHECK(ranks(own.of_tie(5, 0, 0)) == std::vector{5, 7});
  CHECK(groups.size() == 4 + 8 + 4 + 4);  // stages, links, shared words, slices
}

}  // namespace shared_layers_test
}  // namespace tandem::test
