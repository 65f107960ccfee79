// SPDX-License-Identifier: Apache-2.0
// The same where optimizer states are averaged, too.

#include "cross_model.hpp"

namespace tandem::test {
namespace cross_model_state_test {

TEST_CASE("weights and states, every step, on four devices") {
  using S = CrossModelParallel<AverageWeightsAndState<>, Split<2>, Split<3>, Split<3>, Split<4>>;
  check_ten_steps<S>();
  check_ten_steps<S>(with_adam());
}

TEST_CASE("weights and states, every step, on three devices") {
  using S = CrossModelParallel<AverageWeightsAndState<>, Split<4>, Split<4>, Split<4>>;
  check_ten_steps<S>(with_adam());
}

TEST_CASE("weights and states, every fourth step, on two devices") {
  using S = CrossPipeline<6, AverageWeightsAndState<4>, Split<5>, Split<7>>;
  check_ten_steps<S>();
  check_ten_steps<S>(with_adam());
}

}  // namespace cross_model_state_test
}  // namespace tandem::test
