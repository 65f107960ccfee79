// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/place/critical_path.hpp>
#include <tandem/plan/place/ordered.hpp>
#include <tandem/plan/place/place.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/strategy/types/model_parallel.hpp>

#include <tiny_network.hpp>

namespace worker_placed_test {

using namespace tandem;

CostNode node(double forward, double backward, std::int64_t bytes = 0) {
  return {.name = "", .forward = forward, .backward = backward, .output_bytes = bytes};
}

/// Times and bytes below these, one draw a statement.
CostNode random_node(std::mt19937& random, unsigned forward, unsigned backward, unsigned bytes) {
  CostNode own;
  own.forward = static_cast<double>(random() % forward);
  own.backward = static_cast<double>(random() % backward);
  own.output_bytes = static_cast<std::int64_t>(random() % bytes);
  return own;
}

/// a, then b beside c, then d.
CostGraph diamond() {
  return {{node(1, 2, 10), node(4, 8, 5), node(3, 6, 7), node(1, 1)},
          {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};
}

TEST_CASE("branches at the same time, tensors between them") {
  PlacementTask task{.devices = 2, .bandwidth = 1e18};
  CHECK(ordered_step(diamond(), task, {0, 0, 0, 0}) == doctest::Approx(26));
  CHECK(ordered_step(diamond(), task, {0, 0, 1, 0}) == doctest::Approx(17));
  task.bandwidth = 10;  // c is there at 1 + 1 + 3 + 0.7; then d, back through d, b and a
  CHECK(ordered_step(diamond(), task, {0, 0, 1, 0}) == doctest::Approx(5.7 + 1 + 1 + 8 + 2));
  task.latency = 1;  // c at 1 + 2 + 3 + 1.7; then d, back through d, c and a
  CHECK(ordered_step(diamond(), task, {0, 0, 1, 0}) ==
        doctest::Approx(7.7 + 1 + 1 + 1.7 + 6 + 2 + 2));
}

TEST_CASE("a link carries one tensor at a time, and a tensor once to a device") {
  CostGraph const graph{{node(1, 0, 4), node(1, 0, 4), node(1, 0), node(1, 0)},
                        {{0, 2}, {1, 2}, {0, 3}}};
  PlacementTask const task{.devices = 2, .bandwidth = 1};
  // Made at 1 and 2, there at 5 and 9; both readers, then gradients of 4 s each, of the last node's
  // source not before the first node's reader on that device has gone backward.
  CHECK(ordered_step(graph, task, {0, 0, 1, 1}) == doctest::Approx(11 + 4 + 4));
}

CostGraph random_graph(std::mt19937& random, int nodes) {
  CostGraph graph;
  for (int i = 0; i < nodes; ++i) {
    graph.node.push_back(random_node(random, 5, 9, 4));
    for (int from = std::max(0, i - 4); from < i; ++from) {
      if (random() % 2 == 0) {
        graph.edge.push_back({from, i});
      }
    }
  }
  return graph;
}

using Net = test::TinyNet;
inline constexpr auto branches = place<Net>({{"4.0", 1}, {"4.2", 1}, {"5", 1}});
inline constexpr auto body = place<Net>({{"3.body", 1}, {"4.1", 2}, {"6", 1}});
inline constexpr auto later = place<Net>({{"4", 1}, {"4.1", 0}});

/// The table that the engine runs, with random costs of nodes and free transfers.
template <auto const& Table>
void check_engine(unsigned seed) {
  using Cut = typename ModelParallel<Placed<Table>>::template Cut<Net>;
  std::mt19937 random{seed};
  CostGraph graph;
  std::vector<int> device;
  std::vector<ActionCosts> of_stage(static_cast<std::size_t>(Cut::map.stages),
                                    {.forward = 0, .backward = 0});
  for (int n = 0; n < tandem::graph<Net>.nodes; ++n) {
    CostNode const own = n == 0 ? node(0, 0) : random_node(random, 50, 90, 1);
    graph.node.push_back(own);
    device.push_back(Table.places.device[n]);
    of_stage[Cut::partition.part[n]].forward += static_cast<Ticks>(own.forward);
    of_stage[Cut::partition.part[n]].backward += static_cast<Ticks>(own.backward);
    Node const& reader = tandem::graph<Net>.node[n];
    for (int e = reader.first_edge; e < reader.first_edge + reader.edges; ++e) {
      graph.edge.push_back({tandem::graph<Net>.source[e], n});
    }
  }
  auto const timeline = simulate(Cut::table, Cut::map, {.of_stage = of_stage.data()});
  CHECK(ordered_step(graph, {.devices = Table.devices, .bandwidth = 1e18}, device) ==
        doctest::Approx(static_cast<double>(timeline.makespan)));
}

TEST_CASE("the order is that of the engine's table") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    check_engine<branches>(seed);
    check_engine<body>(seed);
    check_engine<later>(seed);
  }
}

