// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// describe: any network as a table, and what training it takes on each device of a strategy.

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/describe/layer_table.hpp>
#include <tandem/train/describe/spread_table.hpp>

namespace tandem {

struct DescribeOptions {
  std::string title = "Network";
  bool top_only = false;  ///< a row for each top-level part, as Split counts them, not each layer
  int batch = 0;          ///< global: of how many samples memory is told; 0: of none
  Optimizer optimizer = Sgd{};
  WeightAverage average{};
};

namespace detail {

/// A line of the table of memory, in MiB.
TANDEM_ONCE std::string memory_line(std::string const& device, DeviceMemory const& m);

TANDEM_ONCE std::string memory_heads(DescribeOptions const& options, std::string const& precision,
                                     int replicas);

/// The values that Let has named and that stages hand on without reading them.
TANDEM_ONCE std::string relayed_values(GraphView graph, std::int16_t const* stage);

}  // namespace detail

/// A table of @p Net: each layer's path, kind, output, parameters, multiply-accumulates and output
/// in KiB, and their sums; weights that layers share; named values that stages relay; of
/// TensorParallel and SpatialParallel how each value and its gradient are dealt out, and what is
/// added up or exchanged; and, of .batch samples, each device's memory by the function that fits<>
/// asks, parameters, gradients, the optimizer's states, activations and their gradients. Needs no
/// device.
///
///   std::puts(describe<Net, DataParallel<2>>({.batch = 256, .optimizer = AdamW{}}).c_str());
///
/// @throws ContractError  .batch < 0, or the strategy does not say how many replicas share it
template <class Net, class S = SingleDevice<>, class Precision = Fp32>
std::string describe(DescribeOptions const& options = {}) {
  expects(options.batch >= 0,
          "describe({.batch = ...}): give 1 sample or more, or 0 for no memory");
  constexpr auto const& network = graph<Net>;
  std::string text = detail::layer_table(network, options.title, network.tops, options.top_only);
  using P = Program<Net, S, static_cast<int>(sizeof(typename Precision::Master))>;
  if constexpr (S::devices > 1) {
    text += detail::relayed_values(P::Routed::graph, P::Routed::partition.part);
  }
  if constexpr (P::has_tiles || P::layer_slices > 1) {
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((text +=
        detail::spread_table(detail::RankGraph<P, D>::graph, P::slices, P::layer_slices,
                             static_cast<std::int64_t>(sizeof(typename Precision::Scalar)))),
       ...);
    }
    (std::make_integer_sequence<int, S::devices>{});
  }
  if constexpr (detail::takes_any_replicas<S>) {
    expects(options.batch == 0,
            "describe<Net, DataParallel<>>({.batch = ...}): a replica's share of the batch depends "
            "on how many there are; name their number, DataParallel<N>");
  } else if (options.batch > 0) {
    int const states = states_of(options.optimizer) + (options.average.on() ? 1 : 0);
    text += detail::memory_heads(options, Precision::name, S::batching.replicas);
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((text += detail::memory_line(
            std::to_string(D), detail::device_memory<typename P::template Device<D>, Precision>(
                                   options.batch, states))),
       ...);
    }
    (std::make_integer_sequence<int, S::devices>{});
  }
  return text;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string memory_line(std::string const& device, DeviceMemory const& m) {
  auto const mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  char line[256];
  std::snprintf(line, sizeof line, "%-8.20s %12.1f %12.1f %12.1f %12.1f %12.1f %12.1f %12.1f\n",
                device.c_str(), mib(m.parameters), mib(m.gradients), mib(m.optimizer_state),
                mib(m.kept + m.recomputed + m.passing), mib(m.activation_gradients),
                mib(m.versions + m.weights + m.states + m.exchange), mib(m.total()));
  return line;
}

TANDEM_ONCE std::string memory_heads(DescribeOptions const& options, std::string const& precision,
                                     int replicas) {
  char heads[256];
  std::snprintf(heads, sizeof heads, "%-8s %12s %12s %12s %12s %12s %12s %12s\n", "device",
                "parameters", "gradients", "optimizer", "activations", "their grads", "other",
                "total");
  return "\nMiB for steps of " + std::to_string(options.batch) + " samples in " + precision +
         " with " + optimizer_name(options.optimizer) +
         (options.average.on() ? " and averages" : "") +
         (replicas > 1 ? ", on the devices of each of " + std::to_string(replicas) + " replicas"
                       : "") +
         ": at most, without scratch memory and packed weights\n" + heads;
}

TANDEM_ONCE std::string relayed_values(GraphView graph, std::int16_t const* stage) {
  std::string text;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.name == "Relay") {
      char kib[32];
      std::snprintf(kib, sizeof kib, "%.1f", static_cast<double>(node.out.elements()) * 4 / 1024);
      text += "relayed: what " + to_string(node.path) + " gives, " + to_string(node.out) +
              ", goes through stage " + std::to_string(stage[n]) + ", and its gradient back, " +
              kib + " KiB a sample each\n";
    }
  }
  return text;
}

}  // namespace tandem::detail

#endif
