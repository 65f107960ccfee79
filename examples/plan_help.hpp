// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The help of the example plan, made from its flags.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "plan_flags.hpp"

inline constexpr char const* plan_usage =
    R"(usage: plan --net NAME --machine MACHINE --devices A..B [OPTION ...]
       plan --graph FILE.txt --machine MACHINE --devices A..B [OPTION ...]
       plan --profile FILE.json --machine MACHINE --devices A..B [OPTION ...]
       plan --place --graph FILE.txt --devices M --link-gbps X [OPTION ...]
       plan --place --net NAME --machine MACHINE --devices M [OPTION ...]
       plan --simulate FILE.csv --net NAME --machine MACHINE [OPTION ...]
       plan --partition "3,1,4,1,5" --parts P [--format json]

Searches for the strategy that trains a network to the target accuracy first: how many workers of
how many devices, how to cut the network, how long it takes and how much memory. Or places a
dataflow graph on devices, so that a step takes the least time; or simulates the action table of a
file on a machine; or cuts a chain of loads into consecutive parts of which the heaviest is as light
as it can be.
)";

/// @p text in lines of at most 100 columns, from @p column on; the first begins there already.
inline std::string wrapped(std::string_view text, std::size_t column) {
  std::string lines;
  for (std::size_t width = 100 - column; text.size() > width;) {
    std::size_t const blank = text.rfind(' ', width);
    lines += std::string{text.substr(0, blank)} + "\n" + std::string(column, ' ');
    text.remove_prefix(blank + 1);
  }
  return lines + std::string{text} + "\n";
}

inline std::string plan_help() {
  constexpr std::size_t column = 24;
  std::string text = plan_usage;
  unsigned modes = 0;
  for (PlanFlag const& flag : plan_flags) {
    if (flag.modes != modes) {
      modes = flag.modes;
      text += modes == of_all ? "\nAlways:\n" : "\nWith " + modes_text(modes) + ":\n";
    }
    std::string line = "  " + std::string{flag.name} + (flag.takes.empty() ? "" : " ");
    line += flag.takes;
    line.resize(std::max(line.size() + 2, column), ' ');
    text += line + wrapped(flag.help, column);
  }
  return text + "\nExits with 2 and one sentence if a flag or a file is not valid.\n";
}
