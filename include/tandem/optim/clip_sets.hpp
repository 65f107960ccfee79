// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ClipSets: which parameters' gradients are clipped by one norm.
///
/// The norm of a set is of parameters on all stages. Each rank has a square sum for every parameter
/// of the network, and of one that is dealt out for every slice, summed over the ranks, and joins
/// them in the network's order: so that all ranks have the same bits, as under any other strategy.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/optim/parameter_group.hpp>

namespace tandem {

/// One set of all that TrainerOptions::clip_norm bounds, and one of each group with a clip_norm of
/// its own.
struct ClipSets {
  std::vector<int> set;         ///< of each slice of each parameter of the network
  std::vector<double> factor;   ///< of its square sum: its group's gradient_scale squared
  std::vector<double> largest;  ///< norm of each set; of set 0 the step's state has it

  [[nodiscard]] int parameters() const { return static_cast<int>(set.size()); }
  [[nodiscard]] int sets() const { return static_cast<int>(largest.size()); }
};

/// Whether some group is clipped apart.
TANDEM_ONCE TANDEM_COLD bool clips_apart(std::vector<ParameterGroup> const& groups);

/// Which parameters of a whole network are clipped together.
/// @param slices  of each parameter: those of one that is whole are 0 but the first
TANDEM_ONCE TANDEM_COLD ClipSets clip_sets(GraphView network,
                                           std::vector<ParameterGroup> const& groups,
                                           int slices = 1);

/// What the gradients of a set are multiplied by, of norm @p norm; not at all where @p largest is
/// 0.
constexpr double clip_scale(double norm, double largest) {
  return largest > 0.0 && norm > largest ? largest / norm : 1.0;
}

struct ClipNorms {
  double first = 0.0;  ///< of set 0
  bool finite = true;  ///< those of all sets
  int bad = -1;        ///< if one is not: to which entry of ClipSets::set that is due
};

/// The scale of each set.
/// @param squares    as sets.set
/// @param clip_norm  of set 0; 0: it is not clipped
/// @param unscale    what gradients are to be multiplied by before all else: the scales have it
TANDEM_ONCE ClipNorms clip_scales(ClipSets const& sets, std::span<double const> squares,
                                  double clip_norm, std::span<double> scales, double unscale = 1.0);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE bool clips_apart(std::vector<ParameterGroup> const& groups) {
  for (ParameterGroup const& group : groups) {
    if (group.clip_norm > 0.0) {
      return true;
    }
  }
  return false;
}

TANDEM_ONCE ClipSets clip_sets(GraphView network, std::vector<ParameterGroup> const& groups,
                               int slices) {
  ClipSets sets{.set = {}, .factor = {}, .largest = {0.0}};
  for (ParameterGroup const& group : groups) {
    if (group.clip_norm > 0.0) {
      sets.largest.push_back(group.clip_norm);
    }
  }
  for (int p = 0; p < network.parameters; ++p) {
    int const g = group_of(network, p, groups);
    double const scale = g < 0 ? 1.0 : double{groups[static_cast<std::size_t>(g)].gradient_scale};
    auto const count = sets.set.size() + static_cast<std::size_t>(slices);
    sets.set.resize(count, clip_set_of(groups, g));
    sets.factor.resize(count, scale * scale);
  }
  return sets;
}

TANDEM_ONCE ClipNorms clip_scales(ClipSets const& sets, std::span<double const> squares,
                                  double clip_norm, std::span<double> scales, double unscale) {
  ClipNorms norms;
  for (int set = 0; set < sets.sets(); ++set) {
    double sum = 0.0;
    for (std::size_t p = 0; p < squares.size(); ++p) {
      sum += sets.set[p] == set ? squares[p] * sets.factor[p] : 0.0;
    }
    double const norm = std::sqrt(sum) * unscale;
    auto const s = static_cast<std::size_t>(set);
    scales[s] = clip_scale(norm, set == 0 ? clip_norm : sets.largest[s]) * unscale;
    norms.first = set == 0 ? norm : norms.first;
    norms.finite = norms.finite && is_finite(norm);
  }
  if (!norms.finite) {
    auto bad = std::find_if_not(squares.begin(), squares.end(), is_finite);
    bad = bad == squares.end() ? std::max_element(squares.begin(), squares.end()) : bad;
    norms.bad = static_cast<int>(bad - squares.begin());
  }
  return norms;
}

}  // namespace tandem

#endif
