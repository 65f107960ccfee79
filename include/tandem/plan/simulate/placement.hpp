// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate_placement: a step of a placed graph on a described machine, whose links its tensors
/// share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/place/timeline.hpp>
#include <tandem/plan/simulate/jobs.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

/// The order of ModelParallel<Placed<...>>: a device goes forward through its nodes as the network
/// has them and backward the opposite way, tensors go as they are made. Times are places in the
/// order, no seconds.
/// @pre  device[i] >= 0 is the device of node i
TANDEM_ONCE [[nodiscard]] PlacementTimeline network_order(CostGraph const& graph,
                                                          std::vector<int> const& device);

/// The step of a placed graph whose devices, and pairs of devices, do everything in the order of
/// @p order: that of schedule_timeline(), or network_order(). A pair sends one tensor at a time,
/// each way; transfers of several pairs share the ports of the machine.
///
/// In the result node i is stage i of microbatch 0. Memory is that of outputs, from a node's
/// forward to the end of its backward. Workers sum the gradients of a device when its last backward
/// pass has ended.
/// @param devices  of a worker
/// @throws ContractError  a node has a device that is not there, or the machine has not so many;
///                        the order is not one of this graph; more than 32,767 nodes
TANDEM_ONCE [[nodiscard]] SimulatedStep simulate_placement(Machine const& machine,
                                                           CostGraph const& graph,
                                                           PlacementTimeline const& order,
                                                           int devices,
                                                           SimulationOptions const& options = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// A pass or a transfer of a placed graph, and its job.
struct PlacedJob {
  Action action{};
  int from = 0;          ///< device
  int to = 0;            ///< device; `from` of a pass
  PlacementSpan span{};  ///< in the list schedule
  int job = -1;
};

/// Makes jobs of the step of one worker: each device does its passes, and each pair of devices its
/// transfers, in the order of a timeline; nothing else of its times counts.
class PlacementJobs {
 public:
  PlacementJobs(SimulatorJobs& jobs, CostGraph const& graph, PlacementTimeline const& order,
                int first_device)
      : jobs_{jobs},
        graph_{graph},
        device_{order.device},
        first_job_{jobs.count()},
        first_device_{first_device} {
    add_passes(ActionKind::forward, order.forward, &CostNode::forward);
    add_passes(ActionKind::backward, order.backward, &CostNode::backward);
    for (PlacementTransfer const& t : order.transfer) {
      ActionKind const kind = t.gradient ? ActionKind::send_backward : ActionKind::send_forward;
      auto const bytes =
          static_cast<double>(graph.node[static_cast<std::size_t>(t.node)].output_bytes);
      int const job = jobs.add_message(first_device + t.from, first_device + t.to, bytes);
      transfers_.push_back({action(kind, t.node), t.from, t.to, t.span, job});
    }
    connect();
    keep_order(passes_);
    keep_order(transfers_);
  }

  void note(std::vector<PlacementSpan> const& span, SimulatedStep& step) const {
    for (PlacedJob const& one : passes_) {
      expects(span[static_cast<std::size_t>(one.job)].end >= 0,
              "simulate_placement: a pass waits forever; take the order of schedule_timeline() or "
              "network_order()");
      step.device[static_cast<std::size_t>(first_device_ + one.from)].action.push_back(
          {one.action, span[static_cast<std::size_t>(one.job)]});
    }
    for (PlacedJob const& one : transfers_) {
      step.message.push_back({one.action, first_device_ + one.from, first_device_ + one.to,
                              jobs_[one.job].amount, span[static_cast<std::size_t>(one.job)]});
    }
  }

 private:
  static Action action(ActionKind kind, int node) {
    return {.kind = kind, .stage = static_cast<std::int16_t>(node)};
  }

  void add_passes(ActionKind kind, std::vector<PlacementSpan> const& spans,
                  double CostNode::*seconds) {
    for (int n = 0; n < graph_.nodes(); ++n) {
      auto const i = static_cast<std::size_t>(n);
      passes_.push_back(
          {action(kind, n), device_[i], device_[i], spans[i], jobs_.add(graph_.node[i].*seconds)});
    }
  }

  // Which pass waits for which, and for what transfer between them.
  void connect() {
    std::map<std::pair<int, int>, int> output;    // node, other device: job
    std::map<std::pair<int, int>, int> gradient;  // as above
    for (int n = 0; n < graph_.nodes(); ++n) {
      jobs_.order(forward(n), backward(n));
    }
    for (PlacedJob const& one : transfers_) {
      int const n = one.action.stage;
      if (one.action.kind == ActionKind::send_forward) {
        output[{n, one.to}] = one.job;
        jobs_.order(forward(n), one.job);
      } else {
        gradient[{n, one.from}] = one.job;
        jobs_.order(one.job, backward(n));
      }
    }
    for (CostEdge const& edge : graph_.edge) {
      int const to = device_[static_cast<std::size_t>(edge.to)];
      if (device_[static_cast<std::size_t>(edge.from)] == to) {
        jobs_.order(forward(edge.from), forward(edge.to));
        jobs_.order(backward(edge.to), backward(edge.from));
        continue;
      }
      auto const there = output.find({edge.from, to});
      auto const back = gradient.find({edge.from, to});
      expects(there != output.end() && back != gradient.end(),
              "simulate_placement: the order lacks a transfer; take that of schedule_timeline() or "
              "network_order()");
      jobs_.order(there->second, forward(edge.to));
      jobs_.order(backward(edge.to), back->second);
    }
  }

  // What takes no time holds up nothing behind it; where all begin at once it comes first.
  void keep_order(std::vector<PlacedJob>& all) {
    std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) {
      return std::pair{a.span.begin, a.span.end} < std::pair{b.span.begin, b.span.end};
    });
    std::map<std::pair<int, int>, int> last;
    for (PlacedJob const& one : all) {
      auto const before = last.find({one.from, one.to});
      if (before != last.end()) {
        jobs_.order(before->second, one.job);
      }
      if (one.span.end > one.span.begin) {
        last[{one.from, one.to}] = one.job;
      }
    }
  }

  [[nodiscard]] int forward(int node) const { return first_job_ + node; }
  [[nodiscard]] int backward(int node) const { return forward(graph_.nodes() + node); }

  SimulatorJobs& jobs_;
  CostGraph const& graph_;
  std::vector<int> const& device_;
  int first_job_;
  int first_device_;
  std::vector<PlacedJob> passes_{};
  std::vector<PlacedJob> transfers_{};
};

