// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerMemory: what the devices of a worker hold of a network of the library, by the functions
/// that fits<> uses.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/numbered.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/device_graph.hpp>
#include <tandem/strategy/cut/relays.hpp>
#include <tandem/strategy/memory/device_memory.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// A network on the devices of a worker.
struct WorkerCut {
  std::vector<int> part{};  ///< of each node of the network: its part of the model
  RuntimeMap map{};
  ActionRows table{};        ///< messages included
  Asynchrony asynchrony{};   ///< off: gradients are not late
  std::int64_t samples = 1;  ///< of a microbatch
  bool recomputes = false;   ///< Checkpoint<Boundaries>
  int replicas = 1;          ///< of the worker, which have each other's GradientRows
  int state_shares = 1;      ///< of the optimizer's state, of which a replica has one
};

/// Sizes of elements, and what the optimizer keeps.
struct TensorSizes {
  std::int64_t master_bytes = 4;  ///< as MemoryTask
  std::int64_t scalar_bytes = 4;
  int states = 1;
};

namespace detail {

/// A graph whose size is known at run time only, and that a cutter fills.
struct RuntimeGraph {
  detail::Numbered<Node> node{};  // and so on, as Graph
  detail::Numbered<int> source{};
  detail::Numbered<int> edge_origin{};
  detail::Numbered<GraphParameter> parameter{};
  int result = -1;

  void resize(GraphSize size) {
    node.resize(static_cast<std::size_t>(size.nodes));
    source.resize(static_cast<std::size_t>(size.edges));
    edge_origin.resize(source.size());
    parameter.resize(static_cast<std::size_t>(size.parameters));
  }
  /// Refers to this. @p view  of any graph
  [[nodiscard]] GraphView view(GraphView view) const {
    view.nodes = static_cast<int>(node.size());
    view.edges = static_cast<int>(source.size());
    view.parameters = static_cast<int>(parameter.size());
    view.node = node.data();
    view.source = source.data();
    view.edge_origin = edge_origin.data();
    view.parameter = parameter.data();
    view.result = result;
    return view;
  }
};

/// relayed() of a network whose size is known at run time only; the network itself, if it needs
/// none.
template <class = void>
class RuntimeRelays {
 public:
  RuntimeRelays(GraphView network, WorkerCut const& worker)
      : network_{network}, part_(worker.part.begin(), worker.part.end()) {
    if (!needs_relays(network, part_.data(), worker.map)) {
      return;
    }
    std::vector<int> reach(part_.size());
    std::vector<int> local(part_.size());
    RelayBuilder counter{network, part_.data(), {reach.data(), local.data()}};
    RelayBuilder builder = counter;
    counter.build(static_cast<RuntimeGraph*>(nullptr), nullptr);
    graph_.resize({counter.size.nodes, counter.size.edges, network.parameters});
    std::vector<std::int16_t> parts(static_cast<std::size_t>(counter.size.nodes));
    builder.build(&graph_, parts.data());
    part_ = parts;
    network_ = graph_.view(network_);
  }

  /// Refers to this.
  [[nodiscard]] GraphView view() const { return network_; }
  [[nodiscard]] std::vector<std::int16_t> const& part() const { return part_; }

 private:
  GraphView network_;
  std::vector<std::int16_t> part_;
  RuntimeGraph graph_{};
};

/// device_graph() of a network whose size is known at run time only.
template <class = void>
class RuntimeDeviceGraph {
 public:
  RuntimeDeviceGraph(RuntimeRelays<> const& relayed, WorkerCut const& worker, int device)
      : network_{relayed.view()} {
    GraphView const network = network_;
    std::vector<std::int16_t> const& part = relayed.part();
    std::vector<std::int16_t> local(part.size());
    std::vector<int> reader(static_cast<std::size_t>(network.edges));
    std::vector<int> first_reading(part.size());
    std::vector<int> next_reading(reader.size());
    DeviceCutter counter{
        .network = network,
        .part = part.data(),
        .map = worker.map,
        .device = device,
        .apart = false,
        .scratch = {local.data(), reader.data(), first_reading.data(), next_reading.data()}};
    DeviceCutter cutter = counter;
    counter.cut(static_cast<RuntimeGraph*>(nullptr));
    graph_.resize(counter.size);
    cutter.cut(&graph_);
  }

