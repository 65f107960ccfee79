// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Numbers and words of the planner's reports, in text and in JSON.

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/utf8.hpp>

namespace tandem::detail {

/// So many significant digits.
inline std::string digits(double value, int count) {
  char text[40] = {};  // of any locale
  return {text,
          std::to_chars(text, text + sizeof text, value, std::chars_format::general, count).ptr};
}

/// The same in JSON, which has no infinity and no NaN: null.
inline std::string json_number(double value, int count) {
  return is_finite(value) ? digits(value, count) : "null";
}

/// A string of JSON, whatever bytes are in it.
TANDEM_ONCE std::string json_text(std::string_view text);

/// "90 s", "3.2 min", "5.5 h", "12 days".
inline std::string duration(double seconds) {
  return seconds < 120    ? digits(seconds, 3) + " s"
         : seconds < 7200 ? digits(seconds / 60, 3) + " min"
         : seconds < 2e5  ? digits(seconds / 3600, 3) + " h"
                          : digits(seconds / 86400, 3) + " days";
}

/// At the right of so many columns.
inline std::string right(std::string text, std::size_t width) {
  text.insert(0, text.size() < width ? width - text.size() : 0, ' ');
  return text;
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (char const c : valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace tandem::detail

#endif
