// SPDX-License-Identifier: Apache-2.0
// Replicas of two models: each model has the mean gradient over its halves of all shards.

#include "cross_model.hpp"

namespace tandem::test {
namespace cross_model_hybrid_test {

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

}  // namespace cross_model_hybrid_test
}  // namespace tandem::test
