// SPDX-License-Identifier: Apache-2.0
// A pipeline changes where and when numbers are computed, not what they are: the first gradients of
// every schedule in fp32.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_parity_test {

template <class Many>
void check(std::initializer_list<std::string_view> schedules, std::initializer_list<int> counts) {
  for_tables<OneDevice<>, Many, Host>(
      schedules, counts, parity_options(),
      [](auto& one, auto& many) { compare_first_gradients(one, many); });
}

TEST_CASE("two devices have the gradients of one under every schedule of a chain") {
  check<InTwo<ZeroBubbleH1, 4>>(
      {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"}, {1, 4, 7, 8});
}

TEST_CASE("four devices have the gradients of one under every schedule of a chain") {
  check<InFour<ZeroBubbleH1, 4>>(
      {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"}, {1, 4, 7, 8});
}

}  // namespace pipeline_parity_test
}  // namespace tandem::test
