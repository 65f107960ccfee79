// SPDX-License-Identifier: Apache-2.0

/// @file
/// Replicas of stages, and of layers that GPUs share, that each keep a part of the parameters:
/// recorded and walked they have the bits of those that have all, or of those that keep a part of
/// the gradients, and they train as one device does.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include <compare.hpp>
#include <support/watchdog.hpp>

#include "sharded_support.hpp"
#include "slices_support.hpp"

namespace sharded_stages_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using Buckets = BucketBytes<256, 1024>;

/// Both recorded and walked.
template <class S, class Same, class Precision, class Net = SharedLayers>
void check_bits() {
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"stages and slices of parts of parameters"};
  NoRaces const races;
  OnGpus<Same, Precision, NcclTransport, Net> same{shared_options(false)};
  OnGpus<S, Precision, NcclTransport, Net> walked{shared_options(false)};
  OnGpus<S, Precision, NcclTransport, Net> recorded{shared_options(true)};
  auto const wanted = shared_steps(same, 5);
  auto const by_walking = shared_steps(walked, 5);
  auto const by_replaying = shared_steps(recorded, 5);
  for (int replica = 0; replica < 2; ++replica) {
    auto const bits = bits_of(same, wanted, replica);
    CHECK(bits_of(walked, by_walking, replica) == bits);
    CHECK(bits_of(recorded, by_replaying, replica) == bits);
  }
}

template <class Shards, class... Options>
using Stages =
    Hybrid<DataParallel<2, Buckets, Shards>, Pipeline<OneFOneB, 4, Split<3>, Split<4>, Options...>>;
TEST_CASE("parts of parameters in a pipeline that computes again, in bf16") {
  check_bits<Stages<ShardedParameters, Checkpoint<Every<2>>>,
             Stages<ShardedGradients, Checkpoint<Every<2>>>, Bf16>();
}

template <class... Shards>
using TwoPasses =
    Hybrid<DataParallel<2, Buckets, Shards...>, Pipeline<ZeroBubbleH1, 2, Split<3>, Split<4>>>;
TEST_CASE("parts of parameters in a pipeline whose gradients come in two passes") {
  check_bits<TwoPasses<ShardedParameters>, TwoPasses<ShardedGradients>, Fp32>();
}

template <class... Shards>
using Slices = Hybrid<DataParallel<2, Buckets, Shards...>, TensorParallel<2>>;
TEST_CASE("parts of the parameters of layers that GPUs share, in bf16") {
  check_bits<Slices<ShardedParameters>, Slices<>, Bf16>();
}

template <class... Shards>
using Replicas = DataParallel<2, Buckets, Shards...>;
TEST_CASE("parts of the parameters of layers that share their words, in bf16") {
  check_bits<Replicas<ShardedParameters>, Replicas<>, Bf16, SmallGpt>();
}

TEST_CASE("parts of the parameters of stages of shared layers train as one device on the host") {
  using S = Hybrid<DataParallel<2, Buckets, ShardedParameters>,
                   Pipeline<OneFOneB, 2, Split<3>, Split<4>>, TensorParallel<2>>;
  Watchdog const watchdog{"stages of slices of parts"};
  Trainer<SharedLayers, SingleDevice<Microbatches<4>>, BasicHost<Portable, Fp64>> one{
      gpt_options()};
  OnGpus<S, Fp64, VirtualTransport> eight{shared_options(false)};
  auto const a = shared_steps(one, 5);
  auto const b = shared_steps(eight, 5);
  for (std::size_t s = 0; s < a.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(a[s].loss - b[s].loss) <= 1e-12 * a[s].loss);
    CHECK(std::fabs(a[s].gradient_norm - b[s].gradient_norm) <= 1e-12 * a[s].gradient_norm);
  }
  Difference const off = difference(eight.parameters(1), one.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
}

}  // namespace sharded_stages_test
