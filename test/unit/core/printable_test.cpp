// SPDX-License-Identifier: Apache-2.0
// What a terminal would obey does not come out of printable().

#include <tandem/core/printable.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace tandem {
namespace printable_test {

TEST_CASE("only ASCII's visible characters and the space come out as they are") {
  CHECK(detail::printable("host:1234, file:/tmp/a b~") == "host:1234, file:/tmp/a b~");
  CHECK(detail::printable("\x1b[2J\x1b]0;title\a\r\n") == "\\x1B[2J\\x1B]0;title\\x07\\x0D\\x0A");
  CHECK(detail::printable(std::string(1, '\0') + "\x7f\xc2\x9b") == "\\x00\\x7F\\xC2\\x9B");
  std::string all;
  for (int c = 0; c < 256; ++c) {
    all += static_cast<char>(c);
  }
  CHECK(std::ranges::all_of(detail::printable(all), [](char c) { return c >= ' ' && c <= '~'; }));
}

TEST_CASE("what is too long is cut") {
  CHECK(detail::printable("abcdef", 3) == "abc...");
  CHECK(detail::printable("abcdef", 6) == "abcdef");
  CHECK(detail::printable(std::string(100000, '\x1b')).size() == 4 * 256 + 3);
}

}  // namespace printable_test
}  // namespace tandem
