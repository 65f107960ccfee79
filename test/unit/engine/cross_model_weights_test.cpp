// SPDX-License-Identifier: Apache-2.0
// Two models whose weights are averaged have the bits of the rule, worked out one after the other.

#include "cross_model.hpp"

namespace tandem::test {
namespace cross_model_weights_test {

TEST_CASE("weights, every step, on two devices") {
  using S = CrossModelParallel<AverageWeights<>, Split<5>, Split<7>>;
  check_ten_steps<S>();
  check_ten_steps<S>(with_adam());
}

TEST_CASE("weights, every third step, on four devices that compute each stage again") {
  using S = CrossPipeline<4, AverageWeights<3>, Split<2>, Split<3>, Split<3>, Split<4>,
                          Checkpoint<Boundaries>>;
  check_ten_steps<S>();
}

TEST_CASE("weights, every second step, on three devices, one of which has a stage of both") {
  using S = CrossPipeline<4, AverageWeights<2>, Split<4>, Split<4>, Split<4>>;
  check_ten_steps<S>();
}

}  // namespace cross_model_weights_test
}  // namespace tandem::test
