// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <best_step.hpp>
#include <profiles_folder.hpp>

#include <tandem/plan/cost/pipedream_graph.hpp>
#include <tandem/plan/place/critical_path.hpp>

namespace critical_path_test {

using namespace tandem;
using best_step::best_step;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr PlacementTask free_transfers{.devices = 2, .bandwidth = infinity};

CostNode node(double forward, double backward, std::int64_t bytes = 0) {
  return {.name = "", .forward = forward, .backward = backward, .output_bytes = bytes};
}

/// a, then b beside c, then d.
CostGraph diamond() {
  return {{node(1, 2, 10), node(4, 8, 5), node(3, 6, 7), node(1, 1)},
          {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};
}

CostGraph random_graph(std::mt19937& random, int nodes) {
  CostGraph graph;
  auto const density = 1 + random() % 4;
  for (int i = 0; i < nodes; ++i) {
    auto const forward = static_cast<double>(random() % 5);
    graph.node.push_back(node(forward, random() % 4 == 0 ? 0 : 2 * forward, random() % 6));
    for (int from = 0; from < i; ++from) {
      if (random() % 4 < density && (i - from < 4 || random() % 3 == 0)) {
        graph.edge.push_back({from, i});
      }
    }
  }
  return graph;
}

TEST_CASE("critical path") {
  CHECK(critical_path({}) == 0);
  CHECK(critical_path({{node(1, 2), node(3, 4)}, {}}) == 7);
  CHECK(critical_path({{node(1, 2), node(3, 4)}, {{0, 1}}}) == 10);
  CHECK(critical_path(diamond()) == 17);
}

TEST_CASE("a chain gains nothing from a second device") {
  CostGraph const chain{{node(1, 2), node(3, 4), node(5, 6)}, {{0, 1}, {1, 2}}};
  CHECK(step_lower_bound(chain, free_transfers) == 21);
  CostGraph skip = chain;  // what is read again later is no branch
  skip.edge = {{0, 1}, {0, 2}, {1, 2}};
  CHECK(step_lower_bound(skip, free_transfers) == 21);
}

TEST_CASE("windows add up where the longest path and the work alone say less") {
  // Three of weight 4 beside each other, then a chain of 6: two devices need 8 + 6.
  CostGraph const graph{{node(0, 1), node(4, 4), node(4, 4), node(4, 4), node(6, 6)},
                        {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}}};
  CHECK(critical_path(graph) == 21);
  CHECK(graph.time() / 2 == 18.5);
  CHECK(step_lower_bound(graph, free_transfers) == 12 + 6 + 6 + 1);
  CHECK(step_lower_bound(graph, {.devices = 1}) == graph.time());
  CHECK(step_lower_bound(graph, {.devices = 3, .bandwidth = infinity}) == 21);
}

TEST_CASE("what is sent from one device to another delays a window") {
  auto const bound = [](double latency) {
    return step_lower_bound(diamond(), {.devices = 2, .bandwidth = infinity, .latency = latency});
  };
  CHECK(bound(0) == 17);
  CHECK(bound(0.5) == 5 + (3 + 1) + (6 + 2));  // c goes: it ends before b in spite of 0.5 s
  CHECK(bound(2) == 5 + (3 + 2) + (6 + 2));
  CHECK(bound(3.5) == 5 + (3 + 3.5) + (6 + 3.5));
  CHECK(bound(100) == diamond().time());
  CHECK(step_lower_bound(diamond(), {.devices = 2, .bandwidth = 1}) == diamond().time());
}

TEST_CASE("inputs that cost nothing, and an auxiliary head, do not hide a narrow place") {
  CostGraph graph{{node(0, 0), node(0, 1), node(4, 4), node(4, 4), node(4, 4), node(6, 6)},
                  {{0, 5}, {1, 2}, {1, 3}, {1, 4}, {2, 5}, {3, 5}, {4, 5}}};
  CHECK(step_lower_bound(graph, free_transfers) == 25);
  // A head on the first node: the windows of the rest are still there without it.
  graph = {{node(0, 1), node(4, 4), node(4, 4), node(4, 4), node(6, 6), node(1, 1)},
           {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}, {0, 5}}};
  CHECK(step_lower_bound(graph, free_transfers) == 25);
}

