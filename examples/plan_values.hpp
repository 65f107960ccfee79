// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How the example plan reads what stands behind its flags: numbers, lists, sizes, names.
///
/// All throw std::runtime_error with one sentence: what the flag takes, and what it was given.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/plan/machine/machine.hpp>

struct FlagValue {
  std::string_view flag;
  std::string_view text;
  std::size_t column = 0;  ///< at which it begins in a value of several; 0: it is the whole one

  /// The @p length characters from @p begin on.
  [[nodiscard]] FlagValue part(std::size_t begin, std::size_t length) const {
    return {flag, text.substr(begin, length), begin + 1};
  }
};

[[noreturn]] inline void refuse(FlagValue const& value, std::string const& takes) {
  std::string const at = value.column > 0 ? ", column " + std::to_string(value.column) + "," : "";
  throw std::runtime_error{std::string{value.flag} + at + " takes " + takes + ", not '" +
                           std::string{value.text} + "'"};
}

/// "text or json", "sgd, momentum or adam".
inline std::string listed(std::vector<std::string_view> const& words, std::string const& last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " " + last + " " : ", ";
    text += words[i];
  }
  return text;
}

/// A finite decimal number, or none.
inline std::optional<double> number_in(std::string_view text) {
  double number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const all = error == std::errc{} && end == text.data() + text.size();
  return all && std::isfinite(number) ? std::optional{number} : std::nullopt;
}

inline double parse_real(FlagValue const& value, double least, double most) {
  std::optional<double> const number = number_in(value.text);
  if (!number || *number < least || *number > most) {
    char range[80] = {};
    std::snprintf(range, sizeof range, "a number from %g to %g", least, most);
    refuse(value, range);
  }
  return *number;
}

inline int parse_count(FlagValue const& value, int least, int most) {
  std::optional<double> const number = number_in(value.text);
  if (!number || *number != std::floor(*number) || *number < least || *number > most) {
    refuse(value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int>(*number);
}

/// "3,1,4.5"
inline std::vector<double> parse_loads(FlagValue const& value) {
  std::vector<double> loads;
  for (std::size_t begin = 0; begin <= value.text.size();) {
    std::size_t const comma = std::min(value.text.find(',', begin), value.text.size());
    loads.push_back(parse_real(value.part(begin, comma - begin), 0, 1e15));
    begin = comma + 1;
  }
  return loads;
}

/// "8", or "1..256": 1, 2, 4, …, 256.
inline std::vector<int> parse_devices(FlagValue const& value) {
  constexpr int most = 1024;
  std::size_t const dots = value.text.find("..");
  if (dots == value.text.npos) {
    return {parse_count(value, 1, most)};
  }
  int const first = parse_count(value.part(0, dots), 1, most);
  int const last = parse_count(value.part(dots + 2, value.text.npos), first, most);
  std::vector<int> counts;
  for (int count = first; count < last; count *= 2) {
    counts.push_back(count);
  }
  counts.push_back(last);
  return counts;
}

inline double parse_bytes(FlagValue const& value) {
  std::string_view digits = value.text;
  double unit = 1;
  for (auto const& [name, bytes] : {std::pair{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}}) {
    if (digits.ends_with(name)) {
      unit = bytes;
      digits.remove_suffix(2);
      break;
    }
  }
  std::optional<double> const number = number_in(digits);
  if (!number || *number < 0 || *number * unit > 1e15) {
    refuse(value, "bytes, as 16GB, 512MB, 64KB or a number of them");
  }
  return unit * *number;
}

inline std::string parse_word(FlagValue const& value, std::vector<std::string_view> const& known) {
  if (std::find(known.begin(), known.end(), value.text) == known.end()) {
    refuse(value, listed(known, "or"));
  }
  return std::string{value.text};
}

inline tandem::MathPrecision parse_precision(FlagValue const& value) {
  using enum tandem::MathPrecision;
  std::string const name = parse_word(value, {"fp32", "tf32", "bf16", "fp64"});
  return name == "fp32" ? fp32 : name == "tf32" ? tf32 : name == "bf16" ? bf16 : fp64;
}
