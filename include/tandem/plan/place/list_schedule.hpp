// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// schedule_step, schedule_timeline: when each pass and each transfer of a placed graph runs, if
/// every device and every link takes the most urgent thing that is ready whenever it is free. The
/// rules of a step are those of placement.hpp; the order is a heuristic, so a better one may exist.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/place/timeline.hpp>

namespace tandem::detail {

/// The numbers of the passes and transfers of a step of V nodes on D devices: forward of node i is
/// i, its backward V + i; the way of its output to device d is 2 V + i D + d, the way of its
/// gradient back from d is 2 V + V D + i D + d.
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

/// A worker is a device or a link; each job has one. In rounds: all jobs that end next end, then
/// every free worker begins the most urgent job that is ready. Jobs without duration end in a round
/// of their own.
class ListSchedule {
 public:
  TANDEM_ONCE ListSchedule(CostGraph const& graph, PlacementTask const& task);

  /// Seconds of a step; infinity, found sooner, if they are certainly more than @p limit.
  double step(std::span<int const> device, double limit = std::numeric_limits<double>::infinity()) {
    return run(device, limit * (1 + 1e-9), [](int, PlacementSpan) {});  // sums differ by rounding
  }

  TANDEM_ONCE PlacementTimeline timeline(std::span<int const> device);

 private:
  static std::size_t size(int count) { return static_cast<std::size_t>(count); }

  template <class Note>
  double run(std::span<int const> device, double limit, Note const& note_job) {
    device_ = device.data();
    prepare();
    double now = 0;
    while (begin_ready(now, limit, note_job)) {
      if (running_.empty()) {
        return now;
      }
      now = running_.front().end;
      while (!running_.empty() && running_.front().end == now) {
        std::pop_heap(running_.begin(), running_.end());
        RunningJob const ended = running_.back();
        running_.pop_back();
        busy_[ended.worker] = false;
        touched_.push_back(ended.worker);
        end(ended.job);
      }
    }
    return std::numeric_limits<double>::infinity();
  }

  // Counts what each job waits for, and ranks the jobs.
  TANDEM_ONCE void prepare();

  TANDEM_ONCE void rank_forward(int i);

  int link(int from, int to) const { return devices_ + from * devices_ + to; }

  TANDEM_ONCE void offer(int worker, int job);

  void arrive(int job) {
    if (--waits_[job] == 0) {
      offer(device_[jobs_.node(job)], job);
    }
  }

  TANDEM_ONCE void end(int job);

  TANDEM_ONCE void arrive_output(int node, int device);

  TANDEM_ONCE void end_forward(int i);

  TANDEM_ONCE void end_backward(int i);

  // Whether the step can still end within the limit.
  template <class Note>
  bool begin_ready(double now, double limit, Note const& note_job) {
    for (int const worker : touched_) {
      std::vector<ReadyJob>& queue = ready_[worker];
      if (busy_[worker] || queue.empty()) {
        continue;
      }
      std::pop_heap(queue.begin(), queue.end());
      ReadyJob const next = queue.back();
      queue.pop_back();
      bool const pass = jobs_.is_pass(next.job);
      if (now + std::max(next.rank, pass ? work_left_[worker] : 0) > limit) {
        return false;
      }
      double const duration = pass ? time_[next.job] : transfer_[jobs_.node(next.job)];
      if (pass) {
        work_left_[worker] -= duration;
      }
      busy_[worker] = true;
      running_.push_back({now + duration, worker, next.job});
      std::push_heap(running_.begin(), running_.end());
      note_job(next.job, PlacementSpan{now, now + duration});
    }
    touched_.clear();
    return true;
  }

  int nodes_;
  int devices_;
  StepJobs jobs_;
  GraphNeighbours neighbours_;
  Numbered<double> time_;      // of a pass
  Numbered<double> transfer_;  // of a node's output or its gradient
  int const* device_ = nullptr;
  Numbered<int> waits_;                    // of a pass: for how many events
  Numbered<double> rank_;                  // of a job: the longest path from its begin
  Numbered<int> readers_;                  // (V, D): edges to that device not yet gone backward
  Numbered<double> work_left_;             // of a device, not yet begun
  Numbered<std::vector<ReadyJob>> ready_;  // of a worker, a heap
  Numbered<char> busy_;                    // of a worker
  std::vector<RunningJob> running_{};      // a heap
  std::vector<int> touched_{};             // workers that may begin something
};

}  // namespace tandem::detail

