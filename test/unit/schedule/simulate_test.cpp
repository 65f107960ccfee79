// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>

namespace simulate_test {

using namespace tandem;

constexpr ActionCosts costs{.forward = 3, .input_gradient = 4, .weight_gradient = 2};
constexpr Ticks f = 3;
constexpr Ticks b = 6;

// In constants, with and without messages, also at the largest size.
template <class S, int Ranks, int Microbatches>
struct Constants {
  static constexpr auto passes = schedule_table<S, Ranks, Microbatches>();
  static constexpr auto lowered = lower(passes, schedule_map<S, Ranks>());
  static constexpr Ticks of_passes(ActionCosts const& of) {
    return simulate(passes, schedule_map<S, Ranks>(), of).makespan;
  }
  static constexpr Ticks of_lowered(ActionCosts const& of) {
    auto const timeline = simulate(lowered, schedule_map<S, Ranks>(), of);
    return timeline.finished ? timeline.makespan : -1;
  }
};
template <class S, int Ranks, int Microbatches>
constexpr Ticks constant_makespan(ActionCosts const& of) {
  Ticks const time = Constants<S, Ranks, Microbatches>::of_passes(of);
  return Constants<S, Ranks, Microbatches>::of_lowered(of) == time ? time : -1;
}
static_assert(constant_makespan<SequentialStages, 4, 3>(costs) == 4 * 3 * (f + b));
static_assert(constant_makespan<GPipe, 4, 8>(costs) == 11 * (f + b));
static_assert(constant_makespan<OneFOneB, 4, 8>(costs) == 11 * (f + b));
static_assert(constant_makespan<Interleaved<2>, 4, 8>(costs) == (2 * 8 + 3) * (f + b));
static_assert(constant_makespan<ZeroBubbleH1, 4, 8>(costs) == 8 * (f + b) + 3 * (3 + 4 - 2));
// Each an evaluation of its own, within the compilers' limits.
static_assert(Constants<OneFOneB, 16, 64>::of_passes(costs) == 79 * (f + b));
static_assert(Constants<OneFOneB, 16, 64>::of_lowered(costs) == 79 * (f + b));
using Largest = Constants<ZeroBubbleH1, 16, 64>;
static_assert(Largest::of_passes({5, 6, 4}) == 64 * 15 + 15 * (5 + 6 - 4));
static_assert(Largest::of_lowered({5, 6, 4}) == 64 * 15 + 15 * (5 + 6 - 4));
static_assert(constant_makespan<Chimera, 8, 8>({.backward = 1}) == 2 * 8 + 8 - 2);

/// Of the passes alone; with messages and `depth` in flight it must be the same.
Ticks makespan(std::string const& name, int ranks, int microbatches, int chunks,
               ActionCosts const& of) {
  ActionRows const passes = make_schedule(name, ranks, microbatches, chunks);
  RuntimeMap const map = make_map(name, ranks, chunks);
  TimelineRows const timeline = simulate(passes, map, of);
  CHECK(timeline.finished);
  for (int const depth : {1, 2}) {
    TimelineRows const lowered = simulate(lower(passes, map), map, of, depth);
    CHECK(lowered.finished);
    CHECK(lowered.makespan == timeline.makespan);
  }
  return timeline.makespan;
}

TEST_CASE("makespans are those of the closed forms") {
  for (int p = 2; p <= 16; ++p) {
    CAPTURE(p);
    for (int const m : {1, 2, 3, p, p + 1, 2 * p, 40}) {
      CAPTURE(m);
      CHECK(makespan("sequential", p, m, 1, costs) == p * m * (f + b));
      CHECK(makespan("gpipe", p, m, 1, costs) == (m + p - 1) * (f + b));
      CHECK(makespan("one_f_one_b", p, m, 1, costs) == (m + p - 1) * (f + b));
    }
  }
}

TEST_CASE("interleaved: idle for (p - 1) (F + B) / v, a chunk taking a v-th") {
  for (int const p : {2, 3, 4, 8, 16}) {
    for (int const v : {1, 2, 4}) {
      for (int const groups : {1, 2, 3}) {
        int const m = groups * p;
        CHECK(makespan("interleaved", p, m, v, costs) == v * m * (f + b) + (p - 1) * (f + b));
      }
    }
  }
}

TEST_CASE("zero bubble H1: idle for (p - 1) (F + I - W), if there are p microbatches or more") {
  for (int p = 2; p <= 16; ++p) {
    for (ActionCosts const& of : {ActionCosts{}, ActionCosts{5, 6, 4}, ActionCosts{3, 4, 2}}) {
      for (int const m : {p, p + 1, 2 * p, 40}) {
        Ticks const busy = m * (of.forward + of.input_gradient + of.weight_gradient);
        CHECK(makespan("zero_bubble_h1", p, m, 1, of) ==
              busy + (p - 1) * (of.forward + of.input_gradient - of.weight_gradient));
      }
    }
  }
}

TEST_CASE("chimera: p - 2 idle slots, if F = B and m = p") {
  for (int p = 2; p <= 16; p += 2) {
    CHECK(makespan("chimera", p, p, 1, {.backward = 1}) == 2 * p + p - 2);
  }
}

TEST_CASE("idle time of the whole step, and between a rank's passes") {
  int const p = 4;
  int const m = 6;
  auto const timeline =
      simulate(make_schedule("one_f_one_b", p, m), make_map("one_f_one_b", p), costs);
  for (int r = 0; r < p; ++r) {
    DeviceTime const& time = timeline.device[r];
    CHECK(time.busy == m * (f + b));
    CHECK(time.idle_in_step == (p - 1) * (f + b));
    CHECK(time.idle_between_actions ==
          (p - 1 - r) * (f + b));  // it starts r F late, ends r B early
  }
}

TEST_CASE("begin and end of each action") {
  StageMap const map = chain_map<2>();
  ActionTable<2, 2> passes;
  passes.add(0, {ActionKind::forward, 0, 0, 0});
  passes.add(0, {ActionKind::backward, 0, 0, 0});
  passes.add(1, {ActionKind::forward, 0, 1, 0});
  passes.add(1, {ActionKind::backward, 0, 1, 0});
  ActionCosts const slow{.forward = 2, .input_gradient = 3, .weight_gradient = 4, .transfer = 10};
  auto const timeline = simulate(passes, map, slow);
  CHECK(timeline.action[0][0] == Interval{0, 2});
  CHECK(timeline.action[1][0] == Interval{12, 14});
  CHECK(timeline.action[1][1] == Interval{14, 21});
  CHECK(timeline.action[0][1] == Interval{31, 38});
  CHECK(timeline.makespan == 38);
  auto const lowered = simulate(lower(passes, map), map, slow);
  CHECK(lowered.makespan == 38);
  CHECK(lowered.action[1][0] == Interval{12, 12});  // 1RECV_F0
  CHECK(lowered.action[0][2] == Interval{31, 31});  // 0RECV_B0
}

ActionRows fast_sender() {
  ActionRows rows(2);
  for (int m = 0; m < 3; ++m) {
    rows[0].push_back({ActionKind::forward, 0, 0, m});
    rows[0].push_back({ActionKind::send_forward, 0, 0, m});
    rows[1].push_back({ActionKind::receive_forward, 0, 1, m});
    rows[1].push_back({ActionKind::forward, 0, 1, m});
  }
  rows[1].insert(rows[1].begin(), {ActionKind::update, 0, 1, 0});
  return rows;
}

TEST_CASE("a send waits for a free place; at depth 0 for its receive") {
  StageMap const map = chain_map<2>();
  ActionCosts const of{.forward = 1, .transfer = 5};
  // Messages arrive at 6, 7, 8 if nothing waits; at depth 1 the next may leave when one is taken.
  auto const sent = [&](int depth, int i) {
    return simulate(fast_sender(), map, of, depth).action[0][2 * static_cast<std::size_t>(i) + 1];
  };
  CHECK(sent(3, 2) == Interval{3, 3});
  CHECK(sent(2, 1) == Interval{2, 2});
  CHECK(sent(2, 2) == Interval{6, 6});
  CHECK(sent(1, 1) == Interval{6, 6});
  CHECK(sent(1, 2) == Interval{11, 11});
  CHECK(sent(0, 0) == Interval{6, 6});
  CHECK(sent(0, 1) == Interval{12, 12});
  CHECK(simulate(fast_sender(), map, of, 3).makespan == 9);
  CHECK(simulate(fast_sender(), map, of, 0).makespan == 19);
}

TEST_CASE("a place is free when a message is taken, not when it has arrived") {
  StageMap const map = chain_map<2>();
  ActionRows rows = fast_sender();
  rows[1].insert(rows[1].begin(), {ActionKind::weight_gradient, 0, 1, 0});
  TimelineRows const timeline =
      simulate(rows, map, {.forward = 1, .weight_gradient = 20, .transfer = 5}, 1);
  CHECK(timeline.action[0][1] == Interval{1, 1});
  CHECK(timeline.action[0][3] == Interval{20, 20});
  CHECK(timeline.makespan == 31);  // taken at 20, 25, 30
}

TEST_CASE("what waits forever is not finished") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  ActionRows rows = lower(make_schedule("one_f_one_b", 2, 4), map);
  CHECK(simulate(rows, map, costs, 1).finished);
  CHECK(!simulate(rows, map, costs, 0).finished);
  rows = make_schedule("one_f_one_b", 2, 4);
  std::swap(rows[1][0], rows[1][1]);  // 1B0 before 1F0
  CHECK(!simulate(rows, map, costs).finished);
  rows[1][0].stage = 7;
  CHECK(!simulate(rows, map, costs).finished);
  CHECK_THROWS_WITH_AS(simulate(rows, make_map("one_f_one_b", 3)),
                       doctest::Contains("as many devices as the table has rows"), ContractError);
}

