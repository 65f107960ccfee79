// SPDX-License-Identifier: Apache-2.0
// Two models whose weights are averaged have the bits of the rule, worked out one after the other;
// in replicas, each has the mean gradient over its halves of all shards.

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

TEST_CASE("weights, every second step, in two replicas of two devices") {
  using S = Hybrid<DataParallel<2>, CrossModelParallel<AverageWeights<2>, Split<5>, Split<7>>>;
  check_ten_steps<S>();
}

TEST_CASE("weights and states in replicas of which one has no samples") {
  using S = Hybrid<DataParallel<2, Weighted<0, 1>, BucketBytes<64, 256>>,
                   CrossPipeline<4, AverageWeightsAndState<>, Split<4>, Split<4>, Split<4>>>;
  check_ten_steps<S>(with_adam());
}

TEST_CASE("weights and states, overlapped, in two replicas") {
  using S = Hybrid<DataParallel<2, Weighted<2, 1>>,
                   CrossModelParallel<Overlapped<AverageWeightsAndState<>>, Split<5>, Split<7>>>;
  check_ten_steps<S>();
}

}  // namespace cross_model_weights_test
}  // namespace tandem::test
