// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/core/utf8.hpp>

namespace utf8_test {

using namespace tandem::detail;

TEST_CASE("bytes of no sequence become question marks") {
  CHECK(valid_utf8("") == "");
  CHECK(valid_utf8("a\xC3\xA4z") == "a\xC3\xA4z");
  CHECK(valid_utf8("a\xFFz") == "a?z");
  CHECK(valid_utf8("\xC3") == "?");
  CHECK(valid_utf8("\xED\xA0\x80") == "???");  // a surrogate
  CHECK(is_utf8(valid_utf8("\xF0\x9F\x98 \x80")));
}

TEST_CASE("a text is UTF-8 without control characters") {
  CHECK(text_length("") == 0);
  CHECK(text_length("a\tb\r\n\xC3\xA4") == 7);
  CHECK(text_length("ab\x1B") == 2);
  CHECK(text_length(std::string{"ab\0c", 4}) == 2);
  CHECK(text_length("abc\xC3") == 3);
  CHECK(text_length("abc\x7F") == 3);
}

}  // namespace utf8_test