TEST_CASE("a stage with two messages on one link") {  // 0 sends to 1 and to 2, both on device 1
  StageMap<3, 3> map{.devices = 2, .links = 1};
  map.device[1] = map.device[2] = 1;
  map.edge[0] = {0, 1, 0};
  map.edge[1] = {0, 2, 0};
  map.edge[2] = {1, 2, 0};
  ActionTable<2, 4> passes;
  passes.add(0, {ActionKind::forward, 0, 0, 0});
  passes.add(1, {ActionKind::forward, 0, 1, 0});
  passes.add(1, {ActionKind::forward, 0, 2, 0});
  passes.add(1, {ActionKind::backward, 0, 2, 0});
  passes.add(1, {ActionKind::backward, 0, 1, 0});
  passes.add(0, {ActionKind::backward, 0, 0, 0});
  auto const lowered = lower(passes, map);
  for (int const depth : {1, 2}) {
    auto const timeline = simulate(lowered, map, costs, depth);
    CHECK(timeline.finished);
    CHECK(timeline.makespan == simulate(passes, map, costs).makespan);
    CHECK(timeline.makespan == 3 * (f + b));
  }
}

/// When the first action of a kind ends on each device.
std::vector<Ticks> ends(ActionRows const& rows, RuntimeMap const& map, ActionKind kind) {
  auto const timeline = simulate(rows, map, {.forward = 2, .backward = 4, .update = 1, .sum = 10});
  std::vector<Ticks> found;
  CHECK(timeline.finished);
  for (std::size_t d = 0; d < rows.size(); ++d) {
    for (std::size_t i = 0; i < rows[d].size(); ++i) {
      if (rows[d][i].kind == kind && found.size() == d) {
        found.push_back(timeline.action[d][i].end);
      }
    }
  }
  return found;
}

