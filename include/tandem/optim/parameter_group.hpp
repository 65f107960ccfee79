// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterGroup: other settings for the parameters whose names match a pattern, or that have few
/// axes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Settings for the parameters whose names match `pattern`, in which '*' stands for any characters:
/// {"*.bias", .weight_decay = 0}. Where several groups match, the last one counts, whole.
///
/// {"*", .weight_decay = 0, .below_axes = 2} leaves biases and norms, which have one axis, without
/// weight decay: nanoGPT's rule.
struct ParameterGroup {
  std::string pattern;
  float learning_rate_scale = 1.0F;
  std::optional<float> weight_decay = std::nullopt;  ///< instead of the optimizer's
  bool frozen =
      false;  ///< keeps its value; Frozen<…> in the network also saves the gradient's work
  int below_axes = 0;  ///< only parameters of fewer axes than that; 0: of any number
  /// Largest norm of the group's gradients, all of them together, which are then no part of the
  /// norm that TrainerOptions::clip_norm bounds; 0: with the others.
  double clip_norm = 0.0;
  float gradient_scale = 1.0F;  ///< what gradients are multiplied by, before any norm
  /// Largest size of each gradient, behind scale and norm; 0: TrainerOptions::clip_value.
  double clip_value = 0.0;
};

/// A run of neighbouring parameters that are updated alike.
struct UpdateRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int origin = 0;  ///< of the first one: which square sum of ClipSets is its
  int stage = 0;
  bool counted = true;  ///< in the norm of the gradient: of a stage's copies only the first is
  Role role = Role::weight;
  float rate = 0.0F;  ///< of a statistic
  float learning_rate_scale = 1.0F;
  std::optional<float> weight_decay = std::nullopt;
  bool frozen = false;
  int clip_set = 0;  ///< of ClipSets
  float gradient_scale = 1.0F;
  double clip_value = 0.0;  ///< 0: none
  /// Of a parameter whose gradient is GradientRows: which of these, in the order of
  /// ParameterLayout::row_parameter; -1: dense.
  int rows = -1;
  /// Steps of the run that did not update it, since its group was frozen then.
  std::int64_t missed = 0;
  /// Of a rank that has its part of the states alone: how far before its parameters they stand.
  std::int64_t lag = 0;

  TANDEM_ONCE [[nodiscard]] bool alike(UpdateRun const& other) const;
};

