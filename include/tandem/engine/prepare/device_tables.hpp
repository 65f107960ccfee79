// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeviceTables: a DeviceProgram as values, for what is compiled once and not for each program.

#include <cstdint>
#include <span>
#include <type_traits>

#include <tandem/core/mesh.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_order.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/device_program.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Each member is the DeviceProgram's of the same name, or its program's.
struct DeviceTables {
  int device;
  StageMapView map;
  GraphView network;
  GraphView graph;
  LayoutView layout;
  GraphView whole_graph;  ///< of WholeParameters
  LayoutView whole_layout;
  std::span<LocalStage const> stages;
  int const* segments;
  int const* twin_buckets;
  std::span<int const> tied;  ///< owners of the parameters that layers share
  WeightPlaces places;
  Batching batching;
  Averaging averaging;
  Mesh mesh;
  int devices;
  int slices;
  int layer_slices;
  int state_shares;
  int gradient_copies = 0;
  std::int64_t state_elements = 0;
  std::int64_t gradient_slot = 0;
  std::int64_t parameter_slot = 0;
  std::int64_t parameter_elements = 0;
  std::int64_t weight_elements = 0;
  std::int64_t gradient_elements = 0;
  bool any_replicas = false;
  bool several_replicas = false;
  bool sums_gradients = false;
  bool sharded_state;
  bool sharded_gradients;
  bool sharded_parameters;
  bool has_twins;
  bool has_tiles;
  bool sequence_rows;      ///< each rank has its rows between layers that ranks share
  bool stateful;           ///< steps hand states on
  bool post_validated;     ///< ranks go on before an update is known to be right
  bool recomputes;         ///< segments of nodes
  bool ties_cross;         ///< devices share a parameter
  bool has_input = false;  ///< of the network
  bool has_result;
  bool reads_two;
  /// row_order() where the model has two copies; a program without them does not compile it.
  RowOrder (*order)(ActionRows const&, StageMapView const&, StepRules const&) = nullptr;

  [[nodiscard]] constexpr Mesh mesh_of(int replicas) const {
    return any_replicas ? Mesh{Axis::data, replicas} * mesh : mesh;
  }
  [[nodiscard]] constexpr int gradient_replicas(int replicas) const {
    return (any_replicas ? replicas : batching.replicas) * gradient_copies;
  }
  /// Whether layers share a parameter of a bucket: TiedSums adds its gradients.
  [[nodiscard]] constexpr bool shares_bucket(int b) const {
    for (int p = 0; p < graph.parameters && !tied.empty(); ++p) {
      for (int const owner : tied) {
        if (graph.parameter[p].owner() == owner && bucket(b).has(layout.offset[p])) {
          return true;
        }
      }
    }
    return false;
  }
  /// Where the trained parameters of a local stage are.
  [[nodiscard]] constexpr ElementRange trained(int stage) const {
    return trained_range(layout, stages[static_cast<std::size_t>(stage)].id);
  }
  [[nodiscard]] constexpr ElementRange bucket(int b) const { return bucket_range(layout, b); }
};

namespace detail {

template <class Program>
constexpr decltype(DeviceTables::order) order_of() {
  if constexpr (Program::map.copies > 1) {
    return row_order<std::conditional_t<(Program::map.copies > 1), ActionRows, void>>;
  } else {
    return nullptr;
  }
}

}  // namespace detail

/// @tparam Device  a DeviceProgram
template <class Device, class Program = typename Device::Program>
inline constexpr DeviceTables device_tables{
    .device = Device::device,
    .map = Program::map,
    .network = Program::network,
    .graph = Device::graph,
    .layout = Device::layout,
    .whole_graph = WholeParameters<Device>::graph,
    .whole_layout = WholeParameters<Device>::layout,
    .stages = Device::stages.stage,
    .segments = Device::segments.of,
    .twin_buckets = Device::twin_buckets.of,
    .tied = {Program::ties.owner, static_cast<std::size_t>(Program::ties.count)},
    .places = Device::places,
    .batching = Device::batching,
    .averaging = Program::averaging,
    .mesh = Program::mesh,
    .devices = Program::devices,
    .slices = Program::slices,
    .layer_slices = Program::layer_slices,
    .state_shares = Device::state_shares,
    .gradient_copies = Device::gradient_copies,
    .state_elements = Device::state_elements,
    .gradient_slot = Device::gradient_slot,
    .parameter_slot = Device::parameter_slot,
    .parameter_elements = Device::parameter_elements,
    .weight_elements = Device::weight_elements,
    .gradient_elements = Device::gradient_elements,
    .any_replicas = Program::any_replicas,
    .several_replicas = Program::several_replicas,
    .sums_gradients = Device::sums_gradients,
    .sharded_state = Program::sharded_state,
    .sharded_gradients = Program::sharded_gradients,
    .sharded_parameters = Program::sharded_parameters,
    .has_twins = Device::has_twins,
    .has_tiles = Program::has_tiles,
    .sequence_rows = Program::sequence_rows,
    .stateful = Program::stateful,
    .post_validated = Program::post_validated,
    .recomputes = Program::checkpoint.every != 0,
    .ties_cross = Program::ties.crosses(),
    .has_input = Device::has_input,
    .has_result = Device::has_result,
    .reads_two = tandem::reads_two<Device>(),
    .order = detail::order_of<Program>()};

}  // namespace tandem
