// SPDX-License-Identifier: Apache-2.0
// PipeDream-2BW trains by its equation, bit for bit: several microbatches, two versions of weights.

#include "asynchronous.hpp"

namespace tandem::test {
namespace asynchronous_double_buffered_test {

TEST_CASE("two microbatches on two devices") {
  check_ten_steps<DoubleBufferedEquation, InTwo<PipeDream2BW, 2>, InTwo<GPipe, 1>>();
}

TEST_CASE("five microbatches on two devices that compute each stage again") {
  using S = InTwo<PipeDream2BW, 5, Checkpoint<Boundaries>>;
  check_ten_steps<DoubleBufferedEquation, S, InTwo<GPipe, 1>>();
}

TEST_CASE("four microbatches on four devices, with momentum and with Adam, and emptied") {
  using S = InFour<PipeDream2BW, 4>;
  check_ten_steps<DoubleBufferedEquation, S, InFour<GPipe, 1>>();
  TrainerOptions adam = asynchronous_options();
  adam.optimizer = Adam{.learning_rate = 0.01F, .weight_decay = 1e-3F};
  check_ten_steps<DoubleBufferedEquation, S, InFour<GPipe, 1>>(adam, 4);
}

}  // namespace asynchronous_double_buffered_test
}  // namespace tandem::test
