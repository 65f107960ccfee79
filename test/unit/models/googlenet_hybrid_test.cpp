// SPDX-License-Identifier: Apache-2.0
// Two replicas of GoogLeNet, each cut over devices: a step has the bits of one device.

#include <doctest/doctest.h>

#include <unit/models/googlenet_strategies.hpp>

namespace tandem {
namespace googlenet_hybrid_test {

constexpr auto table = place<test::CifarGoogLeNet>({{"1.2", 1}, {"1.3", 1}, {"4.1", 1}, {"10", 1}});

TEST_CASE("GoogLeNet under DataParallel<2> with each of them: the bits of one device") {
  auto const& one = test::googlenet_on_one_device();
  using Replicas = DataParallel<2, Reproducible<>>;
  CHECK(test::googlenet_step<
            Hybrid<Replicas, ModelParallel<Split<5>, Split<9>, Microbatches<2>>>>() == one);
  CHECK(test::googlenet_step<Hybrid<Replicas, ModelParallel<Placed<table>, Microbatches<2>>>>() ==
        one);
  CHECK(test::googlenet_step<Hybrid<Replicas, Pipeline<OneFOneB, 2, Split<5>, Split<9>>>>() == one);
}

}  // namespace googlenet_hybrid_test
}  // namespace tandem