TEST_CASE("a whole step: sums wait for the last of their devices, averages for both updates") {
  using Times = std::vector<Ticks>;
  RuntimeMap const chain = make_map("gpipe", 2);
  ActionRows const rows = complete(lower(make_schedule("gpipe", 2, 1), chain), chain);
  CHECK(ends(rows, chain, ActionKind::backward) == Times{12, 8});
  CHECK(ends(rows, chain, ActionKind::begin_loss) == Times{22, 18});
  CHECK(ends(rows, chain, ActionKind::await_loss) == Times{32, 32});
  CHECK(ends(rows, chain, ActionKind::update) == Times{43, 43});

  auto const norm_behind_forward = [](std::int16_t stage) {
    return std::vector<Action>{{ActionKind::forward, 0, stage, 0},
                               {ActionKind::reduce_norm, 0, stage, 0}};
  };
  ActionRows const norms{norm_behind_forward(0), norm_behind_forward(1)};
  CHECK(ends(norms, chain, ActionKind::forward) == Times{2, 4});
  CHECK(ends(norms, chain, ActionKind::reduce_norm) == Times{14, 14});

  RuntimeMap const both = make_map("cross_model", 3);
  ActionRows const lowered = lower(make_schedule("cross_model", 3, 2), both);
  CHECK(ends(complete(lowered, both), both, ActionKind::reduce_gradient) == Times{28, 28, 32});
  ActionRows const two = complete(lowered, both, {.averaging = AverageWeights<>::averaging});
  Times const exchanged = ends(two, both, ActionKind::exchange);
  CHECK(exchanged[0] >= ends(two, both, ActionKind::update)[2] + 1);
  CHECK(exchanged.size() == 3);
}

}  // namespace simulate_test
