// SPDX-License-Identifier: Apache-2.0
// Weight prediction trains by its equation, bit for bit.

#include "asynchronous.hpp"

namespace tandem::test {
namespace asynchronous_prediction_test {

TEST_CASE("weight prediction on two devices") {
  check_ten_steps<PredictionEquation, InTwo<WeightPrediction, 1>, InTwo<GPipe, 1>>();
}

TEST_CASE("weight prediction on four devices, and emptied after five steps") {
  using S = InFour<WeightPrediction, 1>;
  check_ten_steps<PredictionEquation, S, InFour<GPipe, 1>>();
  check_ten_steps<PredictionEquation, S, InFour<GPipe, 1>>(asynchronous_options(), 5);
}

}  // namespace asynchronous_prediction_test
}  // namespace tandem::test
