// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RuntimeProgram: what Program and DeviceProgram are to a strategy's type, made at start from a
/// strategy that is a value.

#include <cstdint>
#include <memory>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/rewrites.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/runtime_cut.hpp>
#include <tandem/strategy/memory/device_memory.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// How a network is cut: what S::Cut<Net> is to a type.
struct RuntimeCut {
  std::vector<std::int16_t> part{};  ///< of each node
  RuntimeMap map{};
  ActionRows table{};  ///< messages included
};

/// @param tops  of the network: top-level layers
/// @throws ContractError  the network cannot be cut so, or the devices would wait for ever
TANDEM_ONCE TANDEM_COLD RuntimeCut cut_of(GraphView network, int tops, StrategyValue const& value);

/// The tables of each device. Not copied: they refer to it.
class RuntimeProgram {
 public:
  /// @param network        outlives this
  /// @param tops           of it: top-level layers
  /// @param rewrites       what the backend wants of the graph
  /// @param element_bytes  of a parameter
  /// @throws ContractError  the strategy and the network do not go together
  TANDEM_ONCE TANDEM_COLD RuntimeProgram(GraphView network, int tops, StrategyValue value,
                                         Rewrites rewrites, int element_bytes);
  RuntimeProgram(RuntimeProgram const&) = delete;
  RuntimeProgram& operator=(RuntimeProgram const&) = delete;

  [[nodiscard]] StrategyValue const& value() const { return value_; }
  [[nodiscard]] RuntimeCut const& cut() const { return cut_; }
  [[nodiscard]] GroupFacts const& groups() const { return groups_; }
  [[nodiscard]] int devices() const { return static_cast<int>(devices_.size()); }
  TANDEM_ONCE [[nodiscard]] DeviceTables const& device(int d) const;
  /// What device @p d of a replica needs at most for steps of a global batch of @p batch samples.
  /// @param sizes  bytes of elements, arrays of state and branches; the program has the rest
  /// @throws ContractError  batch < 1, or the number of replicas is open
  TANDEM_ONCE [[nodiscard]] DeviceMemory memory(int d, int batch, MemoryTask sizes) const;

 private:
  // A device's graph, and what refers to it.
  struct OneDevice {
    TANDEM_ONCE OneDevice(RuntimeProgram const& program, RoutedParts const& routed, int device,
                          Rewrites rewrites, int element_bytes);

    detail::RuntimeGraph cut;    // as the network has it
    detail::RuntimeGraph graph;  // as the backend computes it
    GraphView view;
    RuntimeLayout layout;
    detail::RuntimeGraph const& whole;  // with whole parameters
    RuntimeLayout whole_layout;
    std::vector<LocalStage> stages;
    std::vector<int> segments;
    std::vector<int> twins;
    DeviceTables tables;
  };

  TANDEM_ONCE TANDEM_COLD void find_ties();
  TANDEM_ONCE TANDEM_COLD void check_rules() const;

  GraphView network_;
  StrategyValue value_;
  RuntimeCut cut_;
  std::vector<int> tied_{};               // owners of parameters that layers share
  std::vector<TieDevices> ties_[2] = {};  // of each copy of the model, of each of them
  GroupFacts groups_{};
  std::vector<std::unique_ptr<OneDevice>> devices_{};
};

}  // namespace tandem

#if TANDEM_BODIES

#include <algorithm>
#include <utility>

#include <tandem/core/contract.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/updates.hpp>
#include <tandem/schedule/verify/verify.hpp>
#include <tandem/strategy/cut/balance.hpp>
#include <tandem/strategy/cut/partition.hpp>
#include <tandem/strategy/rules.hpp>

