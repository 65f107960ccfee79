// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The JSON of small files, as a tree: of the planner's own, which has objects of numbers, strings
/// and objects, or any.
///
/// Each value knows its line and column, so that what is wrong with it can be said later. Of the
/// planner's own files arrays, true, false, null and escapes by number are refused: none has them.
/// Cost: linear in the text, but for the logarithm of the keys of an object.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/io/json/string.hpp>

namespace tandem::detail {

/// Lines and columns count from 1, columns in bytes.
struct JsonPlace {
  int line = 1;
  int column = 1;
};

TANDEM_ONCE [[noreturn]] TANDEM_COLD void fail_json(std::string const& path, JsonPlace at,
                                                    std::string const& what);

/// Which JSON is read.
enum class JsonKinds { plain, any };

/// A value, under the key at which an object has it.
struct JsonValue {
  enum class Kind { number, string, object, list, truth, null };

  Kind kind = Kind::object;
  double number = 0;                ///< true is 1, false 0
  std::string text{};               ///< of a string
  std::vector<JsonValue> member{};  ///< of an object or a list, in the order of the file
  std::string key{};
  JsonPlace at{};      ///< its first character
  JsonPlace key_at{};  ///< its key's first character
};

/// The file with this @p text, which is an object and nothing else.
/// @throws FileError  it is not: where, and what was expected
TANDEM_ONCE [[nodiscard]] JsonValue read_json(std::string_view text, std::string const& path,
                                              JsonKinds kinds = JsonKinds::plain);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void fail_json(std::string const& path, JsonPlace at, std::string const& what) {
  throw FileError{path, "line " + std::to_string(at.line) + ", column " +
                            std::to_string(at.column) + ": " + what};
}

/// A position in a text that is read once, from front to back.
class JsonText {
 public:
  JsonText(std::string_view text, std::string const& path, JsonKinds kinds)
      : text_{text}, path_{path}, any_{kinds == JsonKinds::any} {}

  /// Reads an object and nothing else.
  JsonValue document() {
    skip_blanks();
    if (next() != '{') {
      fail("expected '{', the file being one object");
    }
    JsonValue all = value(0);
    skip_blanks();
    if (at_ < text_.size()) {
      fail("expected the end of the file behind its object");
    }
    return all;
  }

 private:
  static constexpr int deepest = 16;  // files nest once or twice; a call each

  /// NUL, which JSON does not allow, at the end.
  [[nodiscard]] char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  [[nodiscard]] JsonPlace place() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }

  [[noreturn]] void fail(std::string const& what) const {
    fail_json(path_, place(), at_ < text_.size() ? what : what + ", but the file ends");
  }

  void skip_blanks() {
    while (next() == ' ' || next() == '\n' || next() == '\r' || next() == '\t') {
      if (text_[at_++] == '\n') {  // which stands nowhere else
        ++line_;
        line_begin_ = at_;
      }
    }
  }

  JsonValue value(int depth) {
    skip_blanks();
    JsonValue out{.at = place()};
    if (next() == '{') {
      read_members(out, depth);
    } else if (next() == '"') {
      out.kind = JsonValue::Kind::string;
      out.text = string();
    } else if (next() == '-' || is_digit()) {
      out.kind = JsonValue::Kind::number;
      out.number = number();
    } else if (!any_) {
      fail("expected a number, a string or an object");
    } else if (next() == '[') {
      read_list(out, depth);
    } else {
      read_word(out);
    }
    return out;
  }

