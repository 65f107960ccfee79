// SPDX-License-Identifier: Apache-2.0
// Replicas that each keep a part of the gradients: the numbers of those that have all, and the
// memory of a part and of two buckets.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include <tandem/schedule/orders/make_schedule.hpp>
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
namespace sharded_gradients_test {

using Small = BucketBytes<64, 256>;  // several buckets, of which none has a multiple of 3 parts
using Whole = DataParallel<3, Small>;
using Parts = DataParallel<3, Small, ShardedGradients>;

/// Of sixteen buckets, all of one size.
using Alike = Sequential<Linear<16>, Linear<16>, Linear<16>, Linear<16>>;
struct Deep : Network<Vector<16>, Sequential<Alike, Alike, Alike, Alike>> {};
template <class... Options>
constexpr std::int64_t gradients_of =
    device_memory<Deep, DataParallel<4, Small, Options...>, AdamW, Fp32>(8, 0).gradients;
static_assert(gradients_of<> == std::int64_t{16} * 4 * (16 * 16 + 16));
static_assert(gradients_of<ShardedState> == std::int64_t{16} * 4 * 320);  // whole in 4 parts
static_assert(gradients_of<ShardedGradients> == gradients_of<ShardedState> / 4 + 2 * 4 * 320);

static_assert(DataParallel<2, Microbatches<2>, ShardedGradients>::batching.leaf(1) == 1);
static_assert(DataParallel<1, Microbatches<2>, ShardedGradients>::batching.leaf(1) == 2);

TEST_CASE("of one microbatch a part of the gradients each gives the bits of all of them each") {
  TrainerOptions options = unclipped(AdamW{});
  CHECK(all_of<Parts>(options) == all_of<Whole>(options));
  CHECK(all_of<Parts>(parity_options()) == all_of<Whole>(parity_options()));  // with their norm
  options.groups = {{.pattern = "*.bias", .learning_rate_scale = 0.5F},
                    {.pattern = "0.*", .frozen = true}};
  CHECK(all_of<Parts>(options) == all_of<Whole>(options));
}

TEST_CASE("several microbatches, some empty, have the sums of one device but for their order") {
  using One = SingleDevice<Microbatches<6>, Weighted<2, 0, 1>>;
  check_five_steps<One,
                   DataParallel<3, Microbatches<2>, Weighted<2, 0, 1>, Small, ShardedGradients>>();
}

TEST_CASE("replicas of a pipeline, two stages a device, weight gradients apart") {
  using Pipe = Pipeline<ZeroBubbleV, 4, Split<2>, Split<2>, Split<2>, Split<3>>;
  Watchdog const watchdog{"replicas of a pipeline"};
  Trainer<TinyNet, Hybrid<DataParallel<2, Small>, Pipe>, Double> plain{parity_options()};
  Trainer<TinyNet, Hybrid<DataParallel<2, Small, ShardedGradients>, Pipe>, Double> parts{
      parity_options()};
  for (int s = 0; s < 5; ++s) {
    StepResult const a = parity_step(plain, s);
    StepResult const b = parity_step(parts, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-12 * a.gradient_norm);
  }
  Difference const off = difference(parts.parameters(), plain.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
  CHECK(first_difference(parts.parameters(1), parts.parameters()) == "");
}

TEST_CASE("gradients of a weight that two layers share are added where they are whole") {
  Watchdog const watchdog{"shared words"};
  Trainer<SmallGpt, DataParallel<2, Small>, Host> plain{gpt_options()};
  Trainer<SmallGpt, DataParallel<2, Small, ShardedGradients>, Host> parts{gpt_options()};
  for (int step = 0; step < 3; ++step) {
    CHECK(gpt_step(parts, step).loss == gpt_step(plain, step).loss);
  }
  for (int replica = 0; replica < 2; ++replica) {
    CHECK(first_difference(parts.parameters(replica), plain.parameters()) == "");
  }
}

TEST_CASE("what is between parameters stays 0, though slots had other buckets there") {
  Trainer<TinyNet, Parts, Host> trainer{unclipped(AdamW{})};
  parity_step(trainer, 0);
  for (NamedParameter<float> const& p : trainer.parameters()) {
    INFO(p.name);
    CHECK((p.gradient.size() % parameter_alignment == 0 ||
           p.gradient.data()[p.gradient.size()] == 0.0F));
  }
}

TEST_CASE("a rank allocates its part and two buckets, and fits<> counts as many") {
  Trainer<TinyNet, Parts, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport> trainer{
      unclipped(Sgd{})};
  constexpr auto const& layout = DeviceOf<decltype(trainer)>::layout;
  constexpr std::int64_t bytes = 4 * (layout.trained / 3 + 2 * largest_bucket(layout));
  static_assert(layout.buckets > 2);
  static_assert(device_memory<TinyNet, Parts, AdamW, Fp32>(13, 0).gradients == bytes);
  LoggingTransport<3>::clear();
  parity_step(trainer, 0);
  Volume const all{layout.buckets, 4 * layout.trained};
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(trainer.memory(rank).gradients == bytes);
    auto const& log = LoggingTransport<3>::log(rank);
    CHECK(volume(log, Operation::reduce_scatter, "bucket") == all);
    CHECK(volume(log, Operation::all_gather, "parameters") == all);
    CHECK(volume(log, Operation::all_reduce, "bucket") == Volume{});
  }
}

TEST_CASE("rows that change the order of a reproducible sum are refused") {
  TrainerOptions options = parity_options();
  options.rows = make_schedule("sequential", 1, 2);
  using S = DataParallel<2, Reproducible<>, Small, ShardedGradients>;
  std::string const why = message<ContractError>([&] { Trainer<TinyNet, S, Host>{options}; });
  CHECK(contains(why, ".rows may have several microbatches"));
}

}  // namespace sharded_gradients_test
}  // namespace tandem::test
