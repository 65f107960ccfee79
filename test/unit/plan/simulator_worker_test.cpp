// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/search/simulate_worker.hpp>
#include <unit/plan/simulator_cases.hpp>

#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/writer.hpp>

namespace tandem::test {
namespace simulator_worker_test {

using namespace simulator_cases;

TEST_CASE("workers sum the gradients of a stage when its last backward pass has ended") {
  Machine machine = one_node(2, 4, 0);
  machine.between = {.bandwidth = 2, .latency = 1};
  RuntimeMap const map = make_map("gpipe", 2);
  ActionRows const table = lower(make_schedule("gpipe", 2, 2), map);
  StageLoad const load{.forward = 1, .backward = 2, .gradients = {{16, 1}, {8, 0}}};
  SimulatedCosts const costs = costs_of(map, load, 0);
  SimulatedStep const step = simulate_on(machine, table, map, costs, {.workers = 3});
  REQUIRE(step.device.size() == 6);
  double const first = all_reduce_seconds(machine, {3, 2}, 16);
  double const second = all_reduce_seconds(machine, {3, 2}, 8);
  for (std::size_t d = 0; d < 6; ++d) {
    double const whole = d % 2 == 0 ? 9 : 7;
    REQUIRE(step.device[d].reduction.size() == 2);
    CHECK(step.device[d].action.back().span.end == (d % 2 == 0 ? 9 : 7));
    CHECK(step.device[d].reduction[0].span == PlacementSpan{whole - 1, whole - 1 + first});
    CHECK(step.device[d].reduction[1].span ==
          PlacementSpan{whole - 1 + first, whole - 1 + first + second});
  }
  CHECK(step.last_pass == 9);
  CHECK(step.makespan == 8 + first + second);
  CHECK(step.device[1].idle_in_step == step.makespan - 6);
  CHECK(simulate_on(machine, table, map, costs).makespan == 9);  // one worker sums nothing

  RuntimeMap const two = make_map("chimera", 2);
  SimulatedStep const pair =
      simulate_on(machine, lower(make_schedule("chimera", 2, 2), two), two,
                  costs_of(two, {.forward = 1, .backward = 1, .gradients = {{8, 0}}}, 0));
  REQUIRE(pair.device[0].reduction.size() == 2);  // of both parts, 8 bytes at 4 a second
  CHECK(pair.device[0].reduction[1].span.end == pair.makespan);
  CHECK(pair.makespan >= pair.last_pass + 2);
}

TEST_CASE("copies whose parts do not end from the last to the first are summed when rows end") {
  RuntimeMap const map = make_map("chimera", 2);  // stages 0 and 3, or 1 and 2, on a device
  ActionRows rows(2);
  auto const add = [&](int stage, int index) {
    std::vector<Action>& row = rows[static_cast<std::size_t>(map.device[stage])];
    for (ActionKind const kind : {ActionKind::forward, ActionKind::backward}) {
      row.push_back({.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index});
    }
  };
  for (int const stage : {0, 1, 2, 3}) {
    add(stage, stage / 2);
  }
  SimulatedStep const step =
      simulate_on(one_node(2, 4, 0), lower(rows, map), map,
                  costs_of(map, {.forward = 1, .backward = 2, .gradients = {{8, 0}}}, 0));
  REQUIRE(step.device[0].action.back().span.end == 9);
  REQUIRE(step.device[1].action.back().span.end == 11);
  for (SimulatedDevice const& device : step.device) {
    REQUIRE(device.reduction.size() == 2);
    CHECK(device.reduction[0].action.stage % 2 == 1);  // as ranks do: the last part first
    CHECK(device.reduction[0].span.begin == 11);
    CHECK(device.reduction[1].span.begin == device.reduction[0].span.end);
  }
}

TEST_CASE("a worker of the search: its step, and of several workers that of its plan") {
  CostGraph const graph = chain_graph(8);
  Machine machine = two_cpus();
  machine.nodes = 0;
  machine.devices_per_node = 8;
  machine.inside = machine.between = {.bandwidth = 5e8, .latency = 1e-6};
  SearchTask const task{.machine = machine, .batch_per_worker = 16, .most_devices_a_worker = 4};
  WorkerSteps const steps{task, [&](int) { return graph; }};
  EpochCurve const epochs = EpochCurve::measured({{16, 1}, {4096, 2}});
  for (WorkerSteps::One const& one : steps.all()) {
    CAPTURE(one.strategy.schedule);
    CAPTURE(one.strategy.batching.microbatches);
    Plan const plan = make_plan(steps, one, epochs, 8);
    auto const simulated = [&](SimulationOptions const& options) {
      return simulate_worker(plan.worker, plan.step, graph, machine, options);
    };
    if (!plan.feasible()) {
      CHECK_THROWS_WITH_AS(static_cast<void>(simulated({})), doctest::Contains("it cannot run, "),
                           ContractError);
      continue;
    }
    SimulatedStep const alone = simulated({});
    bool const many_steps = plan.late_gradients || plan.worker.post_validated;
    SimulatedStep const step = simulated({.workers = many_steps ? 1 : plan.workers});
    CHECK(simulated({.shares_links = false}).last_pass <= alone.last_pass * (1 + 1e-12));
    double most = 0;
    for (SimulatedDevice const& device : step.device) {
      most = std::max(most, device.peak_bytes);
    }
    CHECK(most > 0);
    CHECK(most <= one.step.memory);
    if (many_steps) {
      CHECK_THROWS_WITH_AS(static_cast<void>(simulated({.workers = 2})),
                           doctest::Contains("give one worker"), ContractError);
      continue;
    }
    CHECK(alone.last_pass == plan.step.seconds);
    CHECK(step.last_pass == doctest::Approx(plan.step.seconds).epsilon(1e-12));
    if (detail::has_two_copies(plan.worker.schedule)) {  // which then sum their gradients
      CHECK(alone.makespan > alone.last_pass);
      continue;
    }
    CHECK(alone.idle() == doctest::Approx(plan.step.idle).epsilon(1e-9));
    if (plan.worker.stages_a_device == 1) {
      CHECK(step.makespan == doctest::Approx(plan.time.step).epsilon(1e-9));
    }
  }
}

TEST_CASE("a table that was read, on a network: the step of the same worker") {
  CostGraph const graph = chain_graph(9);
  Machine const machine = one_node(4, 1e9, 1e-6);
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 4, 8);
  WorkerStep const step = worker_step(worker, graph, machine, 3);
  RuntimeMap const map = make_map("one_f_one_b", 4);
  std::string const csv = to_csv(make_schedule("one_f_one_b", 4, 8));
  CheckedTable const read = check_table(read_table_csv(csv, "table.csv"), 1, 1, "table.csv");
  SimulatedStep const own =
      simulate_on(machine, read.lowered, read.map, chain_costs(read.map, graph));
  CHECK(own.makespan == simulate_worker(worker, step, graph, machine).makespan);
  CHECK(own.makespan == step.seconds);
  CHECK_THROWS_WITH_AS(static_cast<void>(chain_costs(map, chain_graph(3))),
                       doctest::Contains("the network has only 3 parts for 4 stages"),
                       ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(chain_costs(map, graph, {4, 5})),
                       doctest::Contains("give a size for each stage"), ContractError);
}

TEST_CASE("a placed worker: its step in the order of the engine, and its memory") {
  CostGraph graph = chain_graph(1);  // then two branches, and a node that reads both
  for (int n = 1; n < 6; ++n) {
    graph.node.push_back(graph.node[0]);
  }
  graph.edge = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 5}};
  Machine machine = one_node(8, 1e9, 1e-6);
  StrategyValue const worker = detail::placed_worker(2);
  WorkerStep const step = placed_worker_step(worker, graph, machine, 3);
  REQUIRE(step.problem.empty());
  SimulatedStep const one = simulate_worker(worker, step, graph, machine);
  CHECK(one.makespan == step.seconds);
  CHECK(one.message.size() == 4);
  SimulatedStep const two = simulate_worker(worker, step, graph, machine, {.workers = 2});
  CHECK(two.last_pass == doctest::Approx(step.seconds).epsilon(1e-12));
  double last = 0;
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(two.device[d].peak_bytes <= 6 * 100'000);
    last =
        std::max(last, step.done[d] + all_reduce_seconds(machine, {2, 2}, step.gradient_bytes[d]));
  }
  CHECK(two.makespan == doctest::Approx(last));
}

}  // namespace simulator_worker_test
}  // namespace tandem::test