namespace tandem {

namespace detail {

TANDEM_ONCE void check_devices(CostGraph const& graph, PlacementTask const& task,
                               std::span<int const> device);

/// Bytes that @p node takes on its device: its output, which backward needs, and its weights with
/// what belongs to them; of gradients by rows these in place of a gradient of all. Whole, so that
/// sums and differences below 2^53 are exact.
inline double bytes_on_device(CostNode const& node, PlacementTask const& task) {
  double const by_rows =
      static_cast<double>(node.rows.parameter_bytes) * std::max(0.0, task.bytes_of_parameter - 1);
  return static_cast<double>(node.output_bytes) +
         std::ceil(node.dense_bytes() * task.bytes_of_parameter + by_rows) + node.rows.bytes();
}

TANDEM_ONCE bool fits_memory(CostGraph const& graph, PlacementTask const& task,
                             std::span<int const> device);

}  // namespace detail

/// Seconds from the first forward to the last backward, if node i runs on device[i]. The most
/// urgent of what is ready is that with the longest path of passes and transfers before it, its own
/// time included; among equals that of the lower index, forward before backward.
///
/// Infinity if the outputs and weights of a device's nodes need more than task.memory.
/// Cost: O((V + E) log V + V devices) time.
/// @throws ContractError  a number of the graph or the task is out of range
/// Source: the upward rank of Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002 ("HEFT"), of a given
///         placement; Graham 1969 for list scheduling.
TANDEM_ONCE [[nodiscard]] double schedule_step(CostGraph const& graph, PlacementTask const& task,
                                               std::span<int const> device);

/// When everything begins and ends in the step that schedule_step() measures, whether or not the
/// devices have the memory.
/// @throws ContractError  a number of the graph or the task is out of range
TANDEM_ONCE [[nodiscard]] PlacementTimeline schedule_timeline(CostGraph const& graph,
                                                              PlacementTask const& task,
                                                              std::span<int const> device);

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE void check_placement_task(CostGraph const& graph, PlacementTask const& task);

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

TANDEM_ONCE void check_placement_task(CostGraph const& graph, PlacementTask const& task) {
  expects(task.devices > 0, "PlacementTask: .devices must be at least 1");
  expects(static_cast<double>(graph.node.size()) * task.devices <= 1e7,
          "PlacementTask: nodes times devices must be 10,000,000 at most; give fewer devices, or a "
          "graph of larger operations");
  expects(task.bandwidth > 0, "PlacementTask: .bandwidth must be above 0 bytes a second");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  expects(task.latency >= 0 && task.latency < infinity,
          "PlacementTask: .latency must be finite and at least 0 seconds");
  expects(task.bytes_of_parameter >= 0, "PlacementTask: .bytes_of_parameter must be at least 0");
  for (CostNode const& n : graph.node) {
    expects(n.forward >= 0 && n.backward >= 0 && n.time() < infinity && n.output_bytes >= 0 &&
                n.parameter_bytes >= 0,
            "CostGraph: times and sizes of a node must be finite and at least 0");
  }
  for (CostEdge const& e : graph.edge) {
    expects(0 <= e.from && e.from < e.to && e.to < graph.nodes(),
            "CostGraph: an edge must lead from a node to one with a higher index");
  }
}

TANDEM_ONCE void check_devices(CostGraph const& graph, PlacementTask const& task,
                               std::span<int const> device) {
  expects(device.size() == graph.node.size(), "schedule_step: give one device for each node");
  for (int const d : device) {
    expects(0 <= d && d < task.devices, "schedule_step: devices count from 0 to .devices - 1");
  }
}

TANDEM_ONCE bool fits_memory(CostGraph const& graph, PlacementTask const& task,
                             std::span<int const> device) {
  std::vector<double> bytes(static_cast<std::size_t>(task.devices));
  for (std::size_t i = 0; i < device.size(); ++i) {
    bytes[static_cast<std::size_t>(device[i])] += bytes_on_device(graph.node[i], task);
  }
  bool fits = true;
  for (double const b : bytes) {
    fits = fits && (task.memory < 0 || b <= static_cast<double>(task.memory));
  }
  return fits;
}

TANDEM_ONCE ListSchedule::ListSchedule(CostGraph const& graph, PlacementTask const& task)
    : nodes_{graph.nodes()},
      devices_{task.devices},
      jobs_{nodes_, devices_},
      neighbours_{graph},
      time_(2 * graph.node.size()),
      transfer_(graph.node.size()),
      waits_(2 * graph.node.size()),
      rank_(size(jobs_.count())),
      readers_(size(devices_) * graph.node.size()),
      work_left_(size(devices_)),
      ready_(size(devices_) * size(devices_ + 1)),
      busy_(ready_.size()) {
  for (std::size_t i = 0; i < graph.node.size(); ++i) {
    CostNode const& node = graph.node[i];
    time_[i] = node.forward;
    time_[graph.node.size() + i] = node.backward;
    transfer_[i] = task.latency + static_cast<double>(node.output_bytes) / task.bandwidth;
  }
}

TANDEM_ONCE PlacementTimeline ListSchedule::timeline(std::span<int const> device) {
  PlacementTimeline result;
  result.device.assign(device.begin(), device.end());
  result.forward.resize(device.size());
  result.backward.resize(device.size());
  result.step = run(device, std::numeric_limits<double>::infinity(),
                    [&](int job, PlacementSpan span) { jobs_.note(job, span, result); });
  std::ranges::stable_sort(result.transfer, {}, [](auto const& t) { return t.span.begin; });
  return result;
}

TANDEM_ONCE void ListSchedule::prepare() {
  std::ranges::fill(readers_, 0);
  std::ranges::fill(work_left_, 0);
  std::ranges::fill(busy_, false);
  for (std::vector<ReadyJob>& queue : ready_) {
    queue.clear();
  }
  running_.clear();
  touched_.clear();
  for (int i = 0; i < nodes_; ++i) {
    std::span<int const> const sources = neighbours_.sources(i);
    work_left_[device_[i]] += time_[i] + time_[jobs_.backward(i)];
    waits_[i] = static_cast<int>(sources.size());
    waits_[jobs_.backward(i)] = 1;  // its forward; below, a gradient from each device
    double rank = 0;
    for (int const u : sources) {
      waits_[jobs_.backward(u)] += readers_[u * devices_ + device_[i]]++ == 0;
      bool const here = device_[u] == device_[i];
      rank = std::max(rank, rank_[jobs_.backward(u)] + (here ? 0 : transfer_[u]));
    }
    rank_[jobs_.backward(i)] = time_[jobs_.backward(i)] + rank;
  }
  for (int i = nodes_ - 1; i >= 0; --i) {
    rank_forward(i);
    if (waits_[i] == 0) {
      offer(device_[i], i);
    }
  }
}

TANDEM_ONCE void ListSchedule::rank_forward(int i) {
  double rank = rank_[jobs_.backward(i)];
  std::span<int const> const readers = neighbours_.readers(i);
  for (int const v : readers) {
    rank_[jobs_.output_way(i, device_[v])] = 0;
  }
  for (int const v : readers) {
    if (device_[v] == device_[i]) {
      rank = std::max(rank, rank_[v]);
    } else {
      double& way = rank_[jobs_.output_way(i, device_[v])];
      way = std::max(way, transfer_[i] + rank_[v]);
      rank = std::max(rank, way);
      rank_[jobs_.gradient_way(i, device_[v])] = transfer_[i] + rank_[jobs_.backward(i)];
    }
  }
  rank_[i] = time_[i] + rank;
}

TANDEM_ONCE void ListSchedule::offer(int worker, int job) {
  std::vector<ReadyJob>& queue = ready_[worker];
  queue.push_back({rank_[job], job});
  std::push_heap(queue.begin(), queue.end());
  touched_.push_back(worker);
}

TANDEM_ONCE void ListSchedule::end(int job) {
  int const node = jobs_.node(job);
  if (jobs_.is_forward(job)) {
    end_forward(node);
  } else if (jobs_.is_pass(job)) {
    end_backward(node);
  } else if (jobs_.is_output_way(job)) {
    arrive_output(node, jobs_.far_device(job));
  } else {
    arrive(jobs_.backward(node));
  }
}

TANDEM_ONCE void ListSchedule::arrive_output(int node, int device) {
  for (int const v : neighbours_.readers(node)) {
    if (device_[v] == device) {
      arrive(v);
    }
  }
}

TANDEM_ONCE void ListSchedule::end_forward(int i) {
  arrive(jobs_.backward(i));
  arrive_output(i, device_[i]);
  for (int const v : neighbours_.readers(i)) {
    double& rank = rank_[jobs_.output_way(i, device_[v])];
    if (device_[v] != device_[i] && rank >= 0) {
      offer(link(device_[i], device_[v]), jobs_.output_way(i, device_[v]));
      rank = -1;  // sent once
    }
  }
}

TANDEM_ONCE void ListSchedule::end_backward(int i) {
  int const d = device_[i];
  for (int const u : neighbours_.sources(i)) {
    if (--readers_[u * devices_ + d] > 0) {
      continue;
    }
    if (device_[u] == d) {
      arrive(jobs_.backward(u));
    } else {
      offer(link(d, device_[u]), jobs_.gradient_way(u, d));
    }
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double schedule_step(CostGraph const& graph, PlacementTask const& task,
                                 std::span<int const> device) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, device);
  if (!detail::fits_memory(graph, task, device)) {
    return std::numeric_limits<double>::infinity();
  }
  return detail::ListSchedule{graph, task}.step(device);
}

TANDEM_ONCE PlacementTimeline schedule_timeline(CostGraph const& graph, PlacementTask const& task,
                                                std::span<int const> device) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, device);
  return detail::ListSchedule{graph, task}.timeline(device);
}

}  // namespace tandem

#endif
