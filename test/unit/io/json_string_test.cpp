// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/io/json/string.hpp>

namespace tandem::detail {
namespace json_string_test {

using namespace std::string_view_literals;

static_assert(is_utf8(""sv));
static_assert(is_utf8("a\0b"sv));
static_assert(utf8_length(""sv) == 0);

std::string in_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST_CASE("utf8_length: the first and the last code point of each length") {
  CHECK(utf8_length("\x7F"sv) == 1);
  CHECK(utf8_length("\xC2\x80"sv) == 2);
  CHECK(utf8_length("\xDF\xBF"sv) == 2);
  CHECK(utf8_length("\xE0\xA0\x80"sv) == 3);
  CHECK(utf8_length("\xED\x9F\xBF"sv) == 3);
  CHECK(utf8_length("\xEF\xBF\xBF"sv) == 3);
  CHECK(utf8_length("\xF0\x90\x80\x80"sv) == 4);
  CHECK(utf8_length("\xF4\x8F\xBF\xBF and more"sv) == 4);
}

TEST_CASE("is_utf8: refuses what is malformed") {
  for (std::string_view const text :
       {"\x80"sv, "\xBF"sv, "\xC0\x80"sv, "\xC1\xBF"sv, "\xE0\x9F\xBF"sv, "\xED\xA0\x80"sv,
        "\xF0\x8F\xBF\xBF"sv, "\xF4\x90\x80\x80"sv, "\xF5\x80\x80\x80"sv, "\xFF"sv, "\xC2"sv,
        "\xE0\xA0"sv, "\xF0\x90\x80"sv, "\xC2\x41"sv, "\xE1\x80\x41"sv, "\xF1\x80\x80\xC0"sv}) {
    CAPTURE(in_json(text));
    CHECK(!is_utf8(text));
    CHECK(!is_utf8("a" + std::string{text}));
  }
}

TEST_CASE("utf8_length does not look beyond the text") {
  constexpr std::string_view whole = "\xF0\x90\x80\x80";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(utf8_length(whole.substr(0, size)) == 0);
  }
}

TEST_CASE("append_utf8 is what utf8_length accepts") {
  std::string text;
  for (std::uint32_t const point : {0x00U, 0x41U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U,
                                    0xFFFFU, 0x10000U, 0x10FFFFU}) {
    append_utf8(text, point);
  }
  CHECK(is_utf8(text));
  CHECK(text ==
        "\x00\x41\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"
        "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"sv);
}

TEST_CASE("append_json_string: escapes what it must and nothing else") {
  CHECK(in_json("") == "\"\"");
  CHECK(in_json("a/b.\xC3\xA9\x7F") == "\"a/b.\xC3\xA9\x7F\"");
  CHECK(in_json("\"\\\b\f\n\r\t") == R"("\"\\\b\f\n\r\t")");
  CHECK(in_json("\0\x01\x1F"sv) == R"("\u0000\u0001\u001f")");
}

TEST_CASE("quoted: cuts long text between characters") {
  CHECK(json_quoted(std::string(64, 'a')) == '"' + std::string(64, 'a') + '"');
  CHECK(json_quoted(std::string(65, 'a')) == '"' + std::string(64, 'a') + "\"...");
  CHECK(json_quoted(std::string(63, 'a') + "\xC3\xA9") == '"' + std::string(63, 'a') + "\"...");
}

TEST_CASE("quoted: nothing that a terminal obeys") {
  CHECK(json_quoted("\x1B[2J\n") == R"("\u001b[2J\n")");
  CHECK(json_quoted("\x7F\xC2\x80 \xC2\x9B"
                    "2J\xC2\x9F") == R"("\u007f\u0080 \u009b2J\u009f")");
  CHECK(json_quoted("\xC2\xA0\xC3\x9B\xE2\x82\x9B") == "\"\xC2\xA0\xC3\x9B\xE2\x82\x9B\"");
}

}  // namespace json_string_test
}  // namespace tandem::detail
