// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// best_step: the shortest step of a small dataflow graph over all placements and all orders of
/// passes and transfers, by depth-first search. Written from the rules of plan/place/placement.hpp
/// alone.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <tandem/plan/place/placement.hpp>

namespace best_step {

using namespace tandem;

/// All orders for one placement.
class Orders {
 public:
  Orders(CostGraph const& graph, PlacementTask const& task, std::vector<int> const& device)
      : worker_(static_cast<std::size_t>(task.devices * (task.devices + 1))) {
    int const nodes = graph.nodes();
    for (int i = 0; i < nodes; ++i) {
      add(graph.node[i].forward, device[i]);
      add(graph.node[i].backward, device[i]);
      wait(2 * i + 1, 2 * i);
    }
    for (int u = 0; u < nodes; ++u) {
      for (int other = 0; other < task.devices; ++other) {
        std::vector<int> readers;
        for (CostEdge const& edge : graph.edge) {
          if (edge.from == u && device[edge.to] == other) {
            readers.push_back(edge.to);
          }
        }
        if (readers.empty()) {
          continue;
        }
        double const time =
            task.latency + static_cast<double>(graph.node[u].output_bytes) / task.bandwidth;
        int there = 2 * u;
        int back = 2 * u + 1;
        if (other != device[u] && time > 0) {
          there = add(time, task.devices + device[u] * task.devices + other);
          back = add(time, task.devices + other * task.devices + device[u]);
          wait(there, 2 * u);
          wait(2 * u + 1, back);
        }
        for (int const v : readers) {
          wait(2 * v, there);
          wait(back, 2 * v + 1);
        }
      }
    }
    for (std::size_t count = 0; count < job_.size(); ++count) {  // no chain of jobs is longer
      for (Job& job : job_) {
        job.tail = job.duration;
        for (int const next : job.after) {
          job.tail = std::max(job.tail, job.duration + job_[next].tail);
        }
      }
    }
    for (Job const& job : job_) {
      worker_[job.worker].left += job.duration;
    }
  }

  /// The shortest step if it is below @p limit, else @p limit.
  double search(double limit) {
    limit_ = limit;
    next(static_cast<int>(job_.size()), 0, 0);
    return limit_;
  }

 private:
  struct Job {
    double duration = 0;
    int worker = 0;
    std::vector<int> after{};
    double tail = 0;   // from its begin to the end of the step, at least
    double ready = 0;  // when all that it waits for ends, as far as begun
    int waits = 0;
    bool begun = false;
  };
  struct Worker {
    double free = 0;
    double left = 0;  // of jobs not begun
  };

  int add(double duration, int worker) {
    job_.push_back({.duration = duration, .worker = worker});
    return static_cast<int>(job_.size()) - 1;
  }

  void wait(int job, int before) {
    job_[before].after.push_back(job);
    ++job_[job].waits;
  }

  // Begins the remaining jobs one by one, in the order of their begins, each as early as it can.
  void next(int left, double now, double end) {
    if (left == 0) {
      limit_ = std::min(limit_, end);
      return;
    }
    for (Worker const& worker : worker_) {
      if (worker.left > 0 && std::max(worker.free, now) + worker.left >= limit_) {
        return;
      }
    }
    for (Job const& job : job_) {
      if (!job.begun && std::max({job.ready, worker_[job.worker].free, now}) + job.tail >= limit_) {
        return;
      }
    }
    for (Job& job : job_) {
      Worker& worker = worker_[job.worker];
      double const begin = std::max(job.ready, worker.free);
      if (job.begun || job.waits > 0 || begin < now) {
        continue;
      }
      Worker const saved = worker;
      worker = {begin + job.duration, worker.left - job.duration};
      job.begun = true;
      std::vector<double> ready;
      for (int const after : job.after) {
        ready.push_back(job_[after].ready);
        job_[after].ready = std::max(job_[after].ready, worker.free);
        --job_[after].waits;
      }
      next(left - 1, begin, std::max(end, worker.free));
      for (std::size_t i = job.after.size(); i-- > 0;) {
        job_[job.after[i]].ready = ready[i];
        ++job_[job.after[i]].waits;
      }
      job.begun = false;
      worker = saved;
    }
  }

  std::vector<Job> job_{};
  std::vector<Worker> worker_;
  double limit_ = 0;
};

/// The shortest step below @p limit, else @p limit; devices are alike, so node i goes to the used
/// ones or the first unused. Memory holds outputs and weights.
inline double best_step(CostGraph const& graph, PlacementTask const& task,
                        double limit = std::numeric_limits<double>::infinity()) {
  std::vector<int> device(graph.node.size());
  auto const place = [&](auto const& self, int i, int used) -> void {
    if (i == graph.nodes()) {
      std::vector<double> bytes(static_cast<std::size_t>(task.devices));
      for (int n = 0; n < i; ++n) {
        bytes[device[n]] +=
            static_cast<double>(graph.node[n].output_bytes) +
            static_cast<double>(graph.node[n].parameter_bytes) * task.bytes_of_parameter;
      }
      if (task.memory < 0 ||
          *std::max_element(bytes.begin(), bytes.end()) <= static_cast<double>(task.memory)) {
        limit = Orders{graph, task, device}.search(limit);
      }
      return;
    }
    for (int d = 0; d < std::min(used + 1, task.devices); ++d) {
      device[i] = d;
      self(self, i + 1, std::max(used, d + 1));
    }
  };
  place(place, 0, 0);
  return limit;
}

}  // namespace best_step