TEST_CASE("a device for each node, of those that there are") {
  CHECK_THROWS_AS(static_cast<void>(ordered_step(diamond(), {.devices = 2}, {0, 0, 2, 0})),
                  ContractError);
  CHECK_THROWS_AS(static_cast<void>(ordered_step(diamond(), {.devices = 2}, {0, 0})),
                  ContractError);
}

TEST_CASE("no order is below the bound, and one device takes the sum") {
  std::mt19937 random{1};
  for (int round = 0; round < 200; ++round) {
    CostGraph const graph = random_graph(random, 2 + static_cast<int>(random() % 20));
    PlacementTask const task{.devices = 3, .bandwidth = 1, .latency = 0.5};
    std::vector<int> device(graph.node.size());
    CHECK(ordered_step(graph, task, device) == doctest::Approx(graph.time()));
    for (int& own : device) {
      own = static_cast<int>(random() % 3);
    }
    CHECK(ordered_step(graph, task, device) >= step_lower_bound(graph, task) - 1e-9);
    CHECK(ordered_step(graph, {.devices = 3, .bandwidth = 1e18}, device) >=
          critical_path(graph) - 1e-9);
  }
}

TEST_CASE("a placement for the order is never slower than its start, and keeps within memory") {
  std::mt19937 random{3};
  int faster = 0;
  int bounded = 0;  // by memory
  for (int round = 0; round < 30; ++round) {
    CostGraph const graph = random_graph(random, 3 + static_cast<int>(random() % 20));
    PlacementTask task{.devices = 2, .bandwidth = 4};
    GraphPlacement const listed = place_graph(graph, task, {.moves = 200});
    std::vector<int> const device = place_ordered(graph, task, listed.device);
    double const before = ordered_step(graph, task, listed.device);
    double const after = ordered_step(graph, task, device);
    CHECK(after <= before);
    faster += after < before ? 1 : 0;
    double bytes[2] = {};
    for (std::size_t n = 0; n < listed.device.size(); ++n) {
      bytes[listed.device[n]] += detail::bytes_on_device(graph.node[n], task);
    }
    task.memory = static_cast<std::int64_t>(std::max(bytes[0], bytes[1]));
    std::vector<int> const within = place_ordered(graph, task, listed.device);
    CHECK(detail::fits_memory(graph, task, within));
    CHECK(ordered_step(graph, task, within) <= before);
    bounded += within != device ? 1 : 0;
  }
  CHECK(faster > 0);
  CHECK(bounded > 0);
  CHECK_THROWS_AS(static_cast<void>(place_ordered(diamond(), {.devices = 2}, {0, 0, 2, 0})),
                  ContractError);
}

TEST_CASE("without time left a placement is as good as its start") {
  std::mt19937 random{5};
  CostGraph const graph = random_graph(random, 400);
  PlacementTask const task{.devices = 64, .bandwidth = 4};
  std::vector<int> const start(graph.node.size());
  std::vector<int> const device = place_ordered(graph, task, start, 0);  // 10^5 steps to the end
  CHECK(ordered_step(graph, task, device) <= ordered_step(graph, task, start));
}

