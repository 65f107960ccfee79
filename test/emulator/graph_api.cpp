// SPDX-License-Identifier: Apache-2.0
// cudaGraph*: replaying what was captured, nodes in any order that their edges allow.

#include <algorithm>
#include <cstdio>
#include <utility>

#include "state.hpp"

using namespace cuda_emulator;

namespace {

// One launch of a graph, while it runs.
struct Replay {
  std::shared_ptr<std::vector<Node> const> nodes;
  std::vector<Attempt> attempts;
  std::vector<bool> done;
  std::size_t left;
  Permutation order;
  Ticket before;  // the launch before this one of the same graph: CUDA runs them in turn

  [[nodiscard]] bool ready(std::size_t node) const {
    auto const& after = (*nodes)[node].after;
    return !done[node] && std::all_of(after.begin(), after.end(), [&](auto n) { return done[n]; });
  }

  // Runs the first node, in the order of this replay, that can run.
  bool run_one() {
    for (std::size_t i = 0; i < done.size(); ++i) {
      std::size_t const node = order(i);
      if (ready(node) && attempts[node]()) {
        if (emulator().trace) {
          std::fprintf(stderr, "emulator: graph node %zu: %s\n", node, (*nodes)[node].name.c_str());
        }
        done[node] = true;
        --left;
        notify_changed();
        return true;
      }
    }
    return false;
  }

  bool run() {
    if (before.stream != nullptr) {
      if (!advance(before)) {
        return false;
      }
      before = {};
    }
    while (left != 0) {
      if (!run_one()) {
        return false;
      }
    }
    return true;
  }
};

// Backward first: a node without the edge that it needs runs before what it needs.
Permutation replay_order(std::size_t nodes) {
  Order order = next_order();
  static std::uint64_t replays = 0;
  order.kind = static_cast<Permutation::Kind>((++replays + emulator().seed) % 3);
  return order.of(nodes == 0 ? 1 : nodes);
}

Start start_of(std::shared_ptr<std::vector<Node> const> const& nodes, Ticket const& before) {
  return [nodes, before](Ticket const& ticket) -> Attempt {
    auto const replay = std::make_shared<Replay>(Replay{nodes,
                                                        {},
                                                        std::vector<bool>(nodes->size()),
                                                        nodes->size(),
                                                        replay_order(nodes->size()),
                                                        before});
    for (Node const& node : *nodes) {
      replay->attempts.push_back(node.start(ticket));
    }
    return [replay] { return replay->run(); };
  };
}

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  auto const held = lock();
  auto const found = emulator().graphs.find(graph);
  if (exec == nullptr || found == emulator().graphs.end()) {
    return cudaErrorInvalidValue;
  }
  auto made = std::make_unique<CUgraphExec_st>();
  made->nodes = std::make_shared<std::vector<Node> const>(found->second->nodes);
  auto& newest = emulator().newest_graph[current_device()];
  newest.clear();
  for (Node const& node : *made->nodes) {
    newest.push_back(
        {.name = node.name, .start = {}, .after = {}, .kernel = node.kernel, .bytes = node.bytes});
  }
  made->accesses = found->second->accesses;
  *exec = made.get();
  emulator().execs.emplace(made.get(), std::move(made));
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return result(instantiate(exec, graph));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  return result(instantiate(exec, graph));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  auto const held = lock();
  auto const found = emulator().execs.find(exec);
  auto const queue = find_stream(stream);
  if (found == emulator().execs.end() || queue == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  CUgraphExec_st& graph = *found->second;
  if (queue->capture != nullptr) {  // becomes one node, a child graph
    cudaError_t const captured = enqueue_retried(stream, "child graph", start_of(graph.nodes, {}));
    if (captured == cudaSuccess) {
      queue->capture->nodes.back().accesses = graph.accesses;
    }
    return result(captured);
  }
  if (emulator().failures.count(queue->device) == 0) {
    queue->clock.join(graph.last_order);  // launches of one graph run in turn
    note_accesses(*queue, graph.accesses);
  }
  cudaError_t const status =
      enqueue_retried(stream, "graph", [&graph](Ticket const& ticket) -> Attempt {
        Attempt attempt = start_of(graph.nodes, std::exchange(graph.last, ticket))(ticket);
        return attempt;
      });
  graph.last_order = clock_at_end(*queue);
  return result(status);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  auto const held = lock();
  auto const found = emulator().graphs.find(graph);
  if (found == emulator().graphs.end() || count == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  std::size_t const size = found->second->nodes.size();
  for (std::size_t i = 0; nodes != nullptr && i < *count; ++i) {
    // No function takes them; any values that differ will do.
    nodes[i] = i < size ? reinterpret_cast<cudaGraphNode_t>(&found->second->nodes[i]) : nullptr;
  }
  *count = nodes == nullptr ? size : std::min(*count, size);
  return result(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  auto const held = lock();
  return result(emulator().execs.count(exec) != 0 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  auto const held = lock();
  return result(emulator().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  auto const held = lock();
  return result(emulator().execs.erase(exec) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

}  // extern "C"
