// SPDX-License-Identifier: Apache-2.0
// Delayed gradients, and what is computed again: with the weights of the forward pass, not with
// those of now.

#include "asynchronous.hpp"

namespace tandem::test {
namespace asynchronous_recomputed_test {

TEST_CASE("delayed gradients on four devices are those of PipeDream") {
  check_ten_steps<PipeDreamEquation, InFour<DelayedGradient, 1>, InFour<GPipe, 1>>();
}

TEST_CASE("PipeDream on four devices that compute each stage again") {
  check_ten_steps<PipeDreamEquation, InFour<PipeDream, 1, Checkpoint<Boundaries>>,
                  InFour<GPipe, 1>>();
}

TEST_CASE("PipeDream with vertical sync on two devices that compute every layer again") {
  check_ten_steps<VerticalSyncEquation, InTwo<PipeDreamVerticalSync, 1, Checkpoint<Every<1>>>,
                  InTwo<GPipe, 1>>();
}

}  // namespace asynchronous_recomputed_test
}  // namespace tandem::test
