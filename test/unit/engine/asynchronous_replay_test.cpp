// SPDX-License-Identifier: Apache-2.0
// Features replay and PMP train by their equations, bit for bit.

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

}  // namespace asynchronous_replay_test
}  // namespace tandem::test
