// SPDX-License-Identifier: Apache-2.0
// Delayed gradients, several microbatches with two versions of weights (PipeDream-2BW), and what is
// computed again, with the weights of the forward pass, train by their equations, bit for bit.

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

TEST_CASE("PipeDream-2BW: two microbatches on two devices") {
  check_ten_steps<DoubleBufferedEquation, InTwo<PipeDream2BW, 2>, InTwo<GPipe, 1>>();
}

TEST_CASE("PipeDream-2BW: five microbatches on two devices that compute each stage again") {
  using S = InTwo<PipeDream2BW, 5, Checkpoint<Boundaries>>;
  check_ten_steps<DoubleBufferedEquation, S, InTwo<GPipe, 1>>();
}

TEST_CASE(
    "PipeDream-2BW: four microbatches on four devices, with momentum and with Adam, and emptied") {
  using S = InFour<PipeDream2BW, 4>;
  check_ten_steps<DoubleBufferedEquation, S, InFour<GPipe, 1>>();
  TrainerOptions adam = asynchronous_options();
  adam.optimizer = Adam{.learning_rate = 0.01F, .weight_decay = 1e-3F};
  check_ten_steps<DoubleBufferedEquation, S, InFour<GPipe, 1>>(adam, 4);
}

}  // namespace asynchronous_recomputed_test
}  // namespace tandem::test
