// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/simulate/placement.hpp>
#include <unit/plan/simulator_cases.hpp>

#include <tandem/plan/place/critical_path.hpp>

namespace tandem::test {
namespace simulator_placement_test {

using namespace simulator_cases;

CostGraph random_graph(std::mt19937& random, int nodes) {
  CostGraph graph;
  for (int n = 0; n < nodes; ++n) {
    graph.node.push_back({.name = "node" + std::to_string(n),
                          .forward = 1.0 * below(random, 4),  // 0 among them
                          .backward = 1.0 * below(random, 6),
                          .output_bytes = below(random, 5)});
    for (int from = 0; from < n; ++from) {
      if (below(random, nodes) < 3) {
        graph.edge.push_back({from, n});
      }
    }
  }
  return graph;
}

/// Nodes one after another, forward and then backward; a link is free when its last tensor is
/// there.
double network_step(CostGraph const& graph, PlacementTask const& task,
                    std::vector<int> const& device) {
  auto const of = [&](int n) {
    return static_cast<std::size_t>(device[static_cast<std::size_t>(n)]);
  };
  std::vector<double> free(static_cast<std::size_t>(task.devices), 0);
  std::map<std::pair<std::size_t, std::size_t>, double> link;
  std::map<std::pair<int, std::size_t>, double> there;  // of an output on a device
  std::map<std::pair<int, std::size_t>, int> readers;
  std::vector<double> back(graph.node.size(), 0);  // when all gradients of an output are there
  auto const send = [&](int n, std::size_t from, std::size_t to) {
    double& end = link[{from, to}];
    return end = std::max(end, free[from]) + task.latency +
                 static_cast<double>(graph.node[static_cast<std::size_t>(n)].output_bytes) /
                     task.bandwidth;
  };
  for (int n = 0; n < graph.nodes(); ++n) {
    for (CostEdge const& edge : graph.edge) {
      if (edge.to == n) {
        free[of(n)] = std::max(free[of(n)], there.at({edge.from, of(n)}));
        ++readers[{edge.from, of(n)}];
      }
    }
    free[of(n)] += graph.node[static_cast<std::size_t>(n)].forward;
    there[{n, of(n)}] = free[of(n)];
    for (CostEdge const& edge : graph.edge) {
      if (edge.from == n && there.count({n, of(edge.to)}) == 0) {
        there[{n, of(edge.to)}] = send(n, of(n), of(edge.to));
      }
    }
  }
  for (int n = graph.nodes() - 1; n >= 0; --n) {
    auto const i = static_cast<std::size_t>(n);
    free[of(n)] = std::max(free[of(n)], back[i]) + graph.node[i].backward;
    for (CostEdge const& edge : graph.edge) {
      if (edge.to == n && --readers[{edge.from, of(n)}] == 0 && of(edge.from) != of(n)) {
        double& end = back[static_cast<std::size_t>(edge.from)];
        end = std::max(end, send(edge.from, of(n), of(edge.from)));
      }
    }
  }
  return *std::max_element(free.begin(), free.end());
}

TEST_CASE("a placement: the list schedule's times, and longer where links are shared") {
  std::mt19937 random{3};
  int longer = 0;
  for (int round = 0; round < 100; ++round) {
    CostGraph const graph = random_graph(random, 4 + round % 20);
    PlacementTask const task{.devices = 2 + round % 3, .bandwidth = 1, .latency = round % 2 * 1.0};
    std::vector<int> device;
    for (int n = 0; n < graph.nodes(); ++n) {
      device.push_back(below(random, task.devices));
    }
    Machine const machine = one_node(4, task.bandwidth, task.latency);
    PlacementTimeline const list = schedule_timeline(graph, task, device);
    SimulatedStep const alone =
        simulate_placement(machine, graph, list, task.devices, {.shares_links = false});
    CHECK(alone.makespan == list.step);
    for (SimulatedDevice const& one : alone.device) {
      for (auto const& [action, span] : one.action) {
        auto const node = static_cast<std::size_t>(action.stage);
        bool const forward = action.kind == ActionKind::forward;
        CHECK(span == (forward ? list.forward : list.backward)[node]);
      }
    }
    CHECK(alone.message.size() == list.transfer.size());
    SimulatedStep const shared = simulate_placement(machine, graph, list, task.devices);
    CHECK(shared.makespan >= alone.makespan * (1 - 1e-12));
    longer += shared.makespan > alone.makespan * (1 + 1e-12);
    PlacementTimeline const network = network_order(graph, device);
    SimulatedStep const engine =
        simulate_placement(machine, graph, network, task.devices, {.shares_links = false});
    CHECK(engine.makespan == network_step(graph, task, device));
    CHECK(engine.makespan >= step_lower_bound(graph, task) * (1 - 1e-9));
  }
  CHECK(longer > 10);
}

TEST_CASE("a placement whose output goes to two devices at once") {
  CostGraph const graph{
      {{.name = "a", .forward = 1, .backward = 1, .output_bytes = 10, .parameter_bytes = 4},
       {.name = "b", .forward = 1, .backward = 1},
       {.name = "c", .forward = 1, .backward = 1, .parameter_bytes = 8}},
      {{0, 1}, {0, 2}}};
  Machine machine = one_node(3, 2, 0);
  PlacementTimeline const order = network_order(graph, {0, 1, 2});
  CHECK(simulate_placement(machine, graph, order, 3).makespan == 1 + 10 + 2 + 10 + 1);
  SimulatedStep const step = simulate_placement(machine, graph, order, 3, {.shares_links = false});
  CHECK(step.makespan == 1 + 5 + 2 + 5 + 1);
  CHECK(step.device[0].memory == std::vector<MemoryPoint>{{0, 10}, {14, 0}});
  CHECK(step.device[0].idle_between_actions == 12);
  CHECK(step.stage_name == std::vector<std::string>{"a", "b", "c"});

  SimulatedStep const two = simulate_placement(machine, graph, order, 3, {.workers = 2});
  REQUIRE(two.device.size() == 6);  // each of the nodes has a worker, and both sum gradients
  CHECK(two.last_pass == 24);
  REQUIRE(two.device[5].reduction.size() == 1);
  CHECK(two.device[5].reduction[0].span.begin == 13);  // c has gone backward
  CHECK(two.makespan == 24 + all_reduce_seconds(machine, {2, 3}, 4));

  PlacementTimeline wrong = order;
  wrong.transfer.pop_back();
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_placement(machine, graph, wrong, 3)),
                       doctest::Contains("lacks a transfer"), ContractError);
  wrong = network_order({graph.node, {{0, 1}}}, {0, 0, 0});
  std::swap(wrong.forward[0], wrong.forward[1]);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(simulate_placement(machine, {graph.node, {{0, 1}}}, wrong, 3)),
      doctest::Contains("waits forever"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_placement(machine, graph, order, 2)),
                       doctest::Contains("devices count from 0"), ContractError);
}

}  // namespace simulator_placement_test
}  // namespace tandem::test
