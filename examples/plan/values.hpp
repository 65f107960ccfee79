// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How plan reads the values of its flags that are neither a number nor a word.
///
/// All throw std::runtime_error with one sentence: what the flag takes, and what it was given.

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../number.hpp"

inline std::string at_column(std::string const& flag, std::size_t begin) {
  return flag + ", column " + std::to_string(begin + 1) + ",";
}

/// "3,1,4.5"
inline std::vector<double> loads_in(std::string_view text) {
  std::vector<double> loads;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t const comma = std::min(text.find(',', begin), text.size());
    loads.push_back(
        number_in(text.substr(begin, comma - begin), 0.0, 1e15, at_column("--partition", begin)));
    begin = comma + 1;
  }
  return loads;
}

/// "8", or "1..256": 1, 2, 4, …, 256.
inline std::vector<int> devices_in(std::string_view text) {
  constexpr int most = 131'072;
  std::size_t const dots = text.find("..");
  if (dots == text.npos) {
    return {number_in(text, 1, most, "--devices")};
  }
  int const first = number_in(text.substr(0, dots), 1, most, at_column("--devices", 0));
  int const last = number_in(text.substr(dots + 2), first, most, at_column("--devices", dots + 2));
  std::vector<int> counts;
  for (int count = first; count < last; count *= 2) {
    counts.push_back(count);
  }
  counts.push_back(last);
  return counts;
}

/// "16GB", "512MB", "64KB", "4096"
inline double bytes_in(std::string_view text) {
  std::string_view digits = text;
  double unit = 1;
  for (auto const& [name, bytes] : {std::pair{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}}) {
    if (digits.ends_with(name)) {
      unit = bytes;
      digits.remove_suffix(2);
      break;
    }
  }
  try {
    return unit * number_in(digits, 0.0, 1e15 / unit, "");
  } catch (std::runtime_error const&) {
    throw std::runtime_error{
        "--memory takes bytes, as 16GB, 512MB, 64KB or a number of them, not '" +
        std::string{text} + "'"};
  }
}
