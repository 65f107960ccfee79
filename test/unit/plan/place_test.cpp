// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/place.hpp>
#include <unit/plan/placement_reference.hpp>

namespace place_test {

using namespace tandem;

constexpr double infinity = std::numeric_limits<double>::infinity();

CostNode node(double forward, double backward, std::int64_t bytes = 0) {
  return {"", forward, backward, bytes, 0};
}

double bytes_of(CostGraph const& graph, PlacementTask const& task) {
  double sum = 0;
  for (CostNode const& n : graph.node) {
    sum += detail::bytes_on_device(n, task);
  }
  return sum;
}

/// The shortest step of all placements, each judged by the slow scheduler.
double shortest(CostGraph const& graph, PlacementTask const& task) {
  std::vector<int> device(graph.node.size());
  double best = infinity;
  for (bool more = true; more;) {
    if (detail::fits_memory(graph, task, device)) {
      best = std::min(best, slow_timeline(graph, task, device).step);
    }
    more = false;
    for (int& d : device) {
      if (++d < task.devices) {
        more = true;
        break;
      }
      d = 0;
    }
  }
  return best;
}

CostNode random_node(std::mt19937& random) {
  return {"", 1.0 + below(random, 8), 1.0 + below(random, 8), 1 + below(random, 3), 0};
}

/// A chain of @p blocks, each a fork into @p branches of two nodes and a node that joins them.
CostGraph blocks_graph(std::mt19937& random, int blocks, int branches) {
  CostGraph graph{{node(1, 1, 2)}, {}};
  for (int b = 0; b < blocks; ++b) {
    int const fork = graph.nodes() - 1;
    std::vector<int> ends;
    for (int i = 0; i < branches; ++i) {
      graph.edge.push_back({fork, graph.nodes()});
      graph.node.push_back(random_node(random));
      graph.edge.push_back({graph.nodes() - 1, graph.nodes()});
      graph.node.push_back(random_node(random));
      ends.push_back(graph.nodes() - 1);
    }
    for (int const e : ends) {
      graph.edge.push_back({e, graph.nodes()});
    }
    graph.node.push_back(node(1, 1, 2));
  }
  return graph;
}

TEST_CASE("equal to exhaustive search, 2 devices") {
  std::mt19937 random{1};
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    int const nodes = trial < 57 ? 1 + trial % 9 : 10 + trial % 3;
    CostGraph const graph = random_graph(random, nodes);
    PlacementTask const task{.devices = 2, .bandwidth = 1.0 + trial % 3, .latency = 0.25};
    GraphPlacement const placement = place_graph(graph, task, {.moves = 0});
    CHECK(placement.step == shortest(graph, task));
    CHECK(placement.step == schedule_step(graph, task, placement.device));
    CHECK(placement.lower_bound <= placement.step);
    CHECK(placement.step <= graph.time());
  }
}

TEST_CASE("equal to exhaustive search, 3 devices, and with little memory") {
  std::mt19937 random{2};
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    CostGraph const graph = random_graph(random, 1 + trial % (trial < 56 ? 6 : 7));
    PlacementTask task{.devices = 3, .bandwidth = 2};
    task.memory = trial % 2 == 0 ? -1 : static_cast<std::int64_t>(bytes_of(graph, task) / 2);
    double const best = shortest(graph, task);
    if (best == infinity) {
      CHECK_THROWS_AS((void)place_graph(graph, task, {.moves = 0}), ContractError);
    } else {
      GraphPlacement const placement = place_graph(graph, task, {.moves = 0});
      CHECK(placement.step == best);
      CHECK(schedule_step(graph, task, placement.device) == best);
    }
  }
}

// What place_graph() does where it cannot try all.
TEST_CASE("the search alone finds what exhaustive search finds") {
  std::mt19937 random{3};
  for (int trial = 0; trial < 80; ++trial) {
    CAPTURE(trial);
    PlacementTask task{.devices = 2 + trial % 2, .bandwidth = 2};
    CostGraph const graph = random_graph(random, task.devices == 2 ? 4 + trial % 5 : 4 + trial % 2);
    task.memory = trial % 4 < 2 ? -1 : static_cast<std::int64_t>(0.6 * bytes_of(graph, task));
    detail::PlacementSearch search{graph, task, 1};
    search.start(std::vector<int>(graph.node.size()));
    detail::SearchBudget budget{{.moves = 6000}};
    detail::search_placement(graph, task, budget, 0, 1, search);
    double const best = shortest(graph, task);
    CHECK((search.best_excess() == 0) == (best < infinity));
    if (best < infinity) {
      CHECK(search.best_step() == best);
      CHECK(schedule_step(graph, task, search.best()) == best);
    }
  }
}

