// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WeightAverage: a running average of the weights, for evaluation.

#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/optim/parameter_group.hpp>

namespace tandem {

/// average = decay average + (1 - decay) weight, after each step; after the first one it is the
/// weight, as in PyTorch's AveragedModel.
///
/// What evaluates takes the averages in place of the weights that it has averages of, and the
/// others, as well as a batch norm's statistics, as they are.
/// Cost: an array of the size of all trained parameters, whatever the pattern; a pass over weights
///       and averages a step, and one to begin and to end an evaluation.
struct WeightAverage {
  double decay = 0.0;         ///< 0: no averages
  std::string pattern = "*";  ///< of the weights that have one, as in a ParameterGroup

  [[nodiscard]] bool on() const { return decay > 0.0; }
};

/// Which parameters of @p graph have an average: trained weights that no group freezes.
TANDEM_ONCE TANDEM_COLD std::vector<bool> averaged_parameters(
    GraphView graph, std::vector<ParameterGroup> const& groups, WeightAverage const& average);

/// @throws ContractError  the pattern matches no trained weight of the network
TANDEM_ONCE TANDEM_COLD void check_average(GraphView network,
                                           std::vector<ParameterGroup> const& groups,
                                           WeightAverage const& average);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<bool> averaged_parameters(GraphView graph,
                                                  std::vector<ParameterGroup> const& groups,
                                                  WeightAverage const& average) {
  std::vector<bool> averaged;
  for (int p = 0; p < graph.parameters; ++p) {
    GraphParameter const& own = graph.parameter[p];
    int const g = group_of(graph, p, groups);
    averaged.push_back(average.on() && !own.frozen && own.parameter.role == Role::weight &&
                       !(g >= 0 && groups[static_cast<std::size_t>(g)].frozen) &&
                       detail::matches(average.pattern, parameter_name(graph, p)));
  }
  return averaged;
}

TANDEM_ONCE void check_average(GraphView network, std::vector<ParameterGroup> const& groups,
                               WeightAverage const& average) {
  bool any = !average.on();
  for (bool const averaged : averaged_parameters(network, groups, average)) {
    any = any || averaged;
  }
  if (!any) {
    throw ContractError{"TrainerOptions: average.pattern '" + average.pattern +
                        "' matches no trained weight; names look like '0.weight'"};
  }
}

}  // namespace tandem

#endif
