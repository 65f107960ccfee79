// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// JsonReader: reads the JSON that the caller expects, value by value, and refuses any other.
///
/// It reads objects, arrays, strings, non-negative integers and null, and passes over any value. It
/// builds no tree and never calls itself: values nest as deep as the caller's own calls do, so a
/// deep file costs no stack.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/json/string.hpp>

namespace tandem::detail {

/// A position in a JSON text. The text must outlive the reader.
class JsonReader {
 public:
  /// @p path names the file in errors; the text, which is its @p part, begins at its byte
  /// @p first_byte.
  JsonReader(std::string_view text, std::string const& path, std::size_t first_byte,
             char const* part = "the header")
      : text_{text}, path_{path}, first_byte_{first_byte}, part_{part} {}

  /// Reads an object; calls @p member(key) after each `key:`, which must read the value.
  template <class Member>
  void object(Member&& member) {
    expect('{', "an object");
    if (accept('}')) {
      return;
    }
    do {
      std::string key = string();
      expect(':', "':' after the key");
      member(std::move(key));
    } while (accept(','));
    expect('}', "',' or '}'");
  }

  /// Reads an array; calls @p element() at each element, which must read it.
  template <class Element>
  void array(Element&& element) {
    expect('[', "an array");
    if (accept(']')) {
      return;
    }
    do {
      element();
    } while (accept(','));
    expect(']', "',' or ']'");
  }

  /// Reads a string; the result is UTF-8, its escapes resolved.
  TANDEM_ONCE [[nodiscard]] std::string string();

  /// Reads an integer from 0 to 2^63 - 1, without sign, fraction or exponent.
  TANDEM_ONCE [[nodiscard]] std::int64_t natural();

  /// Passes over `null` if it is next. @returns whether it was
  TANDEM_ONCE [[nodiscard]] bool null();

  /// Passes over a value of any kind. Brackets, commas and strings are checked; numbers and words,
  /// such as Python's NaN, are not.
  TANDEM_ONCE void skip();

  /// Checks that only blanks are left.
  TANDEM_ONCE void end();

  /// @throws FileError  always: "the header is wrong at byte N: @p what", or what part it is
  [[noreturn]] void fail(std::string const& what) const {
    throw FileError{path_, std::string{part_} + " is wrong at byte " +
                               std::to_string(first_byte_ + at_) + ": " + what};
  }

 private:
  // Before a member of the innermost bracket, if that is an object's.
  TANDEM_ONCE void skip_key(std::string const& open);

  // A number, true, false, null or the like.
  TANDEM_ONCE void skip_word();

  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

  /// The next character, or NUL, which JSON does not allow outside strings, at the end.
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') {
      ++at_;
    }
  }

  TANDEM_ONCE bool accept(char token);

  void expect(char token, char const* what) {
    if (!accept(token)) {
      fail(std::string{at_ == text_.size() ? "the text ends, expected " : "expected "} + what);
    }
  }

  TANDEM_ONCE void append_escape(std::string& out);

  /// Reads `\uXXXX`.
  TANDEM_ONCE std::uint32_t escaped_unit();

  std::string_view text_;
  std::string path_;
  std::size_t first_byte_;
  char const* part_;
  std::size_t at_ = 0;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string JsonReader::string() {
  expect('"', "a string");
  std::string out;
  while (true) {
    if (at_ == text_.size()) {
      fail("the string is not closed");
    }
    char const c = text_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    if (c == '\\') {
      append_escape(out);
      continue;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      fail("a control character in a string; write it as \\u and four digits");
    }
    std::size_t const length = utf8_length(text_.substr(at_));
    if (length == 0) {
      fail("the string is not UTF-8");
    }
    out += text_.substr(at_, length);
    at_ += length;
  }
}