  void read_word(JsonValue& out) {
    for (std::string_view const word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        out.kind = word == "null" ? JsonValue::Kind::null : JsonValue::Kind::truth;
        out.number = word == "true" ? 1 : 0;
        return;
      }
    }
    fail("expected a value");
  }

  void read_list(JsonValue& list, int depth) {
    list.kind = JsonValue::Kind::list;
    if (depth == deepest) {
      fail("lists nest too deep");
    }
    ++at_;
    for (bool more = !passes(']'); more; more = goes_on(']', "expected ',' or ']'")) {
      list.member.push_back(value(depth + 1));
    }
  }

  void read_members(JsonValue& object, int depth) {
    if (depth == deepest) {
      fail("objects nest too deep");
    }
    ++at_;
    std::set<std::string> keys;
    for (bool more = !passes('}'); more; more = goes_on('}', "expected ',' or '}'")) {
      skip_blanks();
      JsonPlace const key_at = place();
      if (next() != '"') {
        fail("expected a key in double quotes");
      }
      std::string key = string();
      if (!keys.insert(key).second) {
        fail_json(path_, key_at, "the key \"" + printable(key) + "\" is here a second time");
      }
      take(':', "expected ':' behind the key");
      JsonValue member = value(depth + 1);
      member.key = std::move(key);
      member.key_at = key_at;
      object.member.push_back(std::move(member));
    }
  }

  // Passes over blanks, and over @p token if it is next, which it returns.
  bool passes(char token) {
    skip_blanks();
    bool const found = next() == token;
    at_ += found ? 1U : 0U;
    return found;
  }

  void take(char token, char const* what) {
    if (!passes(token)) {
      fail(what);
    }
  }

  // Passes over what ends a list or an object, or over the comma before more of it.
  bool goes_on(char end, char const* what) {
    bool const ends = passes(end);
    if (!ends) {
      take(',', what);
    }
    return !ends;
  }

  std::string string() {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meaning = "\"\\/\b\f\n\r\t";
    std::string out;
    for (++at_; next() != '"'; ++at_) {
      if (static_cast<unsigned char>(next()) < 0x20) {
        fail("expected '\"' at the end of the string");
      }
      if (next() != '\\') {
        std::size_t const length = utf8_length(text_.substr(at_));
        if (length == 0) {
          fail("expected a character of UTF-8");
        }
        out += text_.substr(at_, length);
        at_ += length - 1;
        continue;
      }
      ++at_;
      if (any_ && next() == 'u') {
        append_point(out);
        continue;
      }
      std::size_t const which = letters.find(next());
      if (which == letters.npos) {
        fail("expected one of \" \\ / b f n r t behind '\\'; write other characters themselves");
      }
      out += meaning[which];
    }
    ++at_;
    return out;
  }

  // Of `uXXXX`, or of two such that are a surrogate pair; the last digit is left to be passed over.
  void append_point(std::string& out) {
    std::uint32_t point = unit();
    if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
      at_ += 2;
      point = 0x10000 + ((point - 0xD800) << 10) + ((unit() - 0xDC00) & 0x3FF);
    }
    if (point >= 0xD800 && point < 0xE000) {
      fail("expected a surrogate pair");
    }
    append_utf8(out, point);
  }

  std::uint32_t unit() {
    std::uint32_t unit = 0;
    auto const [end, error] = std::from_chars(
        text_.data() + at_ + 1, text_.data() + std::min(at_ + 5, text_.size()), unit, 16);
    if (error != std::errc{} || end != text_.data() + at_ + 5) {
      fail("expected 'u' and four hexadecimal digits");
    }
    at_ += 4;
    return unit;
  }

  [[nodiscard]] bool is_digit() const { return next() >= '0' && next() <= '9'; }

  void digits() {
    if (!is_digit()) {
      fail("expected a digit of a number");
    }
    while (is_digit()) {
      ++at_;
    }
  }

  double number() {
    std::size_t const begin = at_;
    at_ += next() == '-' ? 1U : 0U;
    if (next() == '0') {
      ++at_;  // the only digit before '.' then
    } else {
      digits();
    }
    if (next() == '.') {
      ++at_;
      digits();
    }
    if (next() == 'e' || next() == 'E') {
      ++at_;
      at_ += next() == '-' || next() == '+' ? 1U : 0U;
      digits();
    }
    double out = 0;
    if (std::from_chars(text_.data() + begin, text_.data() + at_, out).ec != std::errc{}) {
      at_ = begin;
      fail("the number is too large or too small");
    }
    return out;
  }

  std::string_view text_;
  std::string const& path_;
  bool any_ = false;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_begin_ = 0;
};

TANDEM_ONCE JsonValue read_json(std::string_view text, std::string const& path, JsonKinds kinds) {
  return JsonText{text, path, kinds}.document();
}

}  // namespace tandem::detail

#endif
