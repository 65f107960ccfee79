// SPDX-License-Identifier: Apache-2.0
// translate() finds what a beam search finds that carries nothing from token to token.

#include <translated_text.hpp>

namespace tandem {
namespace translate_test {

using test::translated::check;
using test::translated::Data;
using test::translated::Double;
using test::translated::Net;

TEST_CASE("several sentences at a time, of any width, short and long: as the slow search") {
  check<SingleDevice<>>(12, {{.width = 1},
                             {.width = 3, .length = 0.0},
                             {.width = 4, .length = 1.3, .tokens = 4},
                             {.width = 11},
                             {.width = 2, .tokens = 1}});
}

TEST_CASE("under strategies of several devices") {
  check<DataParallel<2>>(13, {{.width = 3}});
  check<Pipeline<OneFOneB, 2, Split<4>, Split<6>>>(9, {{.width = 3}});
}

}  // namespace translate_test
}  // namespace tandem