TANDEM_ONCE std::int64_t JsonReader::natural() {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  skip_blanks();
  std::size_t const begin = at_;
  std::int64_t value = 0;
  for (; is_digit(peek()); ++at_) {
    std::int64_t const digit = peek() - '0';
    if (value > (largest - digit) / 10) {
      fail("the number is larger than 2^63 - 1");
    }
    value = 10 * value + digit;
  }
  if (at_ == begin) {
    fail(peek() == '-' ? "the number is negative; it must be a non-negative integer"
                       : "expected a non-negative integer");
  }
  if (text_[begin] == '0' && at_ > begin + 1) {
    fail("the number begins with a zero");
  }
  if (peek() == '.' || peek() == 'e' || peek() == 'E') {
    fail("the number has a fraction or an exponent; it must be a non-negative integer");
  }
  return value;
}

TANDEM_ONCE bool JsonReader::null() {
  skip_blanks();
  bool const found = text_.substr(at_, 4) == "null";
  at_ += found ? 4 : 0;
  return found;
}

TANDEM_ONCE void JsonReader::skip() {
  std::string open;  // the brackets that are still to be closed
  do {
    skip_blanks();
    if (peek() == '{' || peek() == '[') {
      open += text_[at_++] == '{' ? '}' : ']';
      if (accept(open.back())) {
        open.pop_back();
      } else {
        skip_key(open);
        continue;
      }
    } else if (peek() == '"') {
      static_cast<void>(string());
    } else {
      skip_word();
    }
    while (!open.empty() && !accept(',')) {
      expect(open.back(), open.back() == '}' ? "',' or '}'" : "',' or ']'");
      open.pop_back();
    }
    skip_key(open);
  } while (!open.empty());
}

TANDEM_ONCE void JsonReader::end() {
  skip_blanks();
  if (at_ != text_.size()) {
    fail("expected nothing more");
  }
}

TANDEM_ONCE void JsonReader::skip_key(std::string const& open) {
  if (open.ends_with('}')) {
    static_cast<void>(string());
    expect(':', "':' after the key");
  }
}

TANDEM_ONCE void JsonReader::skip_word() {
  std::size_t const begin = at_;
  auto const is_of_word = [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.';
  };
  while (is_of_word(peek())) {
    ++at_;
  }
  if (at_ == begin) {
    fail("expected a value");
  }
}

TANDEM_ONCE bool JsonReader::accept(char token) {
  skip_blanks();
  if (peek() != token) {
    return false;
  }
  ++at_;
  return true;
}

TANDEM_ONCE void JsonReader::append_escape(std::string& out) {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meaning = "\"\\/\b\f\n\r\t";
  char const letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (std::size_t const which = letters.find(letter); which != std::string_view::npos) {
    out += meaning[which];
    at_ += 2;
    return;
  }
  std::uint32_t point = escaped_unit();
  if (point >= 0xD800 && point < 0xDC00) {  // the first half of a surrogate pair
    std::uint32_t const low = escaped_unit();
    if (low < 0xDC00 || low > 0xDFFF) {
      fail("half of a surrogate pair in a string");
    }
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  } else if (point >= 0xDC00 && point <= 0xDFFF) {
    fail("half of a surrogate pair in a string");
  }
  append_utf8(out, point);
}

TANDEM_ONCE std::uint32_t JsonReader::escaped_unit() {
  if (text_.substr(at_, 2) != "\\u" || text_.size() - at_ < 6) {
    fail("expected an escape: one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t, or \\u and four digits");
  }
  std::uint32_t unit = 0;
  for (std::size_t const end = (at_ += 2) + 4; at_ < end; ++at_) {
    char const c = text_[at_];
    char const lower = static_cast<char>(c | 0x20);
    bool const letter = lower >= 'a' && lower <= 'f';
    if (!is_digit(c) && !letter) {
      fail("expected a hexadecimal digit");
    }
    unit = 16 * unit + static_cast<std::uint32_t>(letter ? lower - 'a' + 10 : c - '0');
  }
  return unit;
}

}  // namespace tandem::detail

#endif
