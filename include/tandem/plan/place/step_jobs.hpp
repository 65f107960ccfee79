// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepJobs: the numbers by which the list scheduler knows the passes and transfers of a step.

#include <cstddef>

#include <tandem/core/config.hpp>
#include <tandem/plan/place/timeline.hpp>

namespace tandem::detail {

/// Of V nodes on D devices: forward of node i is i, its backward V + i; the way of its output to
/// device d is 2 V + i D + d, the way of its gradient back from d is 2 V + V D + i D + d.
struct StepJobs {
  int nodes;
  int devices;

  int passes() const { return 2 * nodes; }
  int count() const { return passes() + 2 * nodes * devices; }
  int backward(int node) const { return nodes + node; }
  int output_way(int node, int device) const { return passes() + node * devices + device; }
  int gradient_way(int node, int device) const {
    return output_way(node, device) + nodes * devices;
  }

  bool is_pass(int job) const { return job < passes(); }
  bool is_forward(int job) const { return job < nodes; }
  bool is_output_way(int job) const { return !is_pass(job) && job < gradient_way(0, 0); }
  int node(int job) const {
    return is_pass(job) ? job % nodes : (job - passes()) / devices % nodes;
  }
  /// Of a transfer: the device that is not its node's.
  int far_device(int job) const { return (job - passes()) % devices; }

  /// Writes when @p job runs into @p timeline, whose device, forward and backward have V elements.
  TANDEM_ONCE void note(int job, PlacementSpan span, PlacementTimeline& timeline) const;
};

/// One that waits for its device or link only.
struct ReadyJob {
  double rank;
  int job;

  /// Whether @p other goes first.
  bool operator<(ReadyJob const& other) const {
    return rank < other.rank || (rank == other.rank && job > other.job);
  }
};

/// One that a device or link is at.
struct RunningJob {
  double end;
  int worker;
  int job;

  /// Whether @p other ends first.
  bool operator<(RunningJob const& other) const { return end > other.end; }
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void StepJobs::note(int job, PlacementSpan span, PlacementTimeline& timeline) const {
  int const i = node(job);
  auto const at = static_cast<std::size_t>(i);
  if (is_pass(job)) {
    (is_forward(job) ? timeline.forward : timeline.backward)[at] = span;
  } else if (is_output_way(job)) {
    timeline.transfer.push_back({i, timeline.device[at], far_device(job), false, span});
  } else {
    timeline.transfer.push_back({i, far_device(job), timeline.device[at], true, span});
  }
}

}  // namespace tandem::detail

#endif