namespace tandem {

namespace detail {

/// The parts of a placed network.
TANDEM_ONCE RuntimeCut cut_placed_nodes(GraphView network, StrategyValue const& value) {
  RuntimeCut cut;
  auto const nodes = static_cast<std::size_t>(network.nodes);
  bool sound = value.device.size() == nodes;
  for (std::int16_t const device : value.device) {
    sound = sound && 0 <= device && device < network.nodes;
  }
  expects(sound, "Placed<table>: the table is of another network; make it with place<Net>");
  cut.part.resize(nodes);
  cut.map.device.resize(nodes);
  cut.map.edge.resize(static_cast<std::size_t>(network.edges));
  PlacementCutter cutter{.graph = network,
                         .places = value.device.data(),
                         .part = cut.part.data(),
                         .device = cut.map.device.data(),
                         .edge = cut.map.edge.data()};
  cutter.cut();
  cut.map.devices = value.devices();
  cut.map.links = cutter.links;
  cut.map.device.resize(static_cast<std::size_t>(cutter.parts));
  cut.map.edge.resize(static_cast<std::size_t>(cutter.edges));
  return cut;
}

/// @throws ContractError  the devices would wait for each other forever, or the like
TANDEM_ONCE void check_table(RuntimeCut const& cut, StrategyValue const& value) {
  Asynchrony const late = value.asynchrony();
  int const microbatches = value.batching.microbatches;
  Verdict const verdict =
      late.on() ? verify(cut.table, cut.map, unrolled_steps(late) * microbatches, late)
                : verify(cut.table, cut.map, microbatches, 1, value.batching.chunks);
  if (!verdict) {
    throw ContractError{"the strategy's table of actions cannot be run: " + to_string(verdict)};
  }
}

/// @throws ContractError  a network of @p tops top-level layers is not cut so
TANDEM_ONCE void check_parts(int tops, StrategyValue const& value) {
  int counted = 0;
  for (int const count : value.tops) {
    counted += count;
  }
  if (value.cut == CutKind::balanced && value.parts > tops) {
    throw ContractError{"Auto<" + std::to_string(value.parts) + ">: the network has " +
                        std::to_string(tops) + " top-level layers; give as many parts at most"};
  }
  if (value.cut == CutKind::splits && counted != tops) {
    throw ContractError{"Split<...>: the counts add up to " + std::to_string(counted) +
                        ", but the network has " + std::to_string(tops) + " top-level layers"};
  }
}

TANDEM_ONCE ActionRows sequential_rows(StageMapView const& map, int microbatches) {
  ActionRows rows(static_cast<std::size_t>(map.devices));
  auto sink = [&rows](int device, Action const& action) {
    rows[static_cast<std::size_t>(device)].push_back(action);
  };
  sequential(map, microbatches, sink);
  return rows;
}

}  // namespace detail

TANDEM_ONCE RuntimeCut cut_of(GraphView network, int tops, StrategyValue const& value) {
  if (char const* const fault = detail::fault_of(value); fault != nullptr) {
    throw ContractError{fault};
  }
  int const microbatches = value.batching.microbatches;
  if (value.cut == CutKind::placed) {
    RuntimeCut cut = detail::cut_placed_nodes(network, value);
    cut.table = lower(detail::sequential_rows(cut.map, microbatches), cut.map);
    detail::check_table(cut, value);
    return cut;
  }
  RuntimeCut cut{.part = std::vector<std::int16_t>(static_cast<std::size_t>(network.nodes))};
  if (value.cut == CutKind::whole) {
    cut.map = make_map(SequentialStages::name, 1);
    cut.table = detail::sequential_rows(cut.map, microbatches);
    return cut;
  }
  std::vector<int> counts = value.tops;
  detail::check_parts(tops, value);
  if (value.cut == CutKind::balanced) {
    counts.resize(static_cast<std::size_t>(value.parts));
    balance_tops(network, tops, value.parts, counts.data());
  }
  counts.push_back(0);
  cut_tops(network, counts.data(), value.parts, cut.part.data());
  int const devices = value.devices();
  cut.map = make_map(value.schedule, devices, value.stages_a_device);
  cut.table =
      lower(chunked(make_schedule(value.schedule, devices, microbatches, value.stages_a_device),
                    value.batching.chunks),
            cut.map);
  detail::check_table(cut, value);
  return cut;
}

namespace detail {

TANDEM_ONCE std::vector<int> segments_of(GraphView graph, CheckpointRule rule) {
  std::vector<int> segments(static_cast<std::size_t>(graph.nodes));
  fill_checkpoint_segments(graph, rule, segments.data());
  return segments;
}

TANDEM_ONCE std::vector<LocalStage> stages_of(GraphView graph, int parts) {
  std::vector<LocalStage> stages(static_cast<std::size_t>(count_stages(graph)));
  fill_stages(graph, parts, stages.data());
  return stages;
}

TANDEM_ONCE std::vector<int> twins_of(RuntimeLayout const& layout, int parts) {
  std::vector<int> twins(layout.closes.size());
  find_twins(layout, parts, twins.data());
  return twins;
}

TANDEM_ONCE RuntimeGraph rewritten(RuntimeGraph graph, GraphView network, Rewrites rewrites,
                                   CheckpointRule rule) {
  std::vector<int> const segments = segments_of(graph.view(network), rule);
  rewrite_in(graph, Readers{graph}, rewrites, segments.data());
  return graph;
}

/// What a device's ranks have in parts, as DeviceProgram has it.
TANDEM_ONCE void fill_parts(DeviceTables& tables) {
  LayoutView const& layout = tables.layout;
  tables.state_elements = layout.trained / tables.state_shares;
  tables.gradient_slot = tables.sharded_gradients ? largest_bucket(layout) : 0;
  tables.parameter_slot = tables.sharded_parameters ? largest_bucket(layout) : 0;
  tables.parameter_elements =
      tables.sharded_parameters
          ? tables.state_elements + 2 * tables.parameter_slot + layout.elements - layout.trained
          : layout.elements;
  tables.weight_elements = tables.sharded_parameters
                               ? tables.parameter_elements - tables.state_elements
                               : layout.elements;
  tables.gradient_elements =
      tables.sharded_gradients ? tables.state_elements + 2 * tables.gradient_slot : layout.dense;
}

}  // namespace detail

TANDEM_ONCE RuntimeProgram::OneDevice::OneDevice(RuntimeProgram const& program,
                                                 RoutedParts const& routed, int device,
                                                 Rewrites rewrites, int element_bytes)
    : cut{program.cut_.map.device.size() == 1
              ? detail::RuntimeGraph{program.network_}
              : detail::cut_graph(routed, program.cut_.map, device,
                                  program.value_.batching.reproducible)},
      graph{detail::rewritten(
          detail::spread_graph(cut, spread_of(program.network_, program.value_)), program.network_,
          detail::allowed(rewrites, program.value_.batching.reproducible,
                          program.value_.shards_parameters()),
          program.value_.checkpoint)},
      view{graph.view(program.network_)},
      layout{view,
             element_bytes,
             program.value_.batching.first_bucket_bytes,
             program.value_.batching.bucket_bytes,
             program.value_.state_shares(),
             program.value_.shards_gradients()},
      whole{program.value_.layer_slices() > 1 ? cut : graph},
      whole_layout{program.value_.layer_slices() > 1
                       ? RuntimeLayout{cut.view(program.network_), element_bytes,
                                       program.value_.batching.first_bucket_bytes,
                                       program.value_.batching.bucket_bytes}
                       : layout},
      stages{detail::stages_of(view, StageMapView{program.cut_.map}.parts())},
      segments{detail::segments_of(view, program.value_.checkpoint)},
      twins{detail::twins_of(layout, StageMapView{program.cut_.map}.parts())},
      tables{.device = device,
             .map = program.cut_.map,
             .network = program.network_,
             .graph = view,
             .layout = layout,
             .whole_graph = whole.view(program.network_),
             .whole_layout = whole_layout,
             .stages = stages,
             .segments = segments.data(),
             .twin_buckets = twins.data(),
             .tied = program.tied_,
             .places = {.rule = program.value_.asynchrony(), .stage = device},
             .batching = program.value_.batching,
             .averaging = program.value_.averaging,
             .mesh = program.value_.mesh(),
             .devices = program.value_.devices(),
             .slices = program.value_.tensor,
             .layer_slices = program.value_.layer_slices(),
             .state_shares = program.value_.state_shares(),
             .sharded_state = program.value_.shards_state(),
             .sharded_gradients = program.value_.shards_gradients(),
             .sharded_parameters = program.value_.shards_parameters(),
             .has_twins = has_twins(stages),
             .has_tiles = program.value_.has_tiles(),
             .sequence_rows = program.value_.tensor > 1 && program.value_.sequence_rows,
             .stateful = detail::carries_states(program.network_),
             .post_validated = program.value_.post_validated,
             .recomputes = program.value_.checkpoint.every != 0,
             .ties_cross = program.groups_.tie_group(program.cut_.map.copies, 0) > 0,
             .has_result = view.result >= 0,
             .reads_two = program.network_.node[1].kind == NodeKind::input} {
  tables.gradient_copies = tables.averaging.keeps_two() ? 1 : tables.map.copies;
  tables.any_replicas = program.value_.any_replicas;
  tables.several_replicas = tables.any_replicas || tables.batching.replicas > 1;
  tables.sums_gradients = tables.several_replicas || tables.gradient_copies > 1;
  for (int n = 0; n < view.nodes; ++n) {
    tables.has_input = tables.has_input || view.node[n].kind == NodeKind::input;
  }
  if (tables.map.copies > 1) {
    tables.order = row_order<ActionRows>;
  }
  detail::fill_parts(tables);
}

TANDEM_ONCE RuntimeProgram::RuntimeProgram(GraphView network, int tops, StrategyValue value,
                                           Rewrites rewrites, int element_bytes)
    : network_{network}, value_{std::move(value)}, cut_{cut_of(network, tops, value_)} {
  find_ties();
  check_rules();
  groups_ = {.map = cut_.map,
             .ties = {ties_[0].data(), ties_[1].data()},
             .tie_count = static_cast<int>(tied_.size()),
             .devices = value_.devices(),
             .slices = value_.tensor,
             .keeps_two = value_.averaging.keeps_two()};
  RoutedParts const routed{network, cut_.part, cut_.map};
  for (int d = 0; d < value_.devices(); ++d) {
    devices_.push_back(std::make_unique<OneDevice>(*this, routed, d, rewrites, element_bytes));
  }
}

TANDEM_ONCE DeviceTables const& RuntimeProgram::device(int d) const {
  return devices_.at(static_cast<std::size_t>(d))->tables;
}

TANDEM_ONCE DeviceMemory RuntimeProgram::memory(int d, int batch, MemoryTask sizes) const {
  expects(batch >= 1, "device_memory(strategy, batch): give 1 sample or more");
  expects(!value_.any_replicas, detail::sentence_of(detail::Argument::named_replicas));
  DeviceTables const& own = device(d);
  sizes.undoes = own.post_validated;
  sizes.averaging = own.averaging;
  sizes.segment = own.segments;
  return detail::device_memory(own, cut_.table, own.map, own.stages, batch, sizes);
}

TANDEM_ONCE void RuntimeProgram::find_ties() {
  for (int p = 0; p < network_.parameters; ++p) {
    if (detail::is_tied(network_, p)) {
      tied_.push_back(p);
      for (int copy = 0; copy < cut_.map.copies; ++copy) {
        ties_[copy].push_back(detail::tie_devices(network_, cut_.part.data(), cut_.map, copy, p));
      }
    }
  }
}

TANDEM_ONCE void RuntimeProgram::check_rules() const {
  int widest = 0;
  for (std::vector<TieDevices> const& copy : ties_) {
    for (TieDevices const& tie : copy) {
      widest = std::max(widest, tie.count);
    }
  }
  detail::BrokenRule const broken = detail::broken_rule(detail::add_network(
      detail::rule_facts(value_, widest), detail::RuntimeGraph{network_}, network_,
      detail::wishes_in(value_), cut_.part.data(), static_cast<int>(cut_.map.device.size())));
  if (broken.rule != detail::Rule::none) {
    throw ContractError{detail::sentence_of(broken)};
  }
}

}  // namespace tandem

#endif