namespace detail {

/// Whether @p name matches @p pattern, '*' standing for any run of characters.
TANDEM_COLD constexpr bool matches(std::string_view pattern, std::string_view name) {
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

TANDEM_ONCE bool in_group(ParameterGroup const& group, Parameter const& parameter,
                          std::string const& name);

}  // namespace detail

/// The index of the group that counts for parameter @p p of @p graph; -1: none.
TANDEM_ONCE TANDEM_COLD int group_of(GraphView graph, int p,
                                     std::vector<ParameterGroup> const& groups);

/// A pattern that matches nothing is a mistake.
/// @throws ContractError  a pattern matches no parameter of the network
TANDEM_ONCE TANDEM_COLD void check_groups(GraphView graph,
                                          std::vector<ParameterGroup> const& groups);

/// Which norm bounds the gradients of group @p g: 1, 2, … of the groups that are clipped apart, in
/// their order; 0, TrainerOptions::clip_norm's, of any other group and for -1.
TANDEM_ONCE int clip_set_of(std::vector<ParameterGroup> const& groups, int g);

/// The trained parameters of a device as runs, one each, in the order of its layout.
/// @param parts  of the model: stages from there on are copies of others
/// @param offset  of each parameter, in elements
/// @param clip_value  of parameters whose group says none
/// @param rank    which of several that share layers: of whole parameters only the first's count
/// @param slices  of each parameter that is dealt out
TANDEM_ONCE TANDEM_COLD std::vector<UpdateRun> parameter_runs(
    GraphView graph, std::int64_t const* offset, std::vector<ParameterGroup> const& groups,
    int parts, double clip_value = 0.0, Slice const& rank = {}, int slices = 1);

/// Optimizers count the updates of each parameter, as PyTorch's do.
/// @param missed  UpdateRun::missed of each parameter of the network
/// @param slices  of parameter_runs()
TANDEM_ONCE TANDEM_COLD void set_missed(std::vector<UpdateRun>& runs,
                                        std::span<std::int64_t const> missed, int slices = 1);

/// What of @p runs is in @p owned, which is in ascending order, as runs are.
TANDEM_ONCE TANDEM_COLD std::vector<UpdateRun> runs_within(std::vector<UpdateRun> const& runs,
                                                           std::vector<OwnedRange> const& owned);

/// Neighbours with like settings become one, in @p runs, which allocates nothing if it has room for
/// all.
TANDEM_ONCE TANDEM_COLD void merge_runs(std::vector<UpdateRun> const& parameters,
                                        std::vector<UpdateRun>& runs);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool in_group(ParameterGroup const& group, Parameter const& parameter,
                          std::string const& name) {
  return (group.below_axes == 0 || parameter.shape.rank < group.below_axes) &&
         matches(group.pattern, name);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE int group_of(GraphView graph, int p, std::vector<ParameterGroup> const& groups) {
  std::string const name = parameter_name(graph, p);
  int last = -1;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    last = detail::in_group(groups[g], graph.parameter[p].parameter, name) ? static_cast<int>(g)
                                                                           : last;
  }
  return last;
}

TANDEM_ONCE void check_groups(GraphView graph, std::vector<ParameterGroup> const& groups) {
  for (ParameterGroup const& group : groups) {
    bool used = false;
    for (int p = 0; p < graph.parameters && !used; ++p) {
      used = !graph.parameter[p].frozen &&
             detail::in_group(group, graph.parameter[p].parameter, parameter_name(graph, p));
    }
    if (!used) {
      std::string const axes = group.below_axes == 0
                                   ? ""
                                   : " of fewer than " + std::to_string(group.below_axes) + " axes";
      throw ContractError{"parameter group '" + group.pattern + "' matches no trained parameter" +
                          axes + "; names look like '0.weight'"};
    }
  }
}

TANDEM_ONCE int clip_set_of(std::vector<ParameterGroup> const& groups, int g) {
  int sets = 0;
  for (int i = 0; i <= g; ++i) {
    sets += groups[static_cast<std::size_t>(i)].clip_norm > 0.0 ? 1 : 0;
  }
  return g >= 0 && groups[static_cast<std::size_t>(g)].clip_norm > 0.0 ? sets : 0;
}

TANDEM_ONCE std::vector<UpdateRun> parameter_runs(GraphView graph, std::int64_t const* offset,
                                                  std::vector<ParameterGroup> const& groups,
                                                  int parts, double clip_value, Slice const& rank,
                                                  int slices) {
  std::vector<UpdateRun> runs;
  int rows = 0;
  for (int n = graph.nodes - 1; n >= 0; --n) {  // the layout's order
    Node const& node = graph.node[n];
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      if (graph.parameter[p].frozen) {
        continue;
      }
      Parameter const& parameter = graph.parameter[p].parameter;
      ParameterSlices const& dealt = graph.parameter[p].slices;
      bool const is_slice = dealt.count > 1;
      int const slice = is_slice ? rank.number * (slices / rank.count) + dealt.own : 0;
      UpdateRun run{.begin = offset[p],
                    .end = offset[p] + parameter.shape.elements(),
                    .origin = graph.parameter[p].origin * slices + slice,
                    .stage = node.stage,
                    .counted = node.stage < parts && graph.parameter[p].shared < 0 &&
                               (is_slice || rank.number == 0),
                    .role = parameter.role,
                    .rate = parameter.rate,
                    .clip_value = clip_value};
      if (parameter.touched.sparse()) {
        run.rows = rows++;
      }
      if (int const g = group_of(graph, p, groups); g >= 0) {
        ParameterGroup const& group = groups[static_cast<std::size_t>(g)];
        run.learning_rate_scale = group.learning_rate_scale;
        run.weight_decay = group.weight_decay;
        run.frozen = group.frozen;
        run.clip_set = clip_set_of(groups, g);
        run.gradient_scale = group.gradient_scale;
        run.clip_value = group.clip_value > 0.0 ? group.clip_value : clip_value;
      }
      runs.push_back(run);
    }
  }
  return runs;
}

TANDEM_ONCE void set_missed(std::vector<UpdateRun>& runs, std::span<std::int64_t const> missed,
                            int slices) {
  for (UpdateRun& run : runs) {
    run.missed = missed[static_cast<std::size_t>(run.origin / slices)];
  }
}

TANDEM_ONCE std::vector<UpdateRun> runs_within(std::vector<UpdateRun> const& runs,
                                               std::vector<OwnedRange> const& owned) {
  std::vector<UpdateRun> list;
  for (UpdateRun run : runs) {
    ElementRange const whole{run.begin, run.end};
    for (OwnedRange const& own : owned) {
      OwnedRange const part = within(own, whole);
      if (part.range.count() > 0) {
        run.begin = part.range.begin;
        run.end = part.range.end;
        run.lag = part.lag;
        list.push_back(run);
      }
    }
  }
  return list;
}

TANDEM_ONCE void merge_runs(std::vector<UpdateRun> const& parameters,
                            std::vector<UpdateRun>& runs) {
  runs.clear();
  for (UpdateRun const& run : parameters) {
    if (!runs.empty() && runs.back().alike(run)) {
      runs.back().end = run.end;
    } else {
      runs.push_back(run);
    }
  }
}

TANDEM_ONCE bool UpdateRun::alike(UpdateRun const& other) const {
  return stage == other.stage && role == other.role && rate == other.rate &&
         learning_rate_scale == other.learning_rate_scale && weight_decay == other.weight_decay &&
         frozen == other.frozen && clip_set == other.clip_set &&
         gradient_scale == other.gradient_scale && clip_value == other.clip_value && rows < 0 &&
         other.rows < 0 && missed == other.missed && lag == other.lag;
}

}  // namespace tandem

#endif
