// SPDX-License-Identifier: Apache-2.0
// Over whole epochs, in which devices are several steps apart, an asynchronous pipeline has the
// bits of its equation.

#include "asynchronous.hpp"

namespace tandem::test {
namespace asynchronous_epochs_test {

TEST_CASE("PipeDream on four devices") {
  check_two_epochs<PipeDreamEquation, InFour<PipeDream, 1>, InFour<GPipe, 1>>();
}

TEST_CASE("PMP on four devices: delays that are longer than an epoch") {
  check_two_epochs<PipelinedModelEquation, InFour<PipelinedModel, 1>, InFour<GPipe, 1>>();
}

TEST_CASE("PipeDream-2BW on two devices") {
  check_two_epochs<DoubleBufferedEquation, InTwo<PipeDream2BW, 3>, InTwo<GPipe, 1>>();
}

}  // namespace asynchronous_epochs_test
}  // namespace tandem::test