TEST_CASE("a search for the order ends when its steps are spent") {
  std::mt19937 random{5};
  CostGraph const graph = random_graph(random, 40);
  PlacementTask const task{.devices = 2, .bandwidth = 4};
  std::vector<int> const start(graph.node.size());
  double before = ordered_step(graph, task, start);
  bool shorter = false;
  for (long const steps : {0L, 1L, 10L, 10'000L}) {
    std::vector<int> device = start;
    detail::settle(graph, detail::placed_links(task), device, detail::SettleLimit{steps});
    CHECK((steps > 0 || device == start));
    double const after = ordered_step(graph, task, device);
    CHECK(after <= before);
    shorter = shorter || after < before;
    before = after;
  }
  CHECK(shorter);
}

TEST_CASE("on several nodes each two devices have the link between them") {
  Machine machine = dgx1_v100();
  machine.devices_per_node = machine.adapters = 2;
  machine.inside = {.bandwidth = 4, .latency = 0.25};
  machine.between = {.bandwidth = 1, .latency = 0.5};
  std::mt19937 random{2};
  for (int round = 0; round < 100; ++round) {
    CostGraph const graph = random_graph(random, 2 + static_cast<int>(random() % 20));
    std::vector<int> device(graph.node.size());
    for (int& own : device) {
      own = static_cast<int>(random() % 4);
    }
    auto const ordered = [&](bool one_port) {
      detail::PlacedLinks const links = detail::placed_links(machine, 4, one_port);
      return detail::OrderedStep{graph, links}.step(device);
    };
    CHECK(ordered(false) ==
          doctest::Approx(simulate_placement(machine, graph, network_order(graph, device), 4,
                                             {.shares_links = false})
                              .last_pass));
    CHECK(ordered(true) >= ordered(false) * (1 - 1e-12));
  }
}

TEST_CASE("a chain has no work for a second device; GoogLeNet has, and a declaration") {
  Machine const machine = dgx1_v100();
  CostGraph const chain{{node(1, 2), node(3, 4), node(5, 6)}, {{0, 1}, {1, 2}}};
  StrategyValue const two = detail::placed_worker(2);
  CHECK(placed_worker_step(two, chain, machine, 3).problem ==
        "the best placement found has work for 1 device only");

  using Google = models::GoogLeNet<10>;
  CostGraph const graph = static_costs(tandem::graph<Google>, machine, MathPrecision::fp32, 256);
  WorkerStep const found = placed_worker_step(two, graph, machine, 3);
  REQUIRE(found.problem.empty());
  CHECK(found.placement.size() == graph.node.size());
  LinkSpeed const link = machine.inside;
  PlacementTask const pair{.bandwidth = link.bandwidth, .latency = link.latency};
  CHECK(found.seconds ==
        doctest::Approx(ordered_step(graph, pair, found.placement)).epsilon(1e-12));
  CHECK(found.seconds < 0.9 * graph.time());
  for (std::size_t n = 0; n < found.placement.size(); ++n) {  // no node gains elsewhere
    std::vector<int> moved = found.placement;
    moved[n] = 1 - moved[n];
    CHECK(ordered_step(graph, pair, moved) >= found.seconds * (1 - detail::least_gain));
  }
  CHECK(found.seconds == doctest::Approx(graph.time() / (2 * (1 - found.idle))));
  CHECK(*std::max_element(found.done.begin(), found.done.end()) == found.seconds);
  double bytes = 0;
  for (CostNode const& each : graph.node) {
    bytes += static_cast<double>(each.parameter_bytes);
  }
  CHECK(found.gradient_bytes[0] + found.gradient_bytes[1] == doctest::Approx(bytes));

  // Four devices start from what two have, too, so that they are faster, or have no work for all.
  StrategyValue const four = detail::placed_worker(4);
  int working = 0;
  for (Machine const& many : {dgx_h100(), dgx_a100(), pcie_box()}) {
    CostGraph const own = static_costs(tandem::graph<Google>, many, MathPrecision::fp32, 256);
    WorkerStep const more = placed_worker_step(four, own, many, 3);
    if (more.problem.empty()) {
      ++working;
      CHECK(more.seconds < placed_worker_step(two, own, many, 3).seconds);
    } else {
      CHECK(more.problem.find("has work for 3 devices only") != std::string::npos);
    }
  }
  CHECK(working >= 1);

  SearchTask const task{.machine = machine,
                        .batch_per_worker = 256,
                        .memory = 1e18,
                        .most_devices_a_worker = 2,
                        .network = tandem::graph<Google>};
  WorkerSteps const steps{task, [&](int samples) {
                            return static_costs(tandem::graph<Google>, machine, MathPrecision::fp32,
                                                samples);
                          }};
  SearchResult result = search_all(steps, EpochCurve::measured({{.batch = 1, .epochs = 1}}), {4});
  std::erase_if(result.of[0].plans,
                [](Plan const& plan) { return plan.worker.cut != CutKind::placed; });
  REQUIRE(result.of[0].plans.size() == 1);
  std::string const text = search_text(result);
  CHECK(text.find("Hybrid<DataParallel<2>, ModelParallel<Placed<2 devices>>>") != text.npos);
  CHECK(text.find("\ninline constexpr auto table = place<Net>({{\"") != text.npos);
  CHECK(text.find(
            "}});\nusing Strategy = Hybrid<DataParallel<2>, ModelParallel<Placed<table>>>;\n") !=
        text.npos);
  CHECK(search_json(result).find("\"table\": \"inline constexpr auto table") != std::string::npos);
  result.network.reset();  // a graph from a file has no paths
  CHECK(search_text(result).find("\n// table: place<Net>") != std::string::npos);
  CHECK(search_json(result).find("\"table\"") == std::string::npos);
}

}  // namespace worker_placed_test
