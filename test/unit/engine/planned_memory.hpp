// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PlannedMemory: the memory plan of a device's graph with the tables that point into it, as of a
/// rank, but without the memory and the ops: to be checked, and to be planned wrongly.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/engine/prepare/gradient_plan.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/schedule/table/action_table.hpp>

#include <memory_check/memory_check.hpp>

namespace tandem::test {

/// Of floats. Not movable.
class PlannedMemory {
 public:
  PlannedMemory(GraphView graph, std::vector<OpNeeds> needs, PlanTask task)
      : graph_{graph},
        needs_{std::move(needs)},
        task_{std::move(task)},
        plan_{plan_memory(graph_, needs_, task_)} {}
  PlannedMemory(PlannedMemory const&) = delete;
  PlannedMemory& operator=(PlannedMemory const&) = delete;

  /// What may be made wrong, before play().
  [[nodiscard]] MemoryPlan& plan() { return plan_; }
  [[nodiscard]] PlanTask& task() { return task_; }

  /// The first fault of a row.
  [[nodiscard]] std::string play(std::vector<Action> const& row, bool training = true,
                                 int stride = 1) const {
    OperandTables<float, float> const tables{graph_, plan_, task_, {}, bases(), parameters()};
    RankPlan const no_rows;
    MemoryCheck<float, float> check{{graph_, needs_, task_, plan_, bases(), tables, no_rows}};
    return check.play(
        row, training, [](int m) { return m; }, stride);
  }

 private:
  // Far from each other, and nothing is there.
  static ArenaBases bases() {
    auto const at = [](std::uintptr_t base) { return reinterpret_cast<std::byte*>(base << 40U); };
    return {at(1), at(2), at(3)};
  }
  [[nodiscard]] ParameterPointers<float, float> parameters() const {
    auto const count = static_cast<std::size_t>(graph_.parameters);
    return {.parameter = std::vector<float*>(count),
            .weight = std::vector<float const*>(count),
            .gradient = std::vector<float*>(count),
            .packed = std::vector<std::byte*>(static_cast<std::size_t>(graph_.nodes))};
  }

  GraphView graph_;
  std::vector<OpNeeds> needs_;
  PlanTask task_;
  MemoryPlan plan_;
};

/// What ops ask for, about as the portable ones do.
inline std::vector<OpNeeds> typical_needs(GraphView graph) {
  std::vector<OpNeeds> needs(static_cast<std::size_t>(graph.nodes));
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    bool const relu = node.layer == LayerKind::relu;
    bool const adds = node.kind == NodeKind::add && node.fusion.summed_by < 0;
    bool const drops = node.layer == LayerKind::dropout;
    bool const saves =
        node.layer == LayerKind::batch_norm || node.name == "MaxPool2d" || node.fusion.gelu;
    needs[static_cast<std::size_t>(n)] = {.input = node.parameters > 0,
                                          .output = relu,
                                          .in_place = relu || drops || adds,
                                          .saved_bytes = saves ? 96 : 0};
  }
  return needs;
}

/// Device @p Device of a Program: its plan and its rows.
template <class Device>
struct PlannedDevice {
  using Whole = typename Device::Program;

  explicit PlannedDevice(std::vector<OpNeeds> needs = typical_needs(Device::graph))
      : PlannedDevice{rows_of(Whole::table), Whole::batching.microbatches, std::move(needs)} {}
  /// With the rows of all devices that a program brings.
  PlannedDevice(ActionRows const& table, int microbatches,
                std::vector<OpNeeds> needs = typical_needs(Device::graph))
      : rows{make_rank_plan(device_tables<Device>, table, with(microbatches))},
        memory{Device::graph,
               std::move(needs),
               {.batch = 3,
                .microbatches = microbatches,
                .stages = rows.stages,
                .segment = Whole::checkpoint.every != 0 ? Device::segments.of : nullptr,
                .apart = Whole::batching.reproducible}} {}

  /// The first fault in training and evaluation, with all microbatches and with every other one.
  [[nodiscard]] std::string play() const {
    std::string fault;
    for (int const stride : {1, 2}) {
      fault = fault.empty() ? memory.play(rows.training, true, stride) : fault;
      fault = fault.empty() ? memory.play(rows.forward, false, stride) : fault;
    }
    return fault;
  }

  RankPlan rows;
  PlannedMemory memory;

 private:
  static Batching with(int microbatches) {
    Batching batching = Whole::batching;
    batching.microbatches = microbatches;
    return batching;
  }
};

/// The plan of all of a graph, for one microbatch of @p batch samples.
inline PlanTask whole_graph(GraphView graph, int batch) {
  return {.batch = batch, .stages = {{.first = 0, .last = graph.nodes}}};
}

/// A step of one microbatch.
inline std::vector<Action> one_step() {
  return {{.kind = ActionKind::forward}, {.kind = ActionKind::backward}};
}

}  // namespace tandem::test
