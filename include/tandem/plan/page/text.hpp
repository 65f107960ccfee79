// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Words and numbers of a page that is both HTML and XML.

#include <cmath>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// @p text as it may stand between tags and in an attribute's quotes.
TANDEM_ONCE std::string page_words(std::string_view text);

/// A length of a picture, in pixels and tenths of them.
inline std::string svg_pixels(double length) {
  return tenths(static_cast<Ticks>(std::lround(10 * length)));
}

/// ` name="value"`
inline std::string page_attribute(std::string_view name, std::string_view value) {
  return " " + std::string{name} + "=\"" + page_words(value) + "\"";
}

/// A text of a picture at x and y.
inline std::string page_label(double x, double y, std::string_view more, std::string_view text) {
  return "<text x=\"" + svg_pixels(x) + "\" y=\"" + svg_pixels(y) + "\"" + std::string{more} + ">" +
         page_words(text) + "</text>\n";
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string page_words(std::string_view text) {
  std::string words;
  for (char const c : svg_escaped(std::string{text})) {
    words += c == '"' ? "&quot;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return words;
}

}  // namespace tandem::detail

#endif