  /// Refers to this.
  [[nodiscard]] GraphView view() const { return graph_.view(network_); }

 private:
  GraphView network_;
  RuntimeGraph graph_{};
};

/// Adds the elements of a graph's parameters, as ParameterLayout lays them out in one bucket; each
/// further one may take a line of the cache more for each share of the states.
template <class = void>
void count_parameters(GraphView graph, MemoryTask& task) {
  for (int p = 0; p < graph.parameters; ++p) {
    std::int64_t const own = graph.parameter[p].parameter.shape.elements();
    std::int64_t const aligned =
        (own + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
    task.elements += aligned;
    bool const trained = !graph.parameter[p].frozen;
    task.trained += trained ? aligned : 0;
    task.dense += trained && !graph.parameter[p].parameter.touched.sparse() ? aligned : 0;
  }
  std::int64_t const whole = std::int64_t{parameter_alignment} * task.state_shares;
  std::int64_t const more = (whole - task.trained % whole) % whole;  // for equal shares
  task.elements += more;
  task.trained += more;
  task.dense += more;
}

template <class = void>
DeviceMemory worker_memory_of(GraphView graph, WorkerCut const& worker, int device,
                              TensorSizes const& sizes) {
  WeightPlaces const places{.rule = worker.asynchrony, .stage = device};
  bool const again =
      worker.recomputes || (places.rule.on() && places.rule.weights == WeightRule::replayed);
  std::vector<int> segment(static_cast<std::size_t>(graph.nodes), -1);
  std::vector<StageMemory> stages;
  for (int n = 0; n < graph.nodes; ++n) {
    int const id = graph.node[n].stage;
    if (n == 0 || id != graph.node[n - 1].stage) {
      stages.push_back({.first = n, .last = n, .live = places.live()});
      if (!places.rule.on()) {
        stages.back().live = live_microbatches(worker.table, worker.map, id);
        stages.back().deferred = deferred_microbatches(worker.table, worker.map, id);
      }
    }
    stages.back().last = n + 1;
    segment[static_cast<std::size_t>(n)] = again ? static_cast<int>(stages.size()) : -1;
  }
  std::int64_t microbatches = 1;
  for (auto const& row : worker.table) {
    for (Action const& action : row) {
      if (action.kind == ActionKind::forward) {
        microbatches = std::max<std::int64_t>(microbatches, action.index + 1);
      }
    }
  }
  MemoryTask task{.batch = worker.samples,
                  .samples = worker.samples * microbatches,
                  .master_bytes = sizes.master_bytes,
                  .scalar_bytes = sizes.scalar_bytes,
                  .microbatches = static_cast<int>(microbatches),
                  .replicas = worker.replicas,
                  .states = sizes.states,
                  .state_shares = worker.state_shares,
                  .places = places.count(),
                  .stage = stages.data(),
                  .stages = static_cast<int>(stages.size()),
                  .segment = segment.data()};
  count_parameters(graph, task);
  return device_memory(graph, task);
}

}  // namespace detail

/// What each device of a worker needs at most, as device_memory<Net, S, Optimizer, Precision>()
/// says of the strategy as a type.
/// @pre each node of @p network has a part, each part a stage of each copy in worker.map
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::vector<DeviceMemory> worker_memory(GraphView network, WorkerCut const& worker,
                                                      TensorSizes const& sizes) {
  std::vector<DeviceMemory> devices;
  detail::RuntimeRelays<> const relayed{network, worker};
  for (int d = 0; d < worker.map.devices; ++d) {
    detail::RuntimeDeviceGraph<> const graph{relayed, worker, d};
    devices.push_back(detail::worker_memory_of(graph.view(), worker, d, sizes));
  }
  return devices;
}

}  // namespace tandem