/// What nodes keep, and the sum of a device's gradients at the node that goes backward last there.
TANDEM_ONCE std::vector<StageLoad> placed_loads(CostGraph const& graph,
                                                PlacementTimeline const& order, int devices) {
  std::vector<StageLoad> loads(graph.node.size());
  std::vector<GradientBucket> own(static_cast<std::size_t>(devices));
  std::vector<std::size_t> last(own.size(), graph.node.size());
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    auto const d = static_cast<std::size_t>(order.device[n]);
    loads[n].kept_bytes = static_cast<double>(graph.node[n].output_bytes);
    own[d].bytes += graph.node[n].dense_bytes();
    own[d].row_bytes += graph.node[n].rows.bytes();
    bool const later =
        last[d] == loads.size() || order.backward[n].begin > order.backward[last[d]].begin;
    last[d] = later ? n : last[d];
  }
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (last[d] < loads.size()) {
      loads[last[d]].gradients = {own[d]};
    }
  }
  return loads;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE PlacementTimeline network_order(CostGraph const& graph,
                                            std::vector<int> const& device) {
  detail::GraphNeighbours const neighbours{graph};
  PlacementTimeline order{.device = device};
  std::set<std::pair<int, int>> sent;  // node, device
  auto const at = [](int place) { return PlacementSpan{1.0 * place, 1.0 * place + 1}; };
  auto const of = [&](int node) { return device[static_cast<std::size_t>(node)]; };
  for (int n = 0; n < graph.nodes(); ++n) {
    order.forward.push_back(at(n));
    order.backward.push_back(at(2 * graph.nodes() - n));
    for (int const reader : neighbours.readers(n)) {
      if (of(reader) != of(n) && sent.insert({n, of(reader)}).second) {
        order.transfer.push_back({n, of(n), of(reader), false, at(n)});
      }
    }
  }
  for (int n = 0; n < graph.nodes(); ++n) {  // the last reader to go backward is the first here
    for (int const source : neighbours.sources(n)) {
      if (sent.erase({source, of(n)}) > 0) {
        order.transfer.push_back(
            {source, of(n), of(source), true, order.backward[static_cast<std::size_t>(n)]});
      }
    }
  }
  return order;
}

TANDEM_ONCE SimulatedStep simulate_placement(Machine const& machine, CostGraph const& graph,
                                             PlacementTimeline const& order, int devices,
                                             SimulationOptions const& options) {
  detail::check_placement_task(graph, {.devices = devices});
  detail::check_devices(graph, {.devices = devices}, order.device);
  expects(options.workers >= 1 && order.forward.size() == graph.node.size() &&
              order.backward.size() == graph.node.size() &&
              graph.node.size() <= std::size_t{std::numeric_limits<std::int16_t>::max()},
          "simulate_placement(machine, graph, order, devices, options): give a worker or more, and "
          "an order of the graph, which has 32767 nodes at most");
  Mesh const mesh = Mesh{Axis::data, options.workers} * Mesh{Axis::model, devices};
  detail::MachinePorts const ports{machine, mesh.size()};
  detail::SimulatorJobs jobs;
  std::deque<detail::PlacementJobs> workers;
  for (int w = 0; w < mesh.groups(Axis::model); ++w) {
    workers.emplace_back(jobs, graph, order, mesh.group(w, Axis::model).first);
  }
  std::vector<PlacementSpan> const span = detail::JobRun{jobs, ports, options.shares_links}.run();

  SimulatedStep step{.mesh = mesh};
  step.device.resize(static_cast<std::size_t>(mesh.size()));
  for (detail::PlacementJobs const& worker : workers) {
    worker.note(span, step);
  }
  for (SimulatedDevice& one : step.device) {
    std::stable_sort(one.action.begin(), one.action.end(),
                     [](auto const& a, auto const& b) { return a.span.begin < b.span.begin; });
  }
  RuntimeMap map;
  map.devices = devices;
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    map.device.push_back(static_cast<std::int16_t>(order.device[n]));
    step.stage_name.push_back(graph.node[n].name);
  }
  std::vector<StageLoad> const loads = detail::placed_loads(graph, order, devices);
  detail::add_reductions(step, machine, map, loads, mesh, true);
  detail::summarise(step, loads);
  return step;
}

}  // namespace tandem

#endif
