// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/io/json/value.hpp>

namespace json_value_test {

using namespace tandem;
using Kind = detail::JsonValue::Kind;

detail::JsonValue read(std::string_view text) {
  return detail::read_json(text, "file.json", detail::JsonKinds::any);
}

void refused(std::string_view text, std::string const& begin) {
  CAPTURE(text);
  std::string what = "none";
  try {
    static_cast<void>(read(text));
  } catch (FileError const& error) {
    what = std::string{error.what()}.substr(std::string{"'file.json': "}.size());
  }
  CHECK(what.substr(0, begin.size()) == begin);
}

TEST_CASE("any JSON: lists, words and escapes by number") {
  detail::JsonValue const all = read(
      "{\"a\": [1, [], [true, false], {\"b\": null}],\n \"c\": \"\\u0041\\u00e9\\ud83d\\ude00\"}");
  REQUIRE(all.member.size() == 2);
  detail::JsonValue const& list = all.member[0];
  CHECK(list.kind == Kind::list);
  REQUIRE(list.member.size() == 4);
  CHECK(list.member[0].number == 1);
  CHECK(list.member[1].kind == Kind::list);
  CHECK(list.member[1].member.empty());
  CHECK(list.member[2].member[0].kind == Kind::truth);
  CHECK(list.member[2].member[0].number == 1);
  CHECK(list.member[2].member[1].number == 0);
  CHECK(list.member[3].member[0].kind == Kind::null);
  CHECK(all.member[1].text == "A\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(all.member[1].key_at.line == 2);
}

TEST_CASE("what is no JSON, and where") {
  refused("{\"a\": [1, 2}", "line 1, column 12: expected ',' or ']'");
  refused("{\"a\": [1,]}", "line 1, column 10: expected a value");
  refused("{\"a\": [", "line 1, column 8: expected a value, but the file ends");
  refused("{\"a\":\n tru}", "line 2, column 2: expected a value");
  refused("{\"a\": \"\\u12\"}", "line 1, column 9: expected 'u' and four hexadecimal digits");
  refused("{\"a\": \"\\u12g4\"}", "line 1, column 9: expected 'u' and four hexadecimal digits");
  refused("{\"a\": \"\\u", "line 1, column 9: expected 'u' and four hexadecimal digits");
  refused("{\"a\": \"\\ud83d\"}", "line 1, column 13: expected a surrogate pair");
  refused("{\"a\": \"\\ude00\"}", "line 1, column 13: expected a surrogate pair");
  refused("{\"a\":" + std::string(20, '['), "line 1, column 21: lists nest too deep");
}

}  // namespace json_value_test
