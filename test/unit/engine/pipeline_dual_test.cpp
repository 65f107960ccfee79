// SPDX-License-Identifier: Apache-2.0
// Two copies of the model in opposite directions, whose last weight gradients are apart: the bits
// of one device.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_dual_test {

TEST_CASE("two devices have the bits of one") {
  for_tables<OneDevice<Reproducible<>>, InTwo<DualPipe, 4, Reproducible<>>, Host>(
      {"dual_pipe"}, {4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

TEST_CASE("four devices have the bits of one") {
  for_tables<OneDevice<Reproducible<>>, InFour<DualPipe, 8, Reproducible<>>, Host>(
      {"dual_pipe"}, {8}, parity_options(), [](auto& one, auto& many) { compare_bits(one, many); });
}

}  // namespace pipeline_dual_test
}  // namespace tandem::test
