// SPDX-License-Identifier: Apache-2.0
// Devices that share channels within replicas and parts of a pipeline, with statistics of all
// replicas; and in the backend that everybody takes, with its rewrites.

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <shared_channels.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace channel_parallel_hybrid_test {

using test::Blocks;

using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;

TEST_CASE("replicas of a pipeline whose parts devices share train as replicas do") {
  test::check_three_steps<Blocks, Hybrid<DataParallel<2>, Parts, ChannelParallel<2>>, test::Double>(
      1e-12);
}

// Buckets of several parameters each.
template <class Sharded>
using Dealt = Hybrid<DataParallel<2, BucketBytes<256, 512>, Sharded>, Parts, ChannelParallel<2>>;

TEST_CASE("so do those that keep a part of the gradients of their channels, or of these, too") {
  test::check_three_steps<Blocks, Dealt<ShardedGradients>, test::Double>(1e-12);
  test::check_three_steps<Blocks, Dealt<ShardedParameters>, test::Double>(1e-12);
}

// Three steps in float: of a sum's parts, each off by eps times their number.
TEST_CASE("so do devices in the backend that everybody takes") {
  test::check_three_steps<Blocks, ChannelParallel<2>, Host>(1e-4);
}

}  // namespace channel_parallel_hybrid_test
}  // namespace tandem
