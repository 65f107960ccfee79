// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Code points and the quoting of strings, as JSON wants them; core/utf8.hpp checks UTF-8.
///
/// Everything here takes bytes as they come from a file and trusts none of them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/utf8.hpp>

namespace tandem::detail {

/// Appends the code point @p point.
/// @pre point <= 0x10FFFF and no surrogate
TANDEM_ONCE void append_utf8(std::string& out, std::uint32_t point);

/// Appends @p text in quotes, with the shortest escape of what JSON does not allow in them.
/// Other characters, also those outside ASCII, stand as they are.
TANDEM_ONCE void append_json_string(std::string& out, std::string_view text);

/// @p text quoted for an error message: at most 64 bytes of it, and "..." if there are more; what a
/// terminal obeys, U+007F to U+009F too, is escaped.
/// @pre text is UTF-8
TANDEM_ONCE std::string json_quoted(std::string_view text);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void append_utf8(std::string& out, std::uint32_t point) {
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

TANDEM_ONCE void append_json_string(std::string& out, std::string_view text) {
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

TANDEM_ONCE std::string json_quoted(std::string_view text) {
  constexpr std::size_t most = 64;
  std::size_t end = text.size();
  if (end > most) {
    end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;  // not inside a sequence
    }
  }
  std::string quoted;
  append_json_string(quoted, text.substr(0, end));
  std::string out;
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    bool const two_bytes = quoted[i] == '\xC2' && static_cast<unsigned char>(quoted[i + 1]) < 0xA0;
    if (two_bytes || quoted[i] == '\x7F') {
      i += two_bytes ? 1 : 0;
      out += std::string{"\\u00"} + "789"[(static_cast<unsigned char>(quoted[i]) >> 4) - 7] +
             "0123456789abcdef"[quoted[i] & 0xF];
    } else {
      out += quoted[i];
    }
  }
  return end < text.size() ? out + "..." : out;
}

}  // namespace tandem::detail

#endif
