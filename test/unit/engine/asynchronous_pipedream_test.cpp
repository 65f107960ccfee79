// SPDX-License-Identifier: Apache-2.0
// PipeDream, with and without vertical sync, and DDG train by their equations, bit for bit.

#include "asynchronous.hpp"

namespace tandem::test {
namespace asynchronous_pipedream_test {

TEST_CASE("PipeDream on two devices") {
  check_ten_steps<PipeDreamEquation, InTwo<PipeDream, 1>, InTwo<GPipe, 1>>();
}

TEST_CASE("PipeDream on four devices, and emptied after five steps") {
  using S = InFour<PipeDream, 1>;
  check_ten_steps<PipeDreamEquation, S, InFour<GPipe, 1>>();
  check_ten_steps<PipeDreamEquation, S, InFour<GPipe, 1>>(asynchronous_options(), 5);
}

TEST_CASE("PipeDream with vertical sync on four devices") {
  using S = InFour<PipeDreamVerticalSync, 1>;
  check_ten_steps<VerticalSyncEquation, S, InFour<GPipe, 1>>();
  check_ten_steps<VerticalSyncEquation, S, InFour<GPipe, 1>>(asynchronous_options(), 2);
}

}  // namespace asynchronous_pipedream_test
}  // namespace tandem::test
