// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerMemory: what the devices of a worker hold of a network of the library, by the function
/// that fits<> uses. The graphs of devices are those of device_graph(), made at run time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
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
};

/// Sizes of elements, and what the optimizer keeps.
struct TensorSizes {
  std::int64_t master_bytes = 4;  ///< as MemoryTask
  std::int64_t scalar_bytes = 4;
  int states = 1;
};

namespace detail {

/// The part of a network that one device has, as device_graph() cuts it.
template <class = void>
class DeviceCut {
 public:
  DeviceCut(GraphView network, WorkerCut const& worker, int device)
      : network_{network}, worker_{worker}, map_{worker.map}, device_{device} {
    for (int copy = 0; copy < map_.copies; ++copy) {
      local_.assign(static_cast<std::size_t>(network.nodes), -1);
      find_readers(copy);
      for (int n = 0; n < network.nodes; ++n) {
        if (device_of(copy, n) == device) {
          add_inputs(copy, n);
          add_node(copy, n);
          add_sends(copy, n);
        }
      }
    }
  }

  /// Refers to this.
  [[nodiscard]] GraphView graph() const {
    GraphView view = network_;
    view.nodes = static_cast<int>(node_.size());
    view.edges = static_cast<int>(source_.size());
    view.node = node_.data();
    view.source = source_.data();
    view.result = result_;
    return view;
  }

  [[nodiscard]] DeviceMemory memory(TensorSizes const& sizes) const {
    WeightPlaces const places{.rule = worker_.asynchrony, .stage = device_};
    bool const again =
        worker_.recomputes || (places.rule.on() && places.rule.weights == WeightRule::replayed);
    std::vector<int> segment(node_.size(), -1);
    std::vector<StageMemory> stages;
    for (int n = 0; n < static_cast<int>(node_.size()); ++n) {
      auto const i = static_cast<std::size_t>(n);
      if (n == 0 || node_[i].stage != node_[i - 1].stage) {
        int const id = node_[i].stage;
        stages.push_back({.first = n, .last = n, .live = places.live()});
        if (!places.rule.on()) {
          stages.back().live = live_microbatches(worker_.table, map_, id);
          stages.back().deferred = deferred_microbatches(worker_.table, map_, id);
        }
      }
      stages.back().last = n + 1;
      segment[i] = again ? static_cast<int>(stages.size()) : -1;
    }
    return device_memory(graph(), {.batch = worker_.samples,
                                   .master_bytes = sizes.master_bytes,
                                   .scalar_bytes = sizes.scalar_bytes,
                                   .elements = elements_,
                                   .trained = trained_,
                                   .states = sizes.states,
                                   .places = places.count(),
                                   .stage = stages.data(),
                                   .stages = static_cast<int>(stages.size()),
                                   .segment = segment.data()});
  }

 private:
  [[nodiscard]] int stage_of(int copy, int n) const {
    return copy * map_.parts() + worker_.part[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] int device_of(int copy, int n) const { return map_.device[stage_of(copy, n)]; }
  [[nodiscard]] int& local(int n) { return local_[static_cast<std::size_t>(n)]; }

  int add(Node node, int stage) {
    node.stage = stage;
    node.first_edge = static_cast<int>(source_.size());
    node_.push_back(node);
    return static_cast<int>(node_.size()) - 1;
  }

  // What node n reads and is not here yet.
  void add_inputs(int copy, int n) {
    Node const& node = network_.node[n];
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      int const source = network_.source[e];
      if (local(source) < 0) {
        Node end = network_.node[source];
        end.kind = end.kind == NodeKind::input ? NodeKind::input : NodeKind::receive;
        end.layer = LayerKind::other;
        end.view = false;
        end.edges = 0;
        local(source) = add(end, stage_of(copy, n));
      }
    }
  }

  void add_node(int copy, int n) {
    Node const& node = network_.node[n];
    local(n) = add(node, stage_of(copy, n));
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      source_.push_back(local(network_.source[e]));
    }
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      std::int64_t const own = network_.parameter[p].parameter.shape.elements();
      std::int64_t const aligned =
          (own + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
      elements_ += aligned;
      trained_ += node.frozen ? 0 : aligned;
    }
    result_ = n == network_.nodes - 1 ? local(n) : result_;
  }

  // The devices that read each node, but for the network's input.
  void find_readers(int copy) {
    readers_.assign(static_cast<std::size_t>(network_.nodes), {});
    for (int n = 0; n < network_.nodes; ++n) {
      Node const& node = network_.node[n];
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        int const from = network_.source[e];
        if (network_.node[from].kind != NodeKind::input) {
          readers_[static_cast<std::size_t>(from)].insert(device_of(copy, n));
        }
      }
    }
  }

  // One to each other device that reads node n.
  void add_sends(int copy, int n) {
    for (int const to : readers_[static_cast<std::size_t>(n)]) {
      if (to != device_) {
        Node end{.kind = NodeKind::send, .needs_gradient = network_.node[n].needs_gradient};
        end.in = end.out = network_.node[n].out;
        end.edges = 1;
        add(end, stage_of(copy, n));
        source_.push_back(local(n));
      }
    }
  }

  GraphView network_;
  WorkerCut const& worker_;
  StageMapView map_;
  int device_;
  std::vector<int> local_{};              // of a node of the copy at work: index here, or -1
  std::vector<std::set<int>> readers_{};  // of a node of that copy: devices
  std::vector<Node> node_{};
  std::vector<int> source_{};
  int result_ = -1;
  std::int64_t elements_ = 0;  // of parameters
  std::int64_t trained_ = 0;
};

}  // namespace detail

/// What each device of a worker needs at most, as device_memory<Net, S, Optimizer, Precision>()
/// says of the strategy as a type.
/// @pre each node of @p network has a part, each part a stage of each copy in worker.map
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::vector<DeviceMemory> worker_memory(GraphView network, WorkerCut const& worker,
                                                      TensorSizes const& sizes) {
  std::vector<DeviceMemory> devices;
  for (int d = 0; d < worker.map.devices; ++d) {
    devices.push_back(detail::DeviceCut<>{network, worker, d}.memory(sizes));
  }
  return devices;
}

}  // namespace tandem
