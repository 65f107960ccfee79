// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What plan does with --simulate: runs the action table of a file on a machine.

#include <cstddef>
#include <stdexcept>
#include <string>

#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/simulate/report.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/plan/simulate/symmetric.hpp>
#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/table/action.hpp>

#include "arguments.hpp"
#include "inputs.hpp"
#include "pictures.hpp"

/// Which version a pass reads is a rule of its schedule, without which nothing can be checked.
/// @throws tandem::TableError  a pass reads weights of a version
inline void refuse_versions(tandem::ReadTable const& read, std::string const& file) {
  for (std::size_t row = 0; row < read.rows.size(); ++row) {
    for (std::size_t i = 0; i < read.rows[row].size(); ++i) {
      if (read.rows[row][i].version > 0) {
        throw tandem::TableError{
            file, read.place[row][i],
            tandem::to_string(read.rows[row][i]) +
                " is of an asynchronous schedule; say which by --schedule, such as pipedream"};
      }
    }
  }
}

/// @throws tandem::FileError   the file cannot be read
/// @throws tandem::TableError  the table cannot run: why, and where that stands
inline tandem::CheckedTable table_of(PlanArguments const& a) {
  tandem::ReadTable const read = tandem::read_table_csv(read_text(a.table), a.table);
  if (a.schedule.empty()) {
    refuse_versions(read, a.table);
  }
  int const copies = a.schedule.empty() ? a.copies : tandem::make_map(a.schedule, 2).copies;
  return tandem::check_table(read, copies, a.depth, a.table, a.schedule);
}

/// The costs of one microbatch.
/// @throws std::runtime_error  the minibatch cannot be split into so many, or the network into the
///                             table's stages
inline tandem::SimulatedCosts costs_of(PlanArguments const& a, tandem::CheckedTable const& table,
                                       int microbatches) {
  if (a.batch % microbatches != 0) {
    throw std::runtime_error{a.table + " has " + std::to_string(microbatches) +
                             " microbatches a step, into which --batch-per-worker " +
                             std::to_string(a.batch) + " cannot be split; give a multiple of " +
                             std::to_string(microbatches)};
  }
  tandem::CostGraph const graph = costs_of(a, a.batch / microbatches);
  int const stages = static_cast<int>(table.map.device.size()) / table.map.copies;
  int const parts = graph.node.back().part + 1;
  if (stages > parts) {
    throw std::runtime_error{a.table + " cuts the network into " + counted(stages, "stage") +
                             ", but it has only " + counted(parts, "part") +
                             "; give a table of fewer stages"};
  }
  bool const again =
      table.asynchrony.on() && table.asynchrony.weights == tandem::WeightRule::replayed;
  return tandem::chain_costs(table.map, graph, {}, again);
}

/// @throws std::runtime_error  there are not so many devices, or gradients are late
inline void check_workers(PlanArguments const& a, tandem::CheckedTable const& table,
                          tandem::Machine const& machine) {
  int const devices = table.map.devices;
  if (a.workers > 1 && table.asynchrony.on()) {
    throw std::runtime_error{"--workers goes with synchronous tables; those of " + a.schedule +
                             " have all devices"};
  }
  if (a.workers > most_simulated_devices / devices) {
    throw std::runtime_error{"--workers " + std::to_string(a.workers) + " of " +
                             counted(devices, "device") + " are more than " +
                             std::to_string(most_simulated_devices) + " devices; give fewer"};
  }
  if (!machine.has(a.workers * devices)) {
    throw std::runtime_error{a.table + " has a row for each of " + counted(devices, "device") +
                             (a.workers > 1 ? " of " + counted(a.workers, "worker") : "") +
                             ", more than --machine " + a.machine + " has; give another machine"};
  }
}

/// The step of the table, in the format that was asked for, and drawn if that was.
inline std::string simulation_text(PlanArguments const& a) {
  tandem::CheckedTable const table = table_of(a);
  tandem::Machine const machine = machine_of(a);
  int const devices = table.map.devices;
  check_workers(a, table, machine);
  int const of_step = table.asynchrony.on() ? table.asynchrony.microbatches : table.microbatches;
  tandem::SymmetricStep const all =
      tandem::simulate_symmetric(machine, table.lowered, table.map, costs_of(a, table, of_step),
                                 {.workers = a.workers, .depth = a.depth});
  std::string const title =
      a.table + " on " + machine.name + ": " + counted(devices, "device") + ", " +
      counted(table.map.device.size(), "stage") + ", " +
      (table.asynchrony.on() ? counted(table.microbatches / of_step, "step") + " of " : "") +
      counted(of_step, "microbatch", "es") + " of " + counted(a.batch / of_step, "sample");
  draw(a, all.step, title);
  if (a.workers > 1) {
    return a.format == "json" ? tandem::symmetric_json(all)
                              : title + "\n" + tandem::symmetric_text(all);
  }
  return a.format == "json" ? tandem::simulated_json(all.step)
                            : title + "\n" + tandem::simulated_text(all.step);
}
