// SPDX-License-Identifier: Apache-2.0
// Reproducible pipelines: the bits of one device after five steps of several sizes, clipped and
// with states, under every schedule of a chain.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_reproducible_test {

template <class Many>
void check() {
  TrainerOptions adam = parity_options();
  adam.optimizer = Adam{.learning_rate = 0.01F};
  for (TrainerOptions const& options : {parity_options(), adam}) {
    for_tables<OneDevice<Reproducible<>>, Many, Host>(
        {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"}, {1, 4, 8},
        options, [](auto& one, auto& many) { compare_bits(one, many); });
  }
}

TEST_CASE("two devices have the bits of one") { check<InTwo<ZeroBubbleH1, 4, Reproducible<>>>(); }

TEST_CASE("four devices have the bits of one") { check<InFour<ZeroBubbleH1, 4, Reproducible<>>>(); }

}  // namespace pipeline_reproducible_test
}  // namespace tandem::test
