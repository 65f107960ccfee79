// SPDX-License-Identifier: Apache-2.0
// Devices that share channels within replicas and parts of a pipeline, with statistics of all
// replicas; and in the backend that everybody takes, with its rewrites.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <type_traits>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <shared_channels.hpp>

namespace tandem {
namespace channel_parallel_hybrid_test {

using test::Blocks;

/// @param bound  of losses and norms, and relative of parameters
template <class S, class Backend>
void check_as_one_device(double bound) {
  using One = SingleDevice<Microbatches<S::batching.all_microbatches()>>;
  using Parted = DataParallel<S::batching.replicas, Microbatches<S::batching.microbatches>>;
  using Reference = std::conditional_t<(S::batching.replicas > 1), Parted, One>;
  test::Watchdog const watchdog{"three steps of shared channels"};
  Trainer<Blocks, Reference, Backend> one{test::parity_options()};
  Trainer<Blocks, S, Backend> many{test::parity_options()};
  for (int s = 0; s < 3; ++s) {
    StepResult const a = test::parity_step(one, s);
    StepResult const b = test::parity_step(many, s);
    INFO("step " << s);
    CHECK(std::fabs(a.loss - b.loss) <= bound);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= bound);
  }
  for (int rank = 0; rank < S::ranks / S::devices; ++rank) {
    test::Difference const off =
        test::difference(many.parameters(rank), one.parameters(), test::Part::value);
    INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= bound);
  }
}

using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;

TEST_CASE("replicas of a pipeline whose parts devices share train as replicas do") {
  check_as_one_device<Hybrid<DataParallel<2>, Parts, ChannelParallel<2>>, test::Double>(1e-12);
}

// Buckets of several parameters each.
template <class Sharded>
using Dealt = Hybrid<DataParallel<2, BucketBytes<256, 512>, Sharded>, Parts, ChannelParallel<2>>;

TEST_CASE("so do those that keep a part of the gradients of their channels, or of these, too") {
  check_as_one_device<Dealt<ShardedGradients>, test::Double>(1e-12);
  check_as_one_device<Dealt<ShardedParameters>, test::Double>(1e-12);
}

// Three steps in float: of a sum's parts, each off by eps times their number.
TEST_CASE("so do devices in the backend that everybody takes") {
  check_as_one_device<ChannelParallel<2>, Host>(1e-4);
}

}  // namespace channel_parallel_hybrid_test
}  // namespace tandem