// Not one schedule of all placements and orders is shorter.
int count_reached(int rounds, int largest, int devices, bool free, unsigned seed) {
  std::mt19937 random{seed};
  int reached = 0;
  for (int round = 0; round < rounds; ++round) {
    CostGraph const graph = random_graph(random, 2 + static_cast<int>(random() % (largest - 1)));
    PlacementTask task{.devices = devices, .bandwidth = infinity};
    if (!free) {
      task.bandwidth = 0.5 * static_cast<double>(1 + random() % 8);
      task.latency = static_cast<double>(random() % 3);
    }
    CAPTURE(round);
    double const bound = step_lower_bound(graph, task);
    CHECK(bound >= critical_path(graph) - 1e-9);
    CHECK(bound >= graph.time() / devices - 1e-9);
    CHECK(bound <= graph.time() + 1e-9);
    CHECK(best_step(graph, task, bound - 1e-9) == bound - 1e-9);
    if (round % 4 == 0) {
      reached += best_step(graph, task, bound + 1e-9) < bound + 1e-9 ? 1 : 0;
    }
  }
  return reached;
}

TEST_CASE("no placement and no order is below the bound, and some reach it") {
  CHECK(count_reached(400, 8, 2, true, 1) >= 20);
  CHECK(count_reached(200, 8, 3, true, 2) >= 10);
  CHECK(count_reached(200, 6, 2, false, 3) >= 10);
  CHECK(count_reached(100, 5, 3, false, 4) >= 5);
}

TEST_CASE("numbers out of range") {
  CHECK_THROWS_WITH_AS(static_cast<void>(critical_path({{node(-1, 0)}, {}})),
                       doctest::Contains("times and sizes of a node must be"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(step_lower_bound({{node(1, 0)}, {{0, 0}}}, {})),
                       doctest::Contains("an edge must lead from a node to one with a higher"),
                       ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(step_lower_bound(diamond(), {.devices = 0})),
                       doctest::Contains(".devices must be at least 1"), ContractError);
}

TEST_CASE("PipeDream's own profiles") {
  std::string const folder = test::profiles_folder();
  if (folder.empty()) {
    return;
  }
  CostGraph const vgg = read_pipedream_graph(folder + "vgg16.txt");
  CHECK(critical_path(vgg) == doctest::Approx(vgg.time()).epsilon(1e-12));
  CHECK(step_lower_bound(vgg, {}) == doctest::Approx(vgg.time()).epsilon(1e-12));
  CostGraph const resnet = read_pipedream_graph(folder + "resnet50.txt");
  CHECK(std::abs(resnet.time() / critical_path(resnet) - 1.105) < 0.0005);
  double const unhindered = step_lower_bound(resnet, free_transfers);
  CHECK(unhindered >= critical_path(resnet) * (1 - 1e-12));
  CHECK(step_lower_bound(resnet, {}) >= unhindered);
  CostGraph const gnmt = read_pipedream_graph(folder + "gnmt.txt");
  CHECK(std::abs(gnmt.time() / critical_path(gnmt) - 1.004) < 0.0005);
  MESSAGE("bounds of the speedup at 25 GB/s: resnet50 "
          << resnet.time() / step_lower_bound(resnet, {}) << ", without transfers "
          << resnet.time() / unhindered << "; gnmt " << gnmt.time() / step_lower_bound(gnmt, {}));
}

TEST_CASE("a bound for many sinks") {  // 10^10 steps if all were looked at alone
  CostGraph graph;
  graph.node.assign(50'001, {.forward = 1, .backward = 1});
  for (int n = 1; n < graph.nodes(); ++n) {
    graph.edge.push_back({0, n});
  }
  CHECK(step_lower_bound(graph, {.devices = 2}) == 2 + 50'000);
}

}  // namespace critical_path_test
