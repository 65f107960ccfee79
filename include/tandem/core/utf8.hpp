// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UTF-8: what is, and any bytes made so.
///
/// Everything here takes bytes as they come from a file and trusts none of them.

#include <cstddef>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>

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

/// Bytes at the front of @p text that are well-formed UTF-8; all of them if the text is.
constexpr std::size_t utf8_prefix(std::string_view text) {
  char const* const bytes = text.data();
  std::size_t const size = text.size();
  std::size_t at = 0;
  while (at < size) {
    bool const ascii = static_cast<unsigned char>(bytes[at]) < 0x80;  // as most bytes are
    std::size_t const length = ascii ? 1 : utf8_length(text.substr(at));
    if (length == 0) {
      break;
    }
    at += length;
  }
  return at;
}

/// Whether all of @p text is well-formed UTF-8.
constexpr bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

/// @p text with a '?' for each byte that is of no UTF-8 sequence, so that JSON and XML can hold it.
TANDEM_ONCE std::string valid_utf8(std::string_view text);

/// Bytes at the front of @p text that are of a text: UTF-8 without control characters, but for tabs
/// and the ends of lines.
constexpr std::size_t text_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    char const c = text[at];
    bool const control =
        (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    std::size_t const length = control ? 0 : utf8_length(text.substr(at));
    if (length == 0) {
      break;
    }
    at += length;
  }
  return at;
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    out += length > 0 ? text.substr(0, length) : "?";
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

}  // namespace tandem::detail

#endif
