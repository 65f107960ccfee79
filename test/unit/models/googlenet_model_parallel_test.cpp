// SPDX-License-Identifier: Apache-2.0
// GoogLeNet cut over devices: a step has the bits of one device.

#include <doctest/doctest.h>

#include <unit/models/googlenet_strategies.hpp>

namespace tandem {
namespace googlenet_model_parallel_test {

constexpr auto table = place<test::CifarGoogLeNet>({{"1.2", 1}, {"1.3", 1}, {"4.1", 1}, {"10", 1}});

TEST_CASE("GoogLeNet under ModelParallel, Placed and 1F1B: the bits of one device") {
  auto const& one = test::googlenet_on_one_device();
  using Same = Reproducible<>;
  CHECK(test::googlenet_step<ModelParallel<Split<5>, Split<9>, Microbatches<4>, Same>>() == one);
  CHECK(test::googlenet_step<ModelParallel<Placed<table>, Microbatches<4>, Same>>() == one);
  CHECK(test::googlenet_step<Pipeline<OneFOneB, 4, Split<5>, Split<9>, Same>>() == one);
}

}  // namespace googlenet_model_parallel_test
}  // namespace tandem
