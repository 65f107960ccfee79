// SPDX-License-Identifier: Apache-2.0
// Activations that are computed again are the same: the bits of one device that keeps all of them.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_checkpoint_test {

template <class Many>
void check() {
  for_tables<OneDevice<Reproducible<>>, Many, Host>(
      {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

TEST_CASE("every top-level layer apart, on two devices") {
  check<InTwo<OneFOneB, 4, Reproducible<>, Checkpoint<Every<1>>>>();
}

TEST_CASE("runs of two top-level layers, on two devices") {
  check<InTwo<OneFOneB, 4, Checkpoint<Every<2>>, Reproducible<>>>();
}

TEST_CASE("whole stages, on four devices") {
  check<InFour<OneFOneB, 4, Reproducible<>, Checkpoint<Boundaries>>>();
}

}  // namespace pipeline_checkpoint_test
}  // namespace tandem::test
