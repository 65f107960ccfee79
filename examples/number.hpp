// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How examples read a number of their command line: all of a word, in a range, or one sentence.

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <tandem/core/printable.hpp>

/// The number in @p text, a whole one if @p T is.
/// @throws std::runtime_error  it is none, or not from @p least to @p most; @p who takes it
template <class T>
T number_in(std::string_view text, T least, T most, std::string const& who) {
  double number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const all = error == std::errc{} && end == text.data() + text.size();
  bool const right = std::floating_point<T> || number == std::floor(number);
  double const first = static_cast<double>(least), last = static_cast<double>(most);
  if (!all || !right || !(number >= first && number <= last)) {
    char range[80] = {};
    std::snprintf(
        range, sizeof range,
        std::floating_point<T> ? "a number from %g to %g" : "a whole number from %.0f to %.0f",
        first, last);
    throw std::runtime_error{who + " takes " + range + ", not '" + tandem::detail::printable(text) +
                             "'"};
  }
  return static_cast<T>(number);
}
