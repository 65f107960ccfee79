// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate_symmetric: a step of so many equal workers that not all can be simulated: those are
/// that stand on their nodes in different ways, and each tells of all that stand like it.
///
/// A worker shares ports with others only where a node has devices of both and one of the two has
/// devices elsewhere. With P devices a worker and D a node, lcm(P, D) / P workers fill whole nodes,
/// share nothing with any other, and do what the next as many do; where nodes hold whole workers,
/// each does what the next does. So these are simulated, and the last of all, where they fill no
/// node.

#include <cstddef>
#include <numeric>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/simulate/report.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/plan/simulate/step.hpp>

namespace tandem {

namespace detail {

/// After how many workers of so many devices they stand on their nodes as the first did, or do what
/// it does wherever they stand.
inline int node_period(int devices, int devices_per_node) {
  return devices_per_node % devices == 0 ? 1
                                         : devices_per_node / std::gcd(devices_per_node, devices);
}

}  // namespace detail

/// A step of all workers, told by some of them.
struct SymmetricStep {
  Mesh mesh{};           ///< of all workers, as that of simulate_on()
  int period = 1;        ///< worker w does what worker w + period does, but for the last ones
  SimulatedStep step{};  ///< of the workers that are simulated: the first, then the last

  [[nodiscard]] int workers() const { return mesh.extent(Axis::data); }
  /// Workers that are simulated.
  [[nodiscard]] int simulated() const { return step.mesh.extent(Axis::data); }

  /// The device of `step` that does what @p rank of all does.
  TANDEM_ONCE [[nodiscard]] int like(int rank) const;

  /// How many of all workers do what number @p worker of `step` does.
  [[nodiscard]] int count(int worker) const {
    return workers() > period && worker < period ? workers() / period : 1;
  }

  /// Idle share of all devices' time in the step.
  TANDEM_ONCE [[nodiscard]] double idle() const;
};

/// As simulate_on() with options.workers, which it equals bit for bit.
///
/// Cost: that of simulate_on() with one worker, or fewer than 2 lcm(P, D) / P, whatever
///       options.workers is.
/// @throws ContractError  as simulate_on()
TANDEM_ONCE [[nodiscard]] SymmetricStep simulate_symmetric(Machine const& machine,
                                                           ActionRows const& table,
                                                           StageMapView const& map,
                                                           SimulatedCosts const& costs,
                                                           SimulationOptions const& options);

/// simulated_text() of the workers that were simulated, with how many do the same.
TANDEM_ONCE [[nodiscard]] std::string symmetric_text(SymmetricStep const& all);

/// simulated_json() of them, with `workers` and, of each device, `ranks`: how many do the same.
TANDEM_ONCE [[nodiscard]] std::string symmetric_json(SymmetricStep const& all);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE SymmetricStep simulate_symmetric(Machine const& machine, ActionRows const& table,
                                             StageMapView const& map, SimulatedCosts const& costs,
                                             SimulationOptions const& options) {
  detail::check_simulation(table, map, costs, options);
  check_machine(machine);
  SymmetricStep all{.mesh = Mesh{Axis::data, options.workers} * Mesh{Axis::model, map.devices},
                    .period = detail::node_period(map.devices, machine.devices_per_node)};
  expects(machine.has(all.mesh.size()),
          "simulate_symmetric: the machine has fewer devices than all workers need; give it more "
          "nodes, or 0 nodes for as many as are asked for");
  int const simulated =
      options.workers <= all.period ? options.workers : all.period + options.workers % all.period;
  all.step = detail::simulate_workers(machine, table, map, costs, options, simulated);
  return all;
}

TANDEM_ONCE std::string symmetric_text(SymmetricStep const& all) {
  std::string const those = std::to_string(all.simulated());
  std::string text =
      std::to_string(all.workers()) + " workers, " + std::to_string(all.mesh.size()) +
      " devices; " +
      (all.simulated() == all.workers()
           ? "all are simulated\n"
           : those + (all.simulated() == 1 ? " worker tells" : " workers tell") +
                 " of all, of which " + std::to_string(all.count(0)) + " do what the first does\n");
  return text + detail::makespan_line(all.step, all.idle()) + detail::device_lines(all.step);
}

TANDEM_ONCE std::string symmetric_json(SymmetricStep const& all) {
  int const devices = all.mesh.extent(Axis::model);
  std::string json = "{\n  \"workers\": " + std::to_string(all.workers()) + ",\n";
  json += detail::makespan_json(all.step, all.idle());
  char const* separator = "\n";
  for (std::size_t d = 0; d < all.step.device.size(); ++d) {
    json += separator + std::string{"    {\"ranks\": "} +
            std::to_string(all.count(static_cast<int>(d) / devices)) + ", " +
            detail::device_json(all.step.device[d]);
    separator = ",\n";
  }
  return json + "\n  ]\n}\n";
}

TANDEM_ONCE int SymmetricStep::like(int rank) const {
  int const devices = mesh.extent(Axis::model);
  int const worker = rank / devices;
  int const last = workers() / period * period;  // begin of those that fill no node
  int const same = workers() <= period ? worker
                   : worker < last     ? worker % period
                                       : period + worker - last;
  return same * devices + rank % devices;
}

TANDEM_ONCE double SymmetricStep::idle() const {
  int const devices = mesh.extent(Axis::model);
  double sum = 0;
  for (std::size_t d = 0; d < step.device.size(); ++d) {
    sum += count(static_cast<int>(d) / devices) * step.device[d].idle_in_step;
  }
  return step.makespan > 0 ? sum / (step.makespan * mesh.size()) : 0;
}

}  // namespace tandem

#endif
