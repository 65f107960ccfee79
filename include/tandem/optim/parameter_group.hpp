// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterGroup: other settings for the parameters whose names match a pattern.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/strategy/parameter_layout.hpp>

namespace tandem {

/// Settings for the parameters whose names match `pattern`, in which '*' stands for any characters:
/// {"*.bias", .weight_decay = 0}. Where several groups match, the last one counts.
struct ParameterGroup {
  std::string pattern;
  float learning_rate_scale = 1.0F;
  std::optional<float> weight_decay = std::nullopt;  ///< instead of the optimizer's
  bool frozen =
      false;  ///< keeps its value; Frozen<…> in the network also saves the gradient's work
};

/// A run of neighbouring parameters that are updated alike.
struct UpdateRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Role role = Role::weight;
  float rate = 0.0F;  ///< of a statistic
  float learning_rate_scale = 1.0F;
  std::optional<float> weight_decay = std::nullopt;
  bool frozen = false;

  [[nodiscard]] bool alike(UpdateRun const& other) const {
    return role == other.role && rate == other.rate &&
           learning_rate_scale == other.learning_rate_scale && weight_decay == other.weight_decay &&
           frozen == other.frozen;
  }
};

namespace detail {

/// Whether @p name matches @p pattern, '*' standing for any run of characters.
constexpr bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace detail

/// The trained parameters as runs in the order of the layout, neighbours with like settings merged.
/// @throws ContractError  a pattern matches no parameter
template <GraphSize Size>
std::vector<UpdateRun> update_runs(Graph<Size> const& graph,
                                   ParameterLayout<Size.nodes, Size.parameters> const& layout,
                                   std::vector<ParameterGroup> const& groups) {
  std::vector<bool> used(groups.size(), false);
  std::vector<UpdateRun> runs;
  for (int n = Size.nodes - 1; n >= 0; --n) {  // the layout's order
    Node const& node = graph.node[n];
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      if (graph.parameter[p].frozen) {
        continue;
      }
      Parameter const& parameter = graph.parameter[p].parameter;
      UpdateRun run{.begin = layout.offset[p],
                    .end = layout.offset[p] + parameter.shape.elements(),
                    .role = parameter.role,
                    .rate = parameter.rate};
      std::string const name = parameter_name(graph, p);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (detail::matches(groups[g].pattern, name)) {
          used[g] = true;
          run.learning_rate_scale = groups[g].learning_rate_scale;
          run.weight_decay = groups[g].weight_decay;
          run.frozen = groups[g].frozen;
        }
      }
      if (!runs.empty() && runs.back().alike(run)) {
        runs.back().end = run.end;
      } else {
        runs.push_back(run);
      }
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!used[g]) {
      throw ContractError{"parameter group '" + groups[g].pattern +
                          "' matches no trained parameter; names look like '0.weight'"};
    }
  }
  return runs;
}

}  // namespace tandem
