// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PlacementJobs: the passes and transfers of a placed graph as jobs of the simulator.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/place/timeline.hpp>
#include <tandem/plan/simulate/jobs.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/table/action.hpp>

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
  TANDEM_ONCE PlacementJobs(SimulatorJobs& jobs, CostGraph const& graph,
                            PlacementTimeline const& order, int first_device);

  TANDEM_ONCE void note(std::vector<PlacementSpan> const& span, SimulatedStep& step) const;

 private:
  static Action action(ActionKind kind, int node) {
    return {.kind = kind, .stage = static_cast<std::int16_t>(node)};
  }

  TANDEM_ONCE void add_passes(ActionKind kind, std::vector<PlacementSpan> const& spans,
                              double CostNode::*seconds);

  // Which pass waits for which, and for what transfer between them.
  TANDEM_ONCE void connect();

  // What takes no time holds up nothing behind it; where all begin at once it comes first.
  TANDEM_ONCE void keep_order(std::vector<PlacedJob>& all);

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

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE PlacementJobs::PlacementJobs(SimulatorJobs& jobs, CostGraph const& graph,
                                         PlacementTimeline const& order, int first_device)
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

TANDEM_ONCE void PlacementJobs::note(std::vector<PlacementSpan> const& span,
                                     SimulatedStep& step) const {
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

TANDEM_ONCE void PlacementJobs::add_passes(ActionKind kind, std::vector<PlacementSpan> const& spans,
                                           double CostNode::*seconds) {
  for (int n = 0; n < graph_.nodes(); ++n) {
    auto const i = static_cast<std::size_t>(n);
    passes_.push_back(
        {action(kind, n), device_[i], device_[i], spans[i], jobs_.add(graph_.node[i].*seconds)});
  }
}

TANDEM_ONCE void PlacementJobs::connect() {
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

TANDEM_ONCE void PlacementJobs::keep_order(std::vector<PlacedJob>& all) {
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

}  // namespace tandem::detail

#endif