TEST_CASE("greedy: the longest path first, to the device that ends first and has the memory") {
  CostGraph const graph{{node(1, 0, 1), node(1, 0, 1), node(3, 1, 3)}, {}};
  CHECK(detail::place_greedy(graph, {.devices = 2}) == std::vector<int>{1, 1, 0});
  CostGraph const chain{{node(1, 1, 2), node(1, 1, 2), node(1, 1, 2)}, {{0, 1}, {1, 2}}};
  CHECK(detail::place_greedy(chain, {.devices = 2}) == std::vector<int>{0, 0, 0});
  CHECK(detail::place_greedy(chain, {.devices = 2, .memory = 4}) == std::vector<int>{0, 0, 1});
  CHECK(detail::place_greedy(chain, {.devices = 2, .memory = 2}) == std::vector<int>{0, 1, 1});
}

TEST_CASE("a chain gains nothing") {
  CostGraph chain;
  for (int i = 0; i < 40; ++i) {
    chain.node.push_back(node(i / 7.0, i / 3.0, 0));  // sums differ by rounding
    if (i > 0) {
      chain.edge.push_back({i - 1, i});
    }
  }
  // No moves are given and yet it returns at once, since the bound is met.
  GraphPlacement const placement = place_graph(chain, {.devices = 2}, {.seconds = 1e9});
  CHECK(placement.speedup(chain) == 1);
  CHECK(placement.lower_bound == doctest::Approx(placement.step));
  CHECK(placement.device == std::vector<int>(40, 0));
}

TEST_CASE("independent nodes share the devices; two equal halves meet the bound") {
  CostGraph graph;
  for (int i = 0; i < 40; ++i) {
    graph.node.push_back(node(1, 2));
  }
  GraphPlacement const placement = place_graph(graph, {.devices = 4}, {.seconds = 1e9});
  CHECK(placement.step == 30);
  CHECK(placement.speedup(graph) == 4);
  CHECK(placement.lower_bound == 30);
}

TEST_CASE("large graphs: never slower than one device, the same again, better than greedy") {
  std::mt19937 random{4};
  int better = 0;
  for (int trial = 0; trial < 6; ++trial) {
    CAPTURE(trial);
    CostGraph const graph = blocks_graph(random, 6, 2 + trial % 3);
    PlacementTask const task{.devices = 2 + trial % 3, .bandwidth = 1.0 + trial};
    GraphPlacement const placement = place_graph(graph, task, {.seed = 5, .moves = 3000});
    GraphPlacement const again = place_graph(graph, task, {.seed = 5, .moves = 3000});
    CHECK(placement.device == again.device);
    CHECK(placement.step == again.step);
    CHECK(placement.step <= graph.time());
    CHECK(placement.lower_bound <= placement.step);
    CHECK(placement.step == schedule_step(graph, task, placement.device));
    GraphPlacement const greedy = place_graph(graph, task, {.moves = 0});
    CHECK(greedy.step <= schedule_step(graph, task, detail::place_greedy(graph, task)));
    CHECK(placement.step <= greedy.step);
    better += placement.step < greedy.step ? 1 : 0;
  }
  CHECK(better >= 3);
}

TEST_CASE("links that are slow are not used") {
  std::mt19937 random{5};
  CostGraph const graph = blocks_graph(random, 5, 3);
  GraphPlacement const placement =
      place_graph(graph, {.devices = 2, .bandwidth = 1e-3}, {.moves = 2000});
  CHECK(placement.step == graph.time());
  CHECK(placement.device == std::vector<int>(graph.node.size(), 0));
}

TEST_CASE("memory: a placement that fits, with hardly a byte left") {
  std::mt19937 random{6};
  for (int trial = 0; trial < 4; ++trial) {
    CAPTURE(trial);
    CostGraph const graph = blocks_graph(random, 6, 3);
    PlacementTask task{.devices = 2 + trial % 2, .bandwidth = 1};
    task.memory = static_cast<std::int64_t>(std::ceil(bytes_of(graph, task) / task.devices));
    GraphPlacement const placement = place_graph(graph, task, {.moves = 4000});
    CHECK(placement.step < infinity);
    CHECK(schedule_step(graph, task, placement.device) == placement.step);
  }
}

TEST_CASE("errors name the bytes") {
  CostGraph graph{{{"first", 1, 1, 10, 5}, {"second", 1, 1, 20, 0}, {"third", 1, 1, 0, 5}}, {}};
  auto const throws = [&](PlacementTask const& task, char const* text,
                          PlaceOptions const& options = {}) {
    CHECK_THROWS_WITH_AS((void)place_graph(graph, task, options), doctest::Contains(text),
                         ContractError);
  };
  throws({.memory = 24}, "node 'first' needs 25 bytes, a device has 24");
  throws({.memory = 29}, "the nodes need 60 bytes, 2 devices have 29 each");
  throws({.memory = 34}, "at most 34 bytes, the best exceeds that by 1");
  throws({.devices = 0}, ".devices must be at least 1");
  throws({}, ".seconds must be at least 0", {.seconds = -1});
  throws({}, ".moves must be at least 0", {.moves = -2});
  CHECK(place_graph(graph, {.memory = 35}).step == 4);
  CHECK(place_graph({}, {}).step == 0);
  CHECK(place_graph(graph, {.devices = 1}).speedup(graph) == 1);
}

}  // namespace place_test
