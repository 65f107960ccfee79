// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/simulate/simulator.hpp>
#include <unit/plan/simulator_cases.hpp>

#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/time/simulate.hpp>

namespace tandem::test {
namespace simulator_test {

using namespace simulator_cases;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr ActionCosts ticks{.forward = 5, .input_gradient = 6, .weight_gradient = 4};

StageLoad load_of(ActionCosts const& costs) {
  return {.forward = static_cast<double>(costs.forward),
          .input_gradient = static_cast<double>(costs.input_gradient),
          .weight_gradient = static_cast<double>(costs.weight_gradient),
          .backward = static_cast<double>(costs.backward)};
}

/// Times of whole seconds are exact, so that they can be compared as they are.
void check_same(SimulatedStep const& step, TimelineRows const& timeline) {
  REQUIRE(timeline.finished);
  CHECK(step.makespan == static_cast<double>(timeline.makespan));
  CHECK(step.last_pass == step.makespan);
  int different = 0;
  for (std::size_t d = 0; d < timeline.device.size(); ++d) {
    DeviceTime const& time = timeline.device[d];
    CHECK(step.device[d].busy == static_cast<double>(time.busy));
    CHECK(step.device[d].idle_in_step == static_cast<double>(time.idle_in_step));
    CHECK(step.device[d].idle_between_actions == static_cast<double>(time.idle_between_actions));
    REQUIRE(step.device[d].action.size() == timeline.action[d].size());
    for (std::size_t i = 0; i < timeline.action[d].size(); ++i) {
      PlacementSpan const span = step.device[d].action[i].span;
      Interval const time_of = timeline.action[d][i];
      different += span.begin != static_cast<double>(time_of.begin) ||
                   span.end != static_cast<double>(time_of.end);
    }
  }
  CHECK(different == 0);
}

TEST_CASE("without sharing: simulate() of every schedule, action by action") {
  for (One const& one : all_schedules()) {
    CAPTURE(one.name);
    CAPTURE(one.devices);
    CAPTURE(one.microbatches);
    RuntimeMap const map = make_map(one.name, one.devices, one.chunks);
    ActionRows const table = one.table(map);
    for (Ticks const transfer : {0, 3}) {
      for (int const depth : {1, 2}) {
        ActionCosts of = ticks;
        of.transfer = transfer;
        SimulatedCosts costs = costs_of(map, load_of(of), 0);
        TimelineRows const timeline = simulate(table, map, of, depth);
        SimulationOptions options{.depth = depth};
        double const latency = static_cast<double>(transfer);
        check_same(simulate_on(one_node(16, infinity, latency), table, map, costs, options),
                   timeline);
        options.shares_links = false;  // latency 1 and 4 bytes at 2 bytes a second
        if (transfer > 0) {
          costs.message_bytes.assign(costs.message_bytes.size(), 4);
          check_same(simulate_on(one_node(16, 2, 1), table, map, costs, options), timeline);
        }
      }
    }
  }
}

TEST_CASE("without sharing: stages that differ, and tables with updates") {
  for (char const* const name : {"gpipe", "one_f_one_b", "zero_bubble_h1", "chimera"}) {
    RuntimeMap const map = make_map(name, 4);
    ActionRows const table = lower(make_schedule(name, 4, 8), map);
    std::vector<ActionCosts> of_stage;
    SimulatedCosts costs = costs_of(map, {}, 0);
    for (std::size_t s = 0; s < map.device.size(); ++s) {
      Ticks const more = static_cast<Ticks>(s * s % 5);
      of_stage.push_back({.forward = 2 + more,
                          .input_gradient = 3,
                          .weight_gradient = 1 + more,
                          .backward = 3 + 2 * more});
      costs.stage[s] = load_of(of_stage.back());
    }
    check_same(simulate_on(one_node(4, infinity, 2), table, map, costs),
               simulate(table, map, {.transfer = 2, .of_stage = of_stage.data()}));
  }
  RuntimeMap const map = make_map("pipedream", 3);
  ActionRows const table = lower(make_schedule("pipedream", 3, 1, 1, 6), map);
  ActionCosts of = ticks;
  of.update = 7;
  SimulatedCosts costs = costs_of(map, load_of(of), 0);
  costs.update = 7;
  check_same(simulate_on(one_node(4, infinity, 0), table, map, costs), simulate(table, map, of));
}

TEST_CASE("without sharing: a sender that is faster than its receiver, at every depth") {
  RuntimeMap const map = make_map("gpipe", 2);
  ActionRows rows(2);
  for (int m = 0; m < 3; ++m) {
    rows[0].push_back({ActionKind::forward, 0, 0, m});
    rows[0].push_back({ActionKind::send_forward, 0, 0, m});
    rows[1].push_back({ActionKind::receive_forward, 0, 1, m});
    rows[1].push_back({ActionKind::forward, 0, 1, m});
  }
  rows[1].insert(rows[1].begin(), {ActionKind::weight_gradient, 0, 1, 0});
  ActionCosts const of{.forward = 1, .weight_gradient = 20, .transfer = 5};
  for (int depth = 0; depth <= 3; ++depth) {
    CAPTURE(depth);
    check_same(simulate_on(one_node(2, infinity, 5), rows, map, costs_of(map, load_of(of), 0),
                           {.depth = depth}),
               simulate(rows, map, of, depth));
  }
}

TEST_CASE("the closed forms: idle time and peaks of activations") {
  double const f = 5;
  double const b = 10;
  auto const step = [&](char const* name, int p, int m, int chunks = 1, StageLoad load = {}) {
    load.forward = load.forward > 0 ? load.forward : f;
    load.input_gradient = load.input_gradient > 0 ? load.input_gradient : 6;
    load.weight_gradient = load.weight_gradient > 0 ? load.weight_gradient : 4;
    load.kept_bytes = 7;
    RuntimeMap const map = make_map(name, p, chunks);
    return simulate_on(one_node(p, infinity, 0), lower(make_schedule(name, p, m, chunks), map), map,
                       costs_of(map, load, 0));
  };
  auto const peak = [](SimulatedStep const& of, int r) {
    return of.device[static_cast<std::size_t>(r)].peak_bytes / 7;
  };
  for (int p = 2; p <= 8; ++p) {
    for (int m = p; m <= 4 * p; m += p) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(step("sequential", p, m).makespan == p * m * (f + b));
      SimulatedStep const gpipe = step("gpipe", p, m);
      SimulatedStep const flush = step("one_f_one_b", p, m);
      SimulatedStep const h1 = step("zero_bubble_h1", p, m);
      SimulatedStep const chunks = step("interleaved", p, m, 2);
      CHECK(gpipe.makespan == (m + p - 1) * (f + b));
      CHECK(flush.makespan == (m + p - 1) * (f + b));
      CHECK(flush.idle() == doctest::Approx((p - 1.0) / (m + p - 1)));
      CHECK(h1.makespan == m * (f + b) + (p - 1) * (f + 6 - 4));
      CHECK(chunks.makespan == 2 * m * (f + b) + (p - 1) * (f + b));
      CHECK(peak(chunks, 0) == std::min(2 * m, 3 * p - 1));  // in chunks of half a device
      CHECK(peak(h1, 0) == p);
      double const turns = peak(step("zero_bubble_v", p, m), 0);  // likewise
      CHECK((m < 2 * p ? turns <= 2 * p : turns == 2 * p));
      for (int r = 0; r < p; ++r) {
        CHECK(gpipe.device[static_cast<std::size_t>(r)].idle_in_step == (p - 1) * (f + b));
        CHECK(peak(gpipe, r) == m);
        CHECK(peak(flush, r) == std::min(m, p - r));
      }
    }
    if (p % 2 == 0) {
      CHECK(step("chimera", p, p, 1, {.forward = 1, .backward = 1}).makespan == 2 * p + p - 2);
      CHECK(step("cross_model", p, 2).makespan == p * (f + b));  // idle (K - 2) (F + B)
    }
  }
}

TEST_CASE("a memory curve: from RECV_F or F to the end of B or W, and work in B") {
  RuntimeMap const map = make_map("gpipe", 2);
  ActionRows const table = lower(make_schedule("gpipe", 2, 2), map);
  SimulatedCosts const costs =
      costs_of(map, {.forward = 1, .backward = 2, .kept_bytes = 10, .working_bytes = 3}, 0);
  SimulatedStep const step = simulate_on(one_node(2, infinity, 0), table, map, costs);
  // F and B of device 0 begin at 0, 1, 5, 7; those of device 1 at 1, 2, 3, 5
  using Curve = std::vector<MemoryPoint>;
  CHECK(step.device[1].memory == Curve{{1, 10}, {2, 20}, {3, 23}, {5, 13}, {7, 0}});
  CHECK(step.device[1].peak_bytes == 23);
  CHECK(step.device[0].memory == Curve{{0, 10}, {1, 20}, {5, 23}, {7, 13}, {9, 0}});
  ActionRows early = table;
  early[1] = {table[1][0], table[1][2], table[1][1], table[1][3]};  // RECV_F0, RECV_F1, F0, F1
  early[1].insert(early[1].end(), table[1].begin() + 4, table[1].end());
  CHECK(simulate_on(one_node(2, infinity, 0), early, map, costs).device[1].memory[1] ==
        MemoryPoint{2, 20});  // with F0, which had to wait
  CHECK(simulate_on(one_node(2, infinity, 0), early, map, costs).device[1].action[2].span.end == 3);
  for (One const& one : all_schedules()) {
    RuntimeMap const of = make_map(one.name, one.devices, one.chunks);
    ActionRows const rows = one.table(of);
    SimulatedStep const full =
        simulate_on(one_node(16, infinity, 1), rows, of,
                    costs_of(of, {.forward = 2, .backward = 3, .kept_bytes = 1}, 0));
    for (std::size_t d = 0; d < full.device.size(); ++d) {
      double live = 0;
      for (int s = 0; s < static_cast<int>(of.device.size()); ++s) {
        bool const here = of.device[static_cast<std::size_t>(s)] == static_cast<int>(d);
        live += here ? live_microbatches(rows, of, s) : 0;
      }
      CHECK(full.device[d].memory.back().bytes == 0);
      CHECK(full.device[d].peak_bytes <= live);
      if (of.device.size() == full.device.size()) {
        CHECK(full.device[d].peak_bytes == live);
      }
    }
  }
}

TEST_CASE("what cannot be simulated is said") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  ActionRows const passes = make_schedule("one_f_one_b", 2, 4);
  ActionRows const table = lower(passes, map);
  SimulatedCosts const costs = costs_of(map, {.forward = 1, .backward = 1}, 1);
  Machine machine = one_node(2, 1, 0);
  machine.nodes = 1;
  auto const refuses = [&](ActionRows const& rows, RuntimeMap const& on, SimulatedCosts const& of,
                           char const* text, SimulationOptions const& options = {}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(simulate_on(machine, rows, on, of, options)),
                         doctest::Contains(text), ContractError);
  };
  refuses(table, make_map("one_f_one_b", 3), costs, "as many devices as the table has rows");
  refuses(table, map, {}, "give costs for each stage");
  refuses(table, map, costs_of(map, {.forward = -1}, 1), "finite and not negative");
  refuses(table, map, costs, "the machine has fewer devices", {.workers = 2});
  refuses(table, map, costs, "waits forever", {.depth = 0});
  ActionRows wrong = table;
  wrong[1].front().index = 7;
  wrong[1].pop_back();
  refuses(wrong, map, costs, "a link has");
  wrong = table;
  std::swap(wrong[1][0], wrong[1][2]);  // 1F0, 1B0 before 1RECV_F0
  wrong[0].front().stage = 9;
  refuses(wrong, map, costs, "9F0 waits forever");
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_on(machine, passes, map, costs)),
                       doctest::Contains("no messages"), ContractError);
}

}  // namespace simulator_test
}  // namespace tandem::test
