// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/plan/simulate/symmetric.hpp>
#include <unit/plan/simulator_cases.hpp>

namespace tandem::test {
namespace simulator_symmetric_test {

using namespace simulator_cases;

bool same(SimulatedAction const& a, SimulatedAction const& b) {
  return a.action == b.action && a.span == b.span;
}

bool same(std::vector<SimulatedAction> const& a, std::vector<SimulatedAction> const& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i) {
    all = same(a[i], b[i]);
  }
  return all;
}

/// Whether each rank of @p all does what its like of @p some does, bit for bit.
void check_same(SymmetricStep const& some, SimulatedStep const& all) {
  REQUIRE(some.mesh == all.mesh);
  CHECK(some.step.makespan == all.makespan);
  CHECK(some.step.last_pass == all.last_pass);
  CHECK(some.idle() == doctest::Approx(all.idle()).epsilon(1e-12));
  std::vector<int> ranks(some.step.device.size());
  for (int rank = 0; rank < all.mesh.size(); ++rank) {
    CAPTURE(rank);
    int const like = some.like(rank);
    REQUIRE(like < some.step.mesh.size());
    ++ranks[static_cast<std::size_t>(like)];
    SimulatedDevice const& a = some.step.device[static_cast<std::size_t>(like)];
    SimulatedDevice const& b = all.device[static_cast<std::size_t>(rank)];
    CHECK(same(a.action, b.action));
    CHECK(same(a.reduction, b.reduction));
    CHECK(a.memory == b.memory);
    CHECK(a.peak_bytes == b.peak_bytes);
    CHECK(a.busy == b.busy);
    CHECK(a.idle_in_step == b.idle_in_step);
  }
  for (std::size_t d = 0; d < ranks.size(); ++d) {
    CHECK(ranks[d] == some.count(static_cast<int>(d) / all.mesh.extent(Axis::model)));
  }
}

double part_of(std::mt19937& random, double most) {
  return most * (1 + below(random, 1000)) / 1000;
}

TEST_CASE("random tables, costs, machines, workers: all ranks as if all were simulated") {
  std::vector<One> const schedules = all_schedules();
  std::mt19937 random{20250101};
  int fewer = 0;
  for (int round = 0; round < 300; ++round) {
    One const& one =
        schedules[static_cast<std::size_t>(below(random, static_cast<int>(schedules.size())))];
    RuntimeMap const map = make_map(one.name, one.devices, one.chunks);
    ActionRows const table = one.table(map);
    SimulatedCosts costs = costs_of(map, {}, 0);
    for (StageLoad& stage : costs.stage) {
      stage = {.forward = part_of(random, 1),
               .input_gradient = part_of(random, 1),
               .weight_gradient = part_of(random, 1),
               .kept_bytes = part_of(random, 10),
               .gradients = {{part_of(random, 8), part_of(random, 0.1)}, {part_of(random, 8), 0}}};
    }
    for (double& bytes : costs.message_bytes) {
      bytes = below(random, 5) == 0 ? 0 : part_of(random, 6);
    }
    int const per_node = 1 + below(random, 9);
    Machine machine = one_node(per_node, 4, part_of(random, 0.1));
    machine.adapters = 1 + below(random, per_node);
    machine.between = {.bandwidth = part_of(random, 3), .latency = part_of(random, 0.2)};
    SimulationOptions const options{.workers = 1 + below(random, 40 / one.devices + 4),
                                    .depth = 1 + below(random, 3),
                                    .shares_links = below(random, 6) > 0};
    CAPTURE(one.name);
    CAPTURE(one.devices);
    CAPTURE(per_node);
    CAPTURE(options.workers);
    SymmetricStep const some = simulate_symmetric(machine, table, map, costs, options);
    fewer += some.simulated() < some.workers() ? 1 : 0;
    check_same(some, simulate_on(machine, table, map, costs, options));
  }
  CHECK(fewer > 100);  // else nothing was left out
}

TEST_CASE("65,536 devices") {
  RuntimeMap const map = make_map("one_f_one_b", 12);
  ActionRows const table = lower(make_schedule("one_f_one_b", 12, 24), map);
  SimulatedCosts const costs =
      costs_of(map, {.forward = 1, .backward = 2, .kept_bytes = 1, .gradients = {{8, 0}}}, 1);
  Machine const machine = one_node(8, 4, 0.01);  // two workers on three nodes
  SymmetricStep const some = simulate_symmetric(machine, table, map, costs, {.workers = 5461});
  CHECK(some.mesh.size() == 65'532);
  CHECK(some.period == 2);
  CHECK(some.simulated() == 3);
  CHECK(some.count(0) == 2730);
  CHECK(some.count(2) == 1);
  CHECK(some.like(0) == 0);
  CHECK(some.like(65'531) == 35);
  CHECK(some.step.device[0].reduction.size() == 1);
  CHECK(some.step.makespan > some.step.last_pass);
  std::string const text = symmetric_text(some);
  CHECK(text.find("5461 workers, 65532 devices; 3 workers tell of all, of which 2730 do what the "
                  "first does\nmakespan ") == 0);
  std::string const json = symmetric_json(some);
  CHECK(json.find("{\n  \"workers\": 5461,\n  \"makespan\": ") == 0);
  CHECK(json.find("{\"ranks\": 2730, \"busy\": 72,") != json.npos);
}

TEST_CASE("after how many workers they stand as the first did") {
  CHECK(detail::node_period(1, 8) == 1);
  CHECK(detail::node_period(4, 8) == 1);  // whole workers on a node
  CHECK(detail::node_period(16, 8) == 1);
  CHECK(detail::node_period(3, 8) == 8);
  CHECK(detail::node_period(12, 8) == 2);
  CHECK(detail::node_period(6, 4) == 2);
}

TEST_CASE("too many workers are refused as if all were simulated") {
  RuntimeMap const map = make_map("gpipe", 2);
  ActionRows const table = lower(make_schedule("gpipe", 2, 2), map);
  Machine machine = one_node(2, 4, 0);
  machine.nodes = 3;
  SimulatedCosts const costs = costs_of(map, {.forward = 1, .backward = 1}, 1);
  CHECK_NOTHROW(static_cast<void>(simulate_symmetric(machine, table, map, costs, {.workers = 3})));
  CHECK_THROWS_AS(static_cast<void>(simulate_symmetric(machine, table, map, costs, {.workers = 4})),
                  ContractError);
  CHECK_THROWS_AS(static_cast<void>(simulate_symmetric(machine, table, map, costs, {.workers = 0})),
                  ContractError);
}

}  // namespace simulator_symmetric_test
}  // namespace tandem::test
