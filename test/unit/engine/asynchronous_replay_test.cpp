// SPDX-License-Identifier: Apache-2.0
// Features replay, PMP and weight prediction train by their equations, bit for bit; so do whole
// epochs, in which devices are several steps apart.

#include "asynchronous.hpp"

namespace tandem::test {
namespace asynchronous_replay_test {

TEST_CASE("features replay on four devices, and emptied after five steps") {
  using S = InFour<FeaturesReplay, 1>;
  check_ten_steps<ReplayEquation, S, InFour<GPipe, 1>>();
  check_ten_steps<ReplayEquation, S, InFour<GPipe, 1>>(asynchronous_options(), 5);
}

TEST_CASE("PMP on two devices") {
  check_ten_steps<PipelinedModelEquation, InTwo<PipelinedModel, 1>, InTwo<GPipe, 1>>();
}

TEST_CASE("PMP on four devices, and emptied before it was full") {
  using S = InFour<PipelinedModel, 1>;
  check_ten_steps<PipelinedModelEquation, S, InFour<GPipe, 1>>();
  check_ten_steps<PipelinedModelEquation, S, InFour<GPipe, 1>>(asynchronous_options(), 3);
}

TEST_CASE("weight prediction on two devices") {
  check_ten_steps<PredictionEquation, InTwo<WeightPrediction, 1>, InTwo<GPipe, 1>>();
}

TEST_CASE("weight prediction on four devices, and emptied after five steps") {
  using S = InFour<WeightPrediction, 1>;
  check_ten_steps<PredictionEquation, S, InFour<GPipe, 1>>();
  check_ten_steps<PredictionEquation, S, InFour<GPipe, 1>>(asynchronous_options(), 5);
}

TEST_CASE("two epochs of PipeDream on four devices") {
  check_two_epochs<PipeDreamEquation, InFour<PipeDream, 1>, InFour<GPipe, 1>>();
}

TEST_CASE("two epochs of PMP on four devices: delays that are longer than an epoch") {
  check_two_epochs<PipelinedModelEquation, InFour<PipelinedModel, 1>, InFour<GPipe, 1>>();
}

TEST_CASE("two epochs of PipeDream-2BW on two devices") {
  check_two_epochs<DoubleBufferedEquation, InTwo<PipeDream2BW, 3>, InTwo<GPipe, 1>>();
}

}  // namespace asynchronous_replay_test
}  // namespace tandem::test
