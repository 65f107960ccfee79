// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SearchSources: where the numbers of a search came from, for people who must trust it.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/workers.hpp>

namespace tandem {

/// A clause each.
struct SearchSources {
  std::string nodes{};      ///< what passes take
  std::string links{};      ///< what messages and sums take
  std::string epochs{};     ///< E(B)
  std::string memory{};     ///< of a device
  bool has_points = false;  ///< E(B) is not just one epoch for every batch
};

/// Of static_costs(): the rates that it divides by.
TANDEM_ONCE [[nodiscard]] std::string computed_nodes_source(Machine const& machine,
                                                            MathPrecision precision);

/// @param nodes   computed_nodes_source(), or which file has measured costs
/// @param points  of the epochs; none where one epoch is assumed for every batch
TANDEM_ONCE [[nodiscard]] SearchSources search_sources(SearchTask const& task, std::string nodes,
                                                       std::vector<EpochPoint> const& points);

/// A line each; none where nothing is known.
TANDEM_ONCE [[nodiscard]] std::string sources_text(SearchSources const& sources);

/// An object with `costs`, `links`, `epochs` and `memory`.
TANDEM_ONCE [[nodiscard]] std::string sources_json(SearchSources const& sources);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string computed_nodes_source(Machine const& machine, MathPrecision precision) {
  char const* const name = precision == MathPrecision::fp64   ? "fp64"
                           : precision == MathPrecision::tf32 ? "tf32"
                           : precision == MathPrecision::bf16 ? "bf16"
                           : precision == MathPrecision::fp16 ? "fp16"
                                                              : "fp32";
  KernelTimes const times{machine, precision};
  std::string const share = times.curved()
                                ? "up to " + detail::digits(100 * machine.kernels.share, 3)
                                : detail::digits(100 * machine.efficiency, 3);
  return "computed, not measured: of each pass the longer of its operations at " + share +
         " % of " + detail::digits(machine.peak.of(precision) / 1e12, 4) + " Top/s (" + name +
         ") and its bytes at " + detail::digits(times.memory() / 1e9, 4) + " GB/s";
}

TANDEM_ONCE SearchSources search_sources(SearchTask const& task, std::string nodes,
                                         std::vector<EpochPoint> const& points) {
  auto const link = [](LinkSpeed const& speed) {
    return detail::digits(speed.bandwidth / 1e9, 4) + " GB/s and " +
           detail::digits(speed.latency * 1e6, 4) + " us";
  };
  Machine const& machine = task.machine;
  SearchSources sources{.nodes = std::move(nodes), .has_points = !points.empty()};
  sources.links = machine.name + ": " + link(machine.inside) + " within a node of " +
                  std::to_string(machine.devices_per_node) + ", " + link(machine.between) +
                  " between nodes";
  for (EpochPoint const& point : points) {
    sources.epochs += (sources.epochs.empty() ? "through " : ",") + detail::digits(point.batch, 9) +
                      ":" + detail::digits(point.epochs, 6);
  }
  if (points.empty()) {
    sources.epochs = "one, whatever the batch: no points were given";
  }
  long const states = std::max(0L, std::lround(task.bytes_of_parameter) - 2);
  sources.memory =
      task.network ? "at most, of all tensors as fits<> counts them; arrays of optimizer state: " +
                         std::to_string(states)
                   : "of weights, " + detail::digits(task.bytes_of_parameter, 3) +
                         " times their bytes, and of the outputs of live microbatches";
  return sources;
}

TANDEM_ONCE std::string sources_text(SearchSources const& sources) {
  std::string text;
  auto const line = [&](char const* what, std::string const& from) {
    text += from.empty() ? "" : std::string{what} + from + "\n";
  };
  line("costs:  ", sources.nodes);
  line("links:  ", sources.links);
  line("epochs: ", sources.epochs);
  line("memory: ", sources.memory);
  return text;
}

TANDEM_ONCE std::string sources_json(SearchSources const& sources) {
  return "{\"costs\": " + detail::json_text(sources.nodes) +
         ",\n    \"links\": " + detail::json_text(sources.links) +
         ",\n    \"epochs\": " + detail::json_text(sources.epochs) +
         ",\n    \"memory\": " + detail::json_text(sources.memory) + "}";
}

}  // namespace tandem

#endif
