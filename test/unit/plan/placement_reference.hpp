// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A list scheduler that is slow and easy to check, and random graphs to compare others with it.

#include <algorithm>
#include <cstddef>
#include <random>
#include <tuple>
#include <vector>

#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/place/timeline.hpp>

namespace tandem {

/// A pass or a transfer, and the indices of the jobs that must end before it begins.
struct SlowJob {
  int worker = 0;  ///< a device, or devices + from * devices + to
  double duration = 0;
  std::vector<std::size_t> after{};
  double path = 0;  ///< the longest from its begin, itself included
  double begin = -1;
  double end = -1;

  bool has_ended(double now) const { return begin >= 0 && end <= now; }
};

/// Jobs in the order of their precedence among equals: forwards, backwards, outputs by node and
/// device, gradients by node and device. A transfer that does not exist has worker -1.
inline std::vector<SlowJob> slow_jobs(CostGraph const& graph, PlacementTask const& task,
                                      std::vector<int> const& device) {
  std::size_t const V = graph.node.size();
  std::size_t const D = static_cast<std::size_t>(task.devices);
  std::vector<SlowJob> job(2 * V + 2 * V * D);
  for (SlowJob& j : job) {
    j.worker = -1;
  }
  for (std::size_t i = 0; i < V; ++i) {
    job[i] = {device[i], graph.node[i].forward};
    job[V + i] = {device[i], graph.node[i].backward, {i}};
  }
  for (CostEdge const& e : graph.edge) {
    std::size_t const u = static_cast<std::size_t>(e.from);
    std::size_t const v = static_cast<std::size_t>(e.to);
    if (device[u] == device[v]) {
      job[v].after.push_back(u);
      job[V + u].after.push_back(V + v);
      continue;
    }
    std::size_t const there = 2 * V + u * D + static_cast<std::size_t>(device[v]);
    std::size_t const back = there + V * D;
    double const time =
        task.latency + static_cast<double>(graph.node[u].output_bytes) / task.bandwidth;
    job[there].worker = task.devices + device[u] * task.devices + device[v];
    job[there].duration = time;
    job[there].after = {u};
    job[v].after.push_back(there);
    job[back].worker = task.devices + device[v] * task.devices + device[u];
    job[back].duration = time;
    job[back].after.push_back(V + v);
    job[V + u].after.push_back(back);
  }
  for (bool changed = true; changed;) {  // longest paths: until nothing grows
    changed = false;
    for (SlowJob& j : job) {
      j.path = std::max(j.path, j.duration);
      for (std::size_t const a : j.after) {
        if (job[a].path < job[a].duration + j.path) {
          job[a].path = job[a].duration + j.path;
          changed = true;
        }
      }
    }
  }
  return job;
}

/// As schedule_timeline(): looks at every job, for every worker, at every time.
inline PlacementTimeline slow_timeline(CostGraph const& graph, PlacementTask const& task,
                                       std::vector<int> const& device) {
  std::vector<SlowJob> job = slow_jobs(graph, task, device);
  double now = 0;
  for (bool any = true; any;) {
    std::vector<SlowJob*> chosen(static_cast<std::size_t>(task.devices * (task.devices + 1)));
    for (SlowJob& j : job) {
      bool ready = j.worker >= 0 && j.begin < 0;
      for (std::size_t const a : j.after) {
        ready = ready && job[a].has_ended(now);
      }
      for (SlowJob const& other : job) {
        ready = ready && !(other.worker == j.worker && other.begin >= 0 && !other.has_ended(now));
      }
      if (ready) {
        SlowJob*& best = chosen[static_cast<std::size_t>(j.worker)];
        best = best == nullptr || j.path > best->path ? &j : best;
      }
    }
    any = false;
    bool instant = false;  // what has ended at once may make more ready
    for (SlowJob* j : chosen) {
      if (j != nullptr) {
        j->begin = now;
        j->end = now + j->duration;
        any = true;
        instant = instant || j->duration == 0;
      }
    }
    double next = now;
    for (SlowJob const& j : job) {
      if (!instant && j.begin >= 0 && j.end > now) {
        next = next > now ? std::min(next, j.end) : j.end;
      }
    }
    any = any || next > now;
    now = next;
  }
  PlacementTimeline result{device, {}, {}, {}, now};
  std::size_t const V = graph.node.size();
  std::size_t const D = static_cast<std::size_t>(task.devices);
  for (std::size_t i = 0; i < job.size(); ++i) {
    if (i < V) {
      result.forward.push_back({job[i].begin, job[i].end});
    } else if (i < 2 * V) {
      result.backward.push_back({job[i].begin, job[i].end});
    } else if (job[i].worker >= 0) {
      int const link = job[i].worker - task.devices;
      result.transfer.push_back({static_cast<int>((i - 2 * V) / D % V),
                                 link / task.devices,
                                 link % task.devices,
                                 i >= 2 * V + V * D,
                                 {job[i].begin, job[i].end}});
    }
  }
  return result;
}

inline std::vector<PlacementTransfer> sorted(std::vector<PlacementTransfer> transfer) {
  std::ranges::sort(transfer, {}, [](PlacementTransfer const& t) {
    return std::tuple{t.gradient, t.node, t.from, t.to};
  });
  return transfer;
}

inline int below(std::mt19937& random, int limit) {
  return static_cast<int>(random() % static_cast<unsigned>(limit));
}

/// Small whole times and sizes, zeros among them, so that sums are exact and ties are frequent.
inline CostGraph random_graph(std::mt19937& random, int nodes) {
  CostGraph graph;
  for (int i = 0; i < nodes; ++i) {
    graph.node.push_back({"", static_cast<double>(below(random, 6)),
                          static_cast<double>(below(random, 8)), below(random, 6),
                          below(random, 5)});
    for (int reads = i == 0 ? 0 : below(random, 4); reads > 0; --reads) {
      CostEdge const edge{below(random, i), i};
      if (std::ranges::find(graph.edge, edge) == graph.edge.end()) {
        graph.edge.push_back(edge);
      }
    }
  }
  return graph;
}

inline std::vector<int> random_devices(std::mt19937& random, CostGraph const& graph, int devices) {
  std::vector<int> device(graph.node.size());
  for (int& d : device) {
    d = below(random, devices);
  }
  return device;
}

}  // namespace tandem
