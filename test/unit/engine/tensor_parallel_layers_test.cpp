// SPDX-License-Identifier: Apache-2.0
// All that devices may share: grouped keys, positions, gates and masks in the middle of rows; and
// replicas of devices that share layers.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace tensor_parallel_layers_test {

/// The mask behind the products is one of three parts of a row, that behind the gate of one.
struct Mixed
    : Network<
          Tokens<test::gpt_time, test::gpt_words>,
          Sequential<
              Embedding<test::gpt_words, 8>,
              Residual<Sequential<
                  LayerNorm<>, Linear<32>, Dropout<Percent<30>>, RotaryPositions<4, KeyHeads<2>>,
                  Attention<4, Causal, KeyHeads<2>, Percent<20>>, Linear<8, NoBias>>>,
              Residual<Sequential<RmsNorm<>, Linear<12>, SwiGlu, Dropout<Percent<25>>, Linear<8>>>,
              Vocabulary<test::gpt_words>>> {};

/// @param bound  of losses, and relative of parameters
template <class S, class Backend>
void check_as_one_device(double bound) {
  using One = SingleDevice<Microbatches<S::batching.all_microbatches()>>;
  test::TrainedGpt<One, Backend, Mixed> const one;
  test::TrainedGpt<S, Backend, Mixed> const many;
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one.results[s].loss - many.results[s].loss) <= bound);
    CHECK(std::fabs(one.results[s].gradient_norm - many.results[s].gradient_norm) <= bound);
    CHECK(one.results[s].weight == many.results[s].weight);
  }
  for (int rank = 0; rank < S::ranks; ++rank) {
    test::Difference const off = test::difference(many.trainer.parameters(rank),
                                                  one.trainer.parameters(), test::Part::value);
    INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= bound);
  }
}

using Replicas = Hybrid<DataParallel<2>, TensorParallel<2, Microbatches<2>>>;

TEST_CASE("replicas of devices that share layers train as one device does") {
  check_as_one_device<Replicas, BasicHost<Portable, Fp64>>(1e-12);
}

// Three steps of AdamW in float, whose epsilon is large.
TEST_CASE("so do devices in the backend that everybody takes") {
  check_as_one_device<TensorParallel<2>, Host>(1e-4);
}

TEST_CASE("and each with its rows of what they do not share") {
  check_as_one_device<
      Hybrid<DataParallel<2, ShardedState>, TensorParallel<2, Microbatches<2>, SequenceRows>>,
      BasicHost<Portable, Fp64>>(1e-12);
  check_as_one_device<TensorParallel<2, SequenceRows>, Host>(1e-4);
}

TEST_CASE("neighbours are slices, and each slice's replicas sum its gradients") {
  using P = Program<Mixed, Replicas, 4>;
  RankGroups const own{group_facts<P>, P::mesh_of(1)};
  auto const groups = own.list();
  REQUIRE(groups.size() == 4);
  CHECK(groups[static_cast<std::size_t>(own.of_slices(0))].ranks == std::vector{0, 1});
  CHECK(groups[static_cast<std::size_t>(own.of_slices(3))].ranks == std::vector{2, 3});
  CHECK(groups[static_cast<std::size_t>(own.of_stage(0, 0))].ranks == std::vector{0, 2});
  CHECK(groups[static_cast<std::size_t>(own.of_stage(3, 0))].ranks == std::vector{1, 3});
  using Alone = Program<Mixed, TensorParallel<2>, 4>;
  CHECK(RankGroups{group_facts<Alone>, Alone::mesh_of(1)}.list().empty());
  CHECK(RankGroups{group_facts<Alone>, Alone::mesh_of(1)}.of_slices(1) == RankGroups::all);
}

}  // namespace tensor_parallel_layers_test
}  // namespace tandem
