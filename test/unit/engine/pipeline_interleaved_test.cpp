// SPDX-License-Identifier: Apache-2.0
// Several stages a device: the numbers of one device, in double and bit for bit.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_interleaved_test {

TEST_CASE("two devices of two stages train as one") {
  for_tables<OneDevice<>, InFour<Interleaved<2>, 4>, Double>(
      {"interleaved"}, {2, 4, 6, 8}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

TEST_CASE("four devices of two stages have the bits of one, and when they compute again") {
  for_tables<OneDevice<Reproducible<>>, InEight<Interleaved<2>, 4, Reproducible<>>, Host>(
      {"interleaved"}, {4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
  for_tables<OneDevice<Reproducible<>>,
             InFour<Interleaved<2>, 4, Reproducible<>, Checkpoint<Every<1>>>, Host>(
      {"interleaved"}, {2, 4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

}  // namespace pipeline_interleaved_test
}  // namespace tandem::test
