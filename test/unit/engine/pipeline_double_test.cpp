// SPDX-License-Identifier: Apache-2.0
// Five steps in double under every schedule of a chain: the numbers of one device.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_double_test {

template <class Many>
void check(std::initializer_list<std::string_view> schedules) {
  for_tables<OneDevice<>, Many, Double>(
      schedules, {1, 4, 7, 8}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

TEST_CASE("two devices train as one") {
  check<InTwo<ZeroBubbleH1, 4>>(
      {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"});
}

TEST_CASE("four devices that compute each layer again train as one") {
  check<InFour<OneFOneB, 4, Checkpoint<Every<1>>>>({"sequential", "gpipe", "one_f_one_b"});
}

}  // namespace pipeline_double_test
}  // namespace tandem::test
