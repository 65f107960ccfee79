// SPDX-License-Identifier: Apache-2.0
// Two models have the bits of the rule where an average is taken a step later, while the next
// gradient is computed.

#include "ten_steps.hpp"

namespace tandem::test {
namespace cross_model_overlapped_test {

TEST_CASE("weights, overlapped, on two devices") {
  using S = CrossModelParallel<Overlapped<AverageWeights<>>, Split<5>, Split<7>>;
  check_two_models<S>();
  check_two_models<S>(with_adam());
}

TEST_CASE("weights and states, overlapped, every second step, on four devices") {
  using S = CrossPipeline<4, Overlapped<AverageWeightsAndState<2>>, Split<2>, Split<3>, Split<3>,
                          Split<4>>;
  check_two_models<S>();
  check_two_models<S>(with_adam());
}

TEST_CASE("weights and states, overlapped, on three devices that compute each stage again") {
  using S = CrossModelParallel<Overlapped<AverageWeightsAndState<>>, Split<4>, Split<4>, Split<4>,
                               Checkpoint<Boundaries>>;
  check_two_models<S>();
}

}  // namespace cross_model_overlapped_test
}  // namespace tandem::test
