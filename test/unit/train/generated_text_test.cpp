// SPDX-License-Identifier: Apache-2.0
// What generate() writes is what the network, given the whole text at every token, would write.

#include <written_text.hpp>

namespace tandem {
namespace generated_text_test {

using test::written::check;

TEST_CASE("on one device, with keys and values carried") { check<SingleDevice<>>(); }

TEST_CASE("under strategies of several devices") {
  check<DataParallel<2>>();
  check<Pipeline<OneFOneB, 2, Split<3>, Split<3>>>();
}

TEST_CASE("under two models, and in an interleaved pipeline") {
  check<CrossModelParallel<AverageGradients, Split<3>, Split<3>>>();
  check<Pipeline<Interleaved<2>, 2, Split<1>, Split<1>, Split<2>, Split<2>>>();
}

}  // namespace generated_text_test
}  // namespace tandem
