// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the example plan's flags need of each other.

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plan_arguments.hpp"
#include "plan_flags.hpp"

using GivenFlags = std::vector<PlanFlag const*>;

inline bool is_given(GivenFlags const& given, std::string_view name) {
  return std::any_of(given.begin(), given.end(),
                     [&](PlanFlag const* flag) { return flag->name == name; });
}

/// Each flag goes with the mode, and the mode has what it needs.
inline void check_mode(PlanArguments const& a, GivenFlags const& given) {
  std::string const mode = modes_text(a.mode);
  for (PlanFlag const* const flag : given) {
    if ((flag->modes & a.mode) == 0) {
      throw std::runtime_error{std::string{flag->name} + " goes with " + modes_text(flag->modes) +
                               ", not with " + mode + "; --help says more"};
    }
  }
  if (a.mode == searching && a.graphs() == 0) {  // perhaps nothing is given at all
    throw std::runtime_error{
        "give --net, --graph or --profile, --machine and --devices; or --place, --simulate or "
        "--partition; --help says more"};
  }
  if (a.graphs() > 1) {
    throw std::runtime_error{"give one of --net, --graph and --profile; --help says more"};
  }
  std::vector<std::string> missing;
  for (PlanFlag const& flag : plan_flags) {
    if ((flag.needed & a.mode) != 0 && !is_given(given, flag.name)) {
      missing.push_back(std::string{flag.name} + " " + std::string{flag.takes});
    }
  }
  if (a.mode != partitioning && a.graphs() == 0) {
    missing.emplace_back("one of --net, --graph and --profile");
  }
  if (!missing.empty()) {
    throw std::runtime_error{mode + " needs " + listed({missing.begin(), missing.end()}, "and") +
                             "; --help says more"};
  }
}

inline void check_placing(PlanArguments const& a) {
  if (a.counts.size() != 1 || a.counts[0] < 2 || a.counts[0] > 64) {
    throw std::runtime_error{"--place needs --devices, a number from 2 to 64"};
  }
  if (!a.net.empty() && a.machine.empty()) {
    throw std::runtime_error{"--net needs --machine, whose speed its costs are computed with"};
  }
  if (a.machine.empty() && a.link_gbps == 0) {
    throw std::runtime_error{"--place needs --link-gbps, or --machine, whose links are taken"};
  }
}

/// @throws std::runtime_error  what is needed is missing, or does not go together
inline void check_plan_arguments(PlanArguments const& a, GivenFlags const& given) {
  check_mode(a, given);
  if (is_given(given, "--precision") && a.net.empty()) {
    throw std::runtime_error{"--precision goes with --net; costs of a file are what was measured"};
  }
  if (is_given(given, "--all-reduces") && a.machine.empty()) {
    throw std::runtime_error{"--all-reduces needs --machine, whose links are fitted to them"};
  }
  if (is_given(given, "--copies") && is_given(given, "--schedule")) {
    throw std::runtime_error{"give --copies or --schedule, which says them, too"};
  }
  if (a.mode == placing) {
    check_placing(a);
  }
  if (static_cast<std::size_t>(a.parts) > a.loads.size()) {
    throw std::runtime_error{"--parts is " + std::to_string(a.parts) + ", but there are only " +
                             std::to_string(a.loads.size()) + " loads; give no more parts"};
  }
}
