// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// strip_markup(): the words of a verse in OSIS or ThML, as SWORD modules hold them.
///
/// No XML parser: verses are fragments whose elements begin in one and end in another.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <tandem/core/config.hpp>
#include <tandem/io/json/string.hpp>

namespace tandem {

/// @p text without its mark-up:
///
/// - without tags; one that is not closed ends with the text;
/// - without what stands between <note> and </note>, and between <title> and </title>;
/// - without paragraph signs (U+00B6), which are mark-up in these texts;
/// - with the five entities of XML and those by number replaced; others stay as they are;
/// - with one space for each run of blanks (ASCII's and such entities), and none at its ends.
///
/// Cost: linear in the text.
/// @pre  @p text is UTF-8; so is the result
TANDEM_ONCE [[nodiscard]] std::string strip_markup(std::string_view text);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The position behind the tag that begins at @p at; a '>' in an attribute's quotes is not its end.
constexpr std::size_t end_of_tag(std::string_view text, std::size_t at) {
  std::size_t end = text.find('>', at);
  auto const next_equals = [&](std::size_t from) { return text.substr(0, end).find('=', from); };
  for (std::size_t equals = next_equals(at); equals != text.npos; equals = next_equals(equals)) {
    char const quote = ++equals < text.size() ? text[equals] : ' ';
    bool const quoted = quote == '"' || quote == '\'';
    std::size_t const close = quoted ? text.find(quote, equals + 1) : text.npos;
    if (close != text.npos) {  // else it is no attribute's
      equals = close;
      end = close < end ? end : text.find('>', close);
    }
  }
  return end == text.npos ? text.size() : end + 1;
}

/// The code point of an entity's name, "amp" or "#8212" or "#x2014"; 0 for what is none of XML's.
TANDEM_ONCE std::uint32_t entity(std::string_view name) {
  if (name.starts_with('#')) {
    int const base = name.starts_with("#x") ? 16 : 10;
    std::string_view const digits = name.substr(base == 16 ? 2 : 1);
    std::uint32_t point = 0;
    auto const end = digits.data() + digits.size();
    auto const [stop, error] = std::from_chars(digits.data(), end, point, base);
    bool const valid = error == std::errc{} && stop == end && point <= 0x10FFFF &&
                       (point < 0xD800 || point > 0xDFFF);
    return valid ? point : 0;
  }
  return name == "amp"    ? '&'
         : name == "lt"   ? '<'
         : name == "gt"   ? '>'
         : name == "quot" ? '"'
         : name == "apos" ? '\''
                          : 0U;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string strip_markup(std::string_view text) {
  std::string out;
  int notes = 0;
  int titles = 0;
  bool blank = false;
  auto const put = [&](std::string_view character) {
    char const c = character[0];
    if (notes > 0 || titles > 0 || (c == '\xC2' && character == "\xC2\xB6")) {
      return;
    }
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      blank = true;
      return;
    }
    if (blank && !out.empty()) {
      out += ' ';
    }
    out += character;
    blank = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '<') {
      std::size_t const end = detail::end_of_tag(text, at);
      std::string_view tag = text.substr(at + 1, end - at - 1);
      at = end;
      bool const closes = tag.starts_with('/');
      tag.remove_prefix(closes ? 1 : 0);
      std::string_view const name = tag.substr(0, tag.find_first_of(" \t\r\n/>"));
      int& depth = name == "note" ? notes : titles;
      if (name != "note" && name != "title") {
        continue;
      }
      if (closes) {
        depth -= depth > 0 ? 1 : 0;
      } else {
        depth += tag.ends_with("/>") ? 0 : 1;
      }
      continue;
    }
    if (text[at] == '&') {
      std::size_t const end = text.substr(at, 12).find(';');
      std::uint32_t const point =
          end == text.npos ? 0 : detail::entity(text.substr(at + 1, end - 1));
      if (point != 0) {
        std::string character;
        detail::append_utf8(character, point);
        put(character);
        at += end + 1;
        continue;
      }
    }
    bool const ascii = static_cast<unsigned char>(text[at]) < 0x80;
    std::size_t const length = ascii ? 1 : detail::utf8_length(text.substr(at));
    put(text.substr(at, length > 0 ? length : 1));
    at += length > 0 ? length : 1;
  }
  return out;
}

}  // namespace tandem

#endif
