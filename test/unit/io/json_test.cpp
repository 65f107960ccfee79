// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/json/reader.hpp>

#include "temporary_folder.hpp"

namespace tandem::detail {
namespace json_test {

using namespace std::string_literals;
using namespace std::string_view_literals;

std::string read_string(std::string_view text) {
  JsonReader json{text, "file", 0};
  std::string value = json.string();
  json.end();
  return value;
}

std::int64_t read_natural(std::string_view text) {
  JsonReader json{text, "file", 0};
  std::int64_t const value = json.natural();
  json.end();
  return value;
}

/// The object's text with keys in order: "a=1;b=2;".
std::string read_object(std::string_view text) {
  std::string out;
  JsonReader json{text, "file", 0};
  json.object(
      [&](std::string const& key) { out += key + '=' + std::to_string(json.natural()) + ';'; });
  json.end();
  return out;
}

std::vector<std::int64_t> read_array(std::string_view text) {
  std::vector<std::int64_t> out;
  JsonReader json{text, "file", 0};
  json.array([&] { out.push_back(json.natural()); });
  json.end();
  return out;
}

/// The error without the words that are the same in all.
template <class Read>
std::string fault(Read const& read, std::string_view text) {
  std::string const what = test::message<FileError>([&] { static_cast<void>(read(text)); });
  std::string const prefix = "'file': the header is wrong at byte ";
  CHECK(what.starts_with(prefix));
  return what.starts_with(prefix) ? what.substr(prefix.size()) : what;
}

TEST_CASE("JsonReader: strings and their escapes") {
  CHECK(read_string(R"( "" )") == "");
  CHECK(read_string("\"a \xC3\xA9 \x7F\"") == "a \xC3\xA9 \x7F");
  CHECK(read_string(R"("\"\\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
  CHECK(read_string(R"("\u0041\u00e9\u00E9\u2211\u0000")") == "A\xC3\xA9\xC3\xA9\xE2\x88\x91\0"s);
  CHECK(read_string(R"("\ud83d\ude42\uDBFF\uDFFF")") == "\xF0\x9F\x99\x82\xF4\x8F\xBF\xBF");
}

TEST_CASE("JsonReader: strings that are none") {
  auto const escape =
      R"(: expected an escape: one of \" \\ \/ \b \f \n \r \t, or \u and four digits)"s;
  CHECK(fault(read_string, "a") == "0: expected a string");
  CHECK(fault(read_string, "") == "0: the text ends, expected a string");
  CHECK(fault(read_string, "\"a") == "2: the string is not closed");
  CHECK(fault(read_string, "\"a\xC3\"") == "2: the string is not UTF-8");
  CHECK(fault(read_string, "\"\xED\xA0\x80\"") == "1: the string is not UTF-8");
  CHECK(fault(read_string, "\"\n\"") ==
        "1: a control character in a string; write it as \\u and four digits");
  CHECK(fault(read_string, "\"\0\""sv) ==
        "1: a control character in a string; write it as \\u and four digits");
  CHECK(fault(read_string, R"("\x")") == "1" + escape);
  CHECK(fault(read_string, "\"\\") == "1" + escape);
  CHECK(fault(read_string, R"("\u123)") == "1" + escape);
  CHECK(fault(read_string, R"("\U1234")") == "1" + escape);
  for (char const digit : {'g', 'G', '/', ':', '@', '`', ' '}) {
    CHECK(fault(read_string, "\"\\u00"s + digit + "0\"") == "5: expected a hexadecimal digit");
  }
  CHECK(fault(read_string, R"("\ude42")") == "7: half of a surrogate pair in a string");
  CHECK(fault(read_string, R"("\ud83d\u0041")") == "13: half of a surrogate pair in a string");
  CHECK(fault(read_string, R"("\ud83d\ud83d")") == "13: half of a surrogate pair in a string");
  CHECK(fault(read_string, R"("\ud83d")") == "7" + escape);
}

TEST_CASE("JsonReader: numbers") {
  CHECK(read_natural("0") == 0);
  CHECK(read_natural(" 1234567890 ") == 1'234'567'890);
  CHECK(read_natural("9223372036854775807") == 9'223'372'036'854'775'807);
  CHECK(fault(read_natural, "9223372036854775808") == "18: the number is larger than 2^63 - 1");
  CHECK(fault(read_natural, "99999999999999999999") == "18: the number is larger than 2^63 - 1");
  CHECK(fault(read_natural, "-1") ==
        "0: the number is negative; it must be a non-negative integer");
  CHECK(fault(read_natural, "+1") == "0: expected a non-negative integer");
  CHECK(fault(read_natural, "") == "0: expected a non-negative integer");
  CHECK(fault(read_natural, "null") == "0: expected a non-negative integer");
  CHECK(fault(read_natural, "01") == "2: the number begins with a zero");
  for (std::string const text : {"1.0", "1e3", "1E3", "0.5"}) {
    CHECK(fault(read_natural, text) ==
          "1: the number has a fraction or an exponent; it must be a non-negative integer");
  }
}

TEST_CASE("JsonReader: objects, arrays and blanks") {
  CHECK(read_object("{}") == "");
  CHECK(read_object(" {\t} ") == "");
  CHECK(read_object("{ \"a\" :1\n,\r\"b\":\t2}") == "a=1;b=2;");
  CHECK(read_array("[]").empty());
  CHECK(read_array("[ 1 , 2,3 ]") == std::vector<std::int64_t>{1, 2, 3});
  CHECK(fault(read_object, "[]") == "0: expected an object");
  CHECK(fault(read_object, "{\"a\":1") == "6: the text ends, expected ',' or '}'");
  CHECK(fault(read_object, "{\"a\":1]") == "6: expected ',' or '}'");
  CHECK(fault(read_object, "{\"a\" 1}") == "5: expected ':' after the key");
  CHECK(fault(read_object, "{\"a\":1,}") == "7: expected a string");
  CHECK(fault(read_object, "{,}") == "1: expected a string");
  CHECK(fault(read_object, "{a:1}") == "1: expected a string");
  CHECK(fault(read_array, "{}") == "0: expected an array");
  CHECK(fault(read_array, "[1,]") == "3: expected a non-negative integer");
  CHECK(fault(read_array, "[1 2]") == "3: expected ',' or ']'");
  CHECK(fault(read_array, "[1") == "2: the text ends, expected ',' or ']'");
  CHECK(fault(read_array, "[1]x") == "3: expected nothing more");
  CHECK(fault(read_array, "[1]\0"sv) == "3: expected nothing more");
}

/// What is after a value that was passed over.
std::int64_t read_behind(std::string_view text) {
  JsonReader json{text, "file", 0};
  json.skip();
  std::int64_t const value = json.natural();
  json.end();
  return value;
}

TEST_CASE("JsonReader: values of any kind are passed over") {
  for (std::string const value :
       {"0", "-1.5e+7", "true", "false", "null", "NaN", "-Infinity", R"("")", R"("]},\"\u0041")",
        "[]", "{}", "[ ]", "{ }", "[1,[],{},[[2]]]", R"({"a":{"b":[{"c":null},1.0]},"d":"}"})",
        R"( { "a" : [ 1 , 2 ] , "b" : "x" } )"}) {
    CAPTURE(value);
    CHECK(read_behind(value + " 7") == 7);
  }
  std::string const deep(1'000'000, '[');
  CHECK(read_behind(deep + std::string(deep.size(), ']') + "7") == 7);
  CHECK(fault(read_behind, deep) == "1000000: expected a value");
  CHECK(fault(read_behind, "") == "0: expected a value");
  CHECK(fault(read_behind, "[1}") == "2: expected ',' or ']'");
  CHECK(fault(read_behind, "{\"a\":[1}") == "7: expected ',' or ']'");
  CHECK(fault(read_behind, "{1}") == "1: expected a string");
  CHECK(fault(read_behind, "{\"a\":1,}") == "7: expected a string");
  CHECK(fault(read_behind, "{\"a\" 1}") == "5: expected ':' after the key");
  CHECK(fault(read_behind, "[1,]") == "3: expected a value");
  CHECK(fault(read_behind, "[1") == "2: the text ends, expected ',' or ']'");
  CHECK(fault(read_behind, "'a'") == "0: expected a value");
}

TEST_CASE("JsonReader: null is passed over where it is next") {
  JsonReader json{" null nul", "file", 0};
  CHECK(json.null());
  CHECK(!json.null());
}

TEST_CASE("JsonReader: bytes are counted from the beginning of the file") {
  JsonReader json{" x", "file", 8};
  CHECK(test::message<FileError>([&] { static_cast<void>(json.natural()); }) ==
        "'file': the header is wrong at byte 9: expected a non-negative integer");
}

}  // namespace json_test
}  // namespace tandem::detail
