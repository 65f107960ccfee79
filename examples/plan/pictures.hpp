// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What plan draws: a simulated step as a picture and as a trace, and a search as a page.

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>

#include <tandem/plan/page/page.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/simulate/placement.hpp>
#include <tandem/plan/simulate/svg.hpp>
#include <tandem/plan/simulate/trace.hpp>

#include "arguments.hpp"
#include "inputs.hpp"

/// @throws std::runtime_error  it cannot be written
inline void write_text(std::string const& path, std::string const& text) {
  if (!(std::ofstream{path} << text << std::flush)) {
    throw std::runtime_error{"cannot write '" + path + "'; is there such a folder, and room?"};
  }
}

inline void draw(PlanArguments const& a, tandem::SimulatedStep const& step,
                 std::string const& title) {
  if (!a.svg.empty()) {
    write_text(a.svg, tandem::simulated_svg(step, title));
  }
  if (!a.trace.empty()) {
    write_text(a.trace, tandem::trace_json(step));
  }
}

/// What is planned, as a page names it: "inception_v3 on dgx-1-v100".
inline std::string title_of(PlanArguments const& a, tandem::Machine const& machine) {
  return a.net + a.graph + a.profile + " on " + machine.name + ", " + counted(a.batch, "sample") +
         " a worker";
}

/// A step of one worker of the recommended plan, nothing where nothing fits; and the page.
inline void draw(PlanArguments const& a, tandem::SearchResult const& result,
                 tandem::SearchTask const& task) {
  tandem::Plan const* const plan = tandem::recommended_plan(result);
  tandem::PageExtras page{.title = title_of(a, task.machine), .memory = task.device_memory()};
  if (plan != nullptr && !(a.svg.empty() && a.trace.empty() && a.html.empty())) {
    tandem::CostGraph const graph =
        costs_of(a, std::max(1, a.batch / plan->worker.batching.microbatches));
    tandem::SimulatedStep const step =
        tandem::simulate_worker(plan->worker, plan->step, graph, task.machine);
    draw(a, step, tandem::strategy_label(*plan));
    page.step_svg = tandem::simulated_svg(step, tandem::strategy_label(*plan));
  }
  if (!a.html.empty()) {
    write_text(a.html, tandem::search_page(result, page));
  }
}

/// A step of the placement in the order of its list schedule.
inline void draw(PlanArguments const& a, tandem::CostGraph const& graph,
                 tandem::PlacementTask const& task, tandem::GraphPlacement const& placement) {
  if (a.svg.empty() && a.trace.empty()) {
    return;
  }
  tandem::Machine machine = machine_named(a.machine.empty() ? "two-cpus" : a.machine);
  machine.devices_per_node = task.devices;
  machine.adapters = 1;
  machine.inside = {.bandwidth = task.bandwidth, .latency = task.latency};
  draw(a,
       tandem::simulate_placement(
           machine, graph, tandem::schedule_timeline(graph, task, placement.device), task.devices),
       "placement on " + std::to_string(task.devices) + " devices");
}
