// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UTF-8 and the quoting of strings, as JSON wants them: checked, appended, written.
///
/// Everything here takes bytes as they come from a file and trusts none of them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::detail {

/// Bytes of the UTF-8 sequence at the front of @p text; 0 if it is malformed or @p text is empty.
///
/// Malformed are: a stray continuation byte, a sequence that is cut off or longer than it need be,
/// a surrogate, and what lies above U+10FFFF.
/// Source: The Unicode Standard 15.0, table 3-7.
constexpr std::size_t utf8_length(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  auto const at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return 0;
  }
  std::size_t const length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) {
    return 0;
  }
  unsigned const low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned const high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) {
      return 0;
    }
  }
  return length;
}

/// Whether all of @p text is well-formed UTF-8.
constexpr bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

/// Appends the code point @p point.
/// @pre point <= 0x10FFFF and no surrogate
inline void append_utf8(std::string& out, std::uint32_t point) {
  auto const put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
    return;
  }
  if (point < 0x800) {
    put(0xC0 | (point >> 6));
  } else {
    if (point < 0x10000) {
      put(0xE0 | (point >> 12));
    } else {
      put(0xF0 | (point >> 18));
      put(0x80 | ((point >> 12) & 0x3F));
    }
    put(0x80 | ((point >> 6) & 0x3F));
  }
  put(0x80 | (point & 0x3F));
}

/// Appends @p text in quotes, with the shortest escape of what JSON does not allow in them.
/// Other characters, also those outside ASCII, stand as they are.
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::string_view special = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  out += '"';
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (std::size_t const which = special.find(c); which != std::string_view::npos) {
      out += '\\';
      out += letters[which];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 0xF];
    } else {
      out += c;
    }
  }
  out += '"';
}

/// @p text quoted for an error message: at most 64 bytes of it, and "..." if there are more.
/// @pre text is UTF-8
inline std::string json_quoted(std::string_view text) {
  constexpr std::size_t most = 64;
  std::size_t end = text.size();
  if (end > most) {
    end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;  // not inside a sequence
    }
  }
  std::string out;
  append_json_string(out, text.substr(0, end));
  return end < text.size() ? out + "..." : out;
}

}  // namespace tandem::detail
