// SPDX-License-Identifier: Apache-2.0
// Replicas that each have a part of the optimizer's states: the bits of those that have all, 1/N of
// the states, and as many bytes on the way.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace sharded_state_test {

using Small = BucketBytes<64, 256>;  // several buckets, of which none has a multiple of 3 parts
using Three = DataParallel<3, Microbatches<2>, Small>;
using Shards = DataParallel<3, Microbatches<2>, Small, ShardedState>;

template <class S, class Net = TinyNet>
using On = Trainer<Net, S, Host>;

TEST_CASE("a part of the states each gives the bits of all of them each") {
  for (Optimizer const& optimizer : {Optimizer{Sgd{.learning_rate = 0.05F, .momentum = 0.9F}},
                                     Optimizer{AdamW{}}, Optimizer{Sgd{}}}) {
    TrainerOptions options = unclipped(optimizer);
    CHECK(all_of<Shards>(options) == all_of<Three>(options));
    options.groups = {{.pattern = "*.bias", .learning_rate_scale = 0.5F},
                      {.pattern = "0.*", .frozen = true}};
    CHECK(all_of<Shards>(options) == all_of<Three>(options));
  }
}

TEST_CASE("so it does where the norm of all gradients bounds them") {
  CHECK(all_of<Shards>(parity_options()) == all_of<Three>(parity_options()));
}

TEST_CASE("the bits are those of one device where Reproducible asks for them") {
  using One = SingleDevice<Microbatches<4>, Reproducible<>>;
  using Two = DataParallel<2, Microbatches<2>, Reproducible<>, ShardedState, Small>;
  CHECK(five_steps<Two>(unclipped(AdamW{})) == five_steps<One>(unclipped(AdamW{})));
  CHECK(five_steps<Two>(parity_options()) == five_steps<One>(parity_options()));
}

TEST_CASE("rounded gradients, and shards without samples") {
  using Rounded = DataParallel<3, Weighted<2, 0, 1>, Wire<BFloat16>, Small>;
  using RoundedShards = DataParallel<3, Weighted<2, 0, 1>, Wire<BFloat16>, Small, ShardedState>;
  CHECK(all_of<RoundedShards>(unclipped(AdamW{})) == all_of<Rounded>(unclipped(AdamW{})));
}

TEST_CASE("replicas of a pipeline: each stage's states are dealt among its own") {
  using Pipe = Pipeline<OneFOneB, 2, Split<4>, Split<5>>;
  using Plain = Hybrid<DataParallel<2, Small>, Pipe>;
  using Sharded = Hybrid<DataParallel<2, Small, ShardedState>, Pipe>;
  CHECK(all_of<Sharded>(unclipped(AdamW{})) == all_of<Plain>(unclipped(AdamW{})));
  CHECK(all_of<Sharded>(parity_options()) == all_of<Plain>(parity_options()));
}

// Its buckets are summed whole, since its two gradients are added.
TEST_CASE("a weight that two layers share has one value on all replicas") {
  Watchdog const watchdog{"shared words"};
  On<DataParallel<2, Microbatches<2>, Small>, SmallGpt> plain{gpt_options()};
  On<DataParallel<2, Microbatches<2>, Small, ShardedState>, SmallGpt> sharded{gpt_options()};
  for (int step = 0; step < 3; ++step) {
    CHECK(gpt_step(sharded, step).loss == gpt_step(plain, step).loss);
  }
  for (int replica = 0; replica < 2; ++replica) {
    CHECK(first_difference(sharded.parameters(replica), plain.parameters()) == "");
  }
}

TEST_CASE("a rank allocates 1/N of the states, and fits<> counts as many") {
  TrainerOptions const options = unclipped(AdamW{});
  On<Shards> sharded{options};
  On<Three> plain{options};
  using Layout = DeviceOf<On<Shards>>;
  static_assert(Layout::layout.trained % (3 * parameter_alignment) == 0);
  constexpr std::int64_t whole = 2 * 4 * Layout::layout.trained;  // two arrays of floats
  constexpr std::int64_t gaps =
      2 * 4 * (Layout::layout.trained - DeviceOf<On<Three>>::layout.trained);
  static_assert(gaps >= 0 &&
                gaps < std::int64_t{2} * 4 * 3 * parameter_alignment * Layout::layout.buckets);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(sharded.memory(rank).optimizer_state == whole / 3);
    CHECK(plain.memory(rank).optimizer_state == whole - gaps);
  }
  static_assert(device_memory<TinyNet, Shards, AdamW, Fp32>(13, 0).optimizer_state == whole / 3);
  static_assert(device_memory<TinyNet, Three, AdamW, Fp32>(13, 0).optimizer_state == whole - gaps);
}

TEST_CASE("gradients are scattered and parameters gathered: the bytes of an all-reduce") {
  using S = DataParallel<2, Small, ShardedState>;
  Trainer<TinyNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport> trainer{
      unclipped(AdamW{})};
  constexpr auto const& layout = DeviceOf<decltype(trainer)>::layout;
  LoggingTransport<2>::clear();
  parity_step(trainer, 0);
  Volume const all{layout.buckets, 4 * layout.trained};
  static_assert(layout.buckets > 2);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = LoggingTransport<2>::log(rank);
    CHECK(volume(log, Operation::reduce_scatter, "bucket") == all);
    CHECK(volume(log, Operation::all_gather, "parameters") == all);
    CHECK(volume(log, Operation::all_reduce, "bucket") == Volume{});
  }
  static_assert(reduce_scatter_bytes(2, 64) + all_gather_bytes(2, 64) == all_reduce_bytes(2, 64));
}

TEST_CASE("one replica has all of its states") {
  CHECK(five_steps<DataParallel<1, ShardedState>>(parity_options()) ==
        five_steps<SingleDevice<>>(parity_options()));
}

TEST_CASE("an optimizer by tensor is refused") {
  std::string const why = message<ContractError>([] { On<Shards>{parity_options(), Lamb{}}; });
  CHECK(contains(why, "ShardedState"));
  CHECK(contains(why, "take AdamW"));
}

}  // namespace sharded_state_test
}  // namespace tandem::test
