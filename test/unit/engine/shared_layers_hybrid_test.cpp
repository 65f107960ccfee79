// SPDX-License-Identifier: Apache-2.0
// Devices that share channels, tiles or layers (grouped keys, positions, gates, masks in the middle
// of rows) within replicas and parts of a pipeline, with statistics of all replicas; and in the
// backend that everybody takes, with its rewrites.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <shared_channels.hpp>
#include <small_gpt.hpp>
#include <tiled_images.hpp>
#include <trained_alike.hpp>

namespace tandem::test {
namespace shared_layers_hybrid_test {

/// The mask behind the products is one of three parts of a row, that behind the gate of one.
struct Mixed
    : Network<
          Tokens<gpt_time, gpt_words>,
          Sequential<
              Embedding<gpt_words, 8>,
              Residual<Sequential<
                  LayerNorm<>, Linear<32>, Dropout<Percent<30>>, RotaryPositions<4, KeyHeads<2>>,
                  Attention<4, Causal, KeyHeads<2>, Percent<20>>, Linear<8, NoBias>>>,
              Residual<Sequential<RmsNorm<>, Linear<12>, SwiGlu, Dropout<Percent<25>>, Linear<8>>>,
              Vocabulary<gpt_words>>> {};

using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;

template <class Net, class S, class Backend = Double, class One = Unshared<S>>
void check_values(double bound = 1e-12) {
  check_shared<Net, S, Backend, One>(bound, false);
}

TEST_CASE("replicas of a pipeline whose parts devices share train as replicas do") {
  check_values<Blocks, Hybrid<DataParallel<2>, Parts, ChannelParallel<2>>>();
  check_values<TiledBlocks, Hybrid<DataParallel<2>, Parts, SpatialParallel<2, 1>>>();
}

// Buckets of several parameters each.
template <class Sharded>
using Dealt = Hybrid<DataParallel<2, BucketBytes<256, 512>, Sharded>, Parts, ChannelParallel<2>>;

TEST_CASE("so do those that keep a part of the gradients of their channels, or of these, too") {
  check_values<Blocks, Dealt<ShardedGradients>>();
  check_values<Blocks, Dealt<ShardedParameters>>();
}

using MixedReplicas = Hybrid<DataParallel<2>, TensorParallel<2, Microbatches<2>>>;

TEST_CASE("replicas of devices that share layers train as one device does, also with its rows") {
  using One = SingleDevice<Microbatches<4>>;
  check_values<Mixed, MixedReplicas, Double, One>();
  check_values<Mixed,
               Hybrid<DataParallel<2, ShardedState>,
                      TensorParallel<2, Microbatches<2>, tandem::SequenceRows>>,
               Double, One>();
}

template <class Net, class Parted>
void check_ends() {
  check_values<Net, Hybrid<DataParallel<2>, Parted>, Double, SingleDevice<Microbatches<4>>>();
}
template <class Schedule, class... Options>
using InHalves = Pipeline<Schedule, 2, Split<3>, Split<3>, Options...>;

TEST_CASE("replicas of pipelines whose ends share the words train as one device does") {
  check_ends<SmallGpt, InHalves<GPipe, Checkpoint<Every<2>>>>();
  check_ends<SmallGpt, InHalves<OneFOneB>>();
  check_ends<SmallGpt, InHalves<ZeroBubbleH1>>();
}

TEST_CASE("so do replicas of devices that hold several stages") {
  check_ends<SmallGpt, Pipeline<Interleaved<2>, 2, Split<1>, Split<2>, Split<1>, Split<2>>>();
  check_ends<SmallGpt, InHalves<Chimera>>();
  check_ends<SmallGpt, CrossModelParallel<AverageGradients, Split<3>, Split<3>>>();
}

TEST_CASE("so do replicas of pipelines of recurrent layers") {
  check_ends<SmallLstm, InHalves<ZeroBubbleH1>>();
  check_ends<SmallLstm, ModelParallel<Split<3>, Split<3>>>();
}

// Three steps in float: of a sum's parts, each off by eps times their number; and of AdamW, whose
// epsilon is large.
TEST_CASE("so do devices in the backend that everybody takes") {
  check_values<Blocks, ChannelParallel<2>, Host>(1e-4);
  check_values<TiledBlocks, SpatialParallel<2, 2>, Host>(1e-4);
  check_values<Mixed, TensorParallel<2>, Host>(1e-4);
  check_values<Mixed, TensorParallel<2, tandem::SequenceRows>, Host>(1e-4);
}

TEST_CASE("neighbours are slices, and each slice's replicas sum its gradients") {
  using P = Program<Mixed, MixedReplicas, 4>;
  RankGroups const own{group_facts<P>, P::mesh};
  auto const groups = own.list();
  REQUIRE(groups.size() == 4);
  CHECK(groups[static_cast<std::size_t>(own.of_slices(0))].ranks == std::vector{0, 1});
  CHECK(groups[static_cast<std::size_t>(own.of_slices(3))].ranks == std::vector{2, 3});
  CHECK(groups[static_cast<std::size_t>(own.of_stage(0, 0))].ranks == std::vector{0, 2});
  CHECK(groups[static_cast<std::size_t>(own.of_stage(3, 0))].ranks == std::vector{1, 3});
  using Alone = Program<Mixed, TensorParallel<2>, 4>;
  CHECK(RankGroups{group_facts<Alone>, Alone::mesh}.list().empty());
  CHECK(RankGroups{group_facts<Alone>, Alone::mesh}.of_slices(1) == RankGroups::all);
}

// Of two tiles one above the other each has one neighbour: of a halo it gets half.
TEST_CASE("each rank gets what a table of its spreads says, and one sum of gradients a step") {
  Trainer<TiledBlocks, SpatialParallel<2, 1, Microbatches<2>>, Host, DefaultLoss<TiledBlocks>,
          DefaultMetric<DefaultLoss<TiledBlocks>>, LoggingTransport>
      trainer{parity_options()};
  using Own = DeviceOf<decltype(trainer)>;
  LoggingTransport<2>::clear();
  parity_step(trainer, 0);  // 13 samples in two microbatches
  constexpr std::int64_t row = 8 * 13 * sizeof(float);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = LoggingTransport<2>::log(rank);
    Volume const got = volume(log, Operation::receive, "tiles");
    // Rows of 2 channels and of 4 in forward and in backward; of 10, of which the first tile has
    // nothing above it; the second half of 8 channels of 4 x 4.
    std::int64_t const halos = 2 * (2 + 4) + (rank == 1 ? 10 : 0) + (rank == 0 ? 10 : 0);
    CHECK(got.bytes == row * halos + 13 * 8 * 8 * std::int64_t{sizeof(float)});
    CHECK(volume(log, Operation::all_reduce, "gradients of tiles").calls == 1);
    CHECK(volume(log, Operation::all_reduce, "statistics").calls == 2 * 2 * 5);
    CHECK(volume(log, Operation::all_reduce, "losses").calls == 1);
  }
  constexpr SpreadVolume said = spread_volume(Own::graph);
  static_assert(said.exchanges == 5 && said.reduces + said.copies == 0);
}

}  // namespace shared_layers_hybrid_test
}  // namespace tandem::test
