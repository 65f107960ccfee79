// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// measured_costs: the costs of a network as a profile has them.

#include <cstddef>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/profile.hpp>

namespace tandem {

/// The costs of a microbatch of @p samples samples: of each node the line that was fitted, all
/// multiplied so that a whole step takes what it took at the sizes that were measured.
/// @param microbatches  of a step that add up their gradients: the first one's are written, those
///                      of the others are added, and the mean of both is taken
/// @throws ContractError  samples or microbatches < 1
TANDEM_ONCE [[nodiscard]] CostGraph measured_costs(NetworkProfile const& profile, int samples,
                                                   DeviceLoad load = DeviceLoad::together,
                                                   int microbatches = 1);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE CostGraph measured_costs(NetworkProfile const& profile, int samples, DeviceLoad load,
                                     int microbatches) {
  expects(samples >= 1 && microbatches >= 1,
          "measured_costs(profile, samples, load, microbatches): give 1 sample and 1 microbatch, "
          "or more");
  double const scale = profile.scale(load, samples);
  CostGraph graph;
  for (std::size_t n = 0; n < profile.node.size(); ++n) {
    ProfiledNode const& node = profile.node[n];
    PassTimes const& times = profile.times(load).node[n];
    double const weights = (times.weight_gradient.of(samples) +
                            (microbatches - 1) * times.added_gradient.of(samples)) /
                           microbatches;
    graph.node.push_back({.name = node.name,
                          .forward = scale * times.forward.of(samples),
                          .backward = scale * (times.input_gradient.of(samples) + weights),
                          .output_bytes = node.output_bytes * samples,
                          .parameter_bytes = node.parameter_bytes,
                          .part = node.part});
    for (int const input : node.inputs) {
      graph.edge.push_back({input, static_cast<int>(n)});
    }
  }
  return graph;
}

}  // namespace tandem

#endif
