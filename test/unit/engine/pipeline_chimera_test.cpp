// SPDX-License-Identifier: Apache-2.0
// Two copies of the model in opposite directions: the numbers of one device.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_chimera_test {

template <class Many>
void check() {
  for_tables<OneDevice<Reproducible<>>, Many, Host>(
      {"chimera"}, {2, 4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

TEST_CASE("two devices have the bits of one") { check<InTwo<Chimera, 4, Reproducible<>>>(); }

TEST_CASE("four devices that compute each stage again have the bits of one") {
  check<InFour<Chimera, 4, Reproducible<>, Checkpoint<Boundaries>>>();
}

TEST_CASE("two devices train as one in double") {
  for_tables<OneDevice<>, InTwo<Chimera, 4>, Double>(
      {"chimera"}, {2, 4, 6, 8}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

}  // namespace pipeline_chimera_test
}  // namespace tandem::test
