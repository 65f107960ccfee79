// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads the command line of the example plan.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan_arguments.hpp"
#include "plan_checks.hpp"
#include "plan_flags.hpp"
#include "plan_values.hpp"

/// @throws std::runtime_error  a flag is unknown, lacks its value, has one that it does not take,
///                             or check_plan_arguments() finds something wrong
inline PlanArguments parse_plan_arguments(std::vector<std::string> const& words) {
  PlanArguments a;
  GivenFlags given;
  for (std::size_t i = 0; i < words.size() && !a.help; ++i) {
    PlanFlag const& flag = flag_named(words[i]);
    FlagValue value{.flag = flag.name, .text = {}};
    if (!flag.takes.empty()) {
      if (i + 1 == words.size() || words[i + 1].empty() || words[i + 1].starts_with("--")) {
        throw std::runtime_error{words[i] + " lacks its value; write " + words[i] + " " +
                                 std::string{flag.takes}};
      }
      value.text = words[++i];
    }
    PlanMode const before = a.mode;
    flag.read(a, value);
    if (before != searching && a.mode != before) {
      throw std::runtime_error{"give one of --place, --simulate and --partition; --help says more"};
    }
    given.push_back(&flag);
  }
  if (!a.help) {
    check_plan_arguments(a, given);
  }
  return a;
}
