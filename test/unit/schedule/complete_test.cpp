// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/chimera.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/one_f_one_b.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/verify/step.hpp>

namespace complete_test {

using namespace tandem;

std::string text(std::vector<Action> const& row) {
  std::string all;
  for (Action const& action : row) {
    all += (all.empty() ? "" : " ") + to_string(action);
  }
  return all;
}

ActionRows completed(char const* name, int devices, int microbatches, StepRules const& rules = {}) {
  RuntimeMap const map = make_map(name, devices);
  return complete(lower(make_schedule(name, devices, microbatches), map), map, rules);
}

/// The row's end, from the first action behind its last pass or message on.
std::string tail(std::vector<Action> const& row) {
  auto const last = std::find_if(row.rbegin(), row.rend(), [](Action const& action) {
    return action.kind <= ActionKind::receive_backward;
  });
  return text({last.base(), row.end()});
}

TEST_CASE("a device with the whole model begins to sum losses behind its last forward pass") {
  CHECK(text(completed("gpipe", 1, 2)[0]) == "0F0 0F1 0B0 0B1 0U");
  CHECK(text(completed("gpipe", 1, 2, {.replicas = 2})[0]) ==
        "0F0 0F1 0BEGIN_LOSS 0B0 0B1 0REDUCE_GRAD0 0AWAIT_LOSS 0U");
}

TEST_CASE("a device with a part of it, when its row ends") {
  for (char const* const name : {"gpipe", "one_f_one_b", "zero_bubble_h1", "sequential"}) {
    CAPTURE(name);
    CHECK(tail(completed(name, 2, 4)[1]) == "1BEGIN_LOSS 1AWAIT_LOSS 1REDUCE_NORM 1U");
    CHECK(tail(completed(name, 2, 4, {.replicas = 3})[0]) ==
          "0REDUCE_GRAD0 0BEGIN_LOSS 0AWAIT_LOSS 0REDUCE_NORM 0U");
  }
  CHECK(tail(completed("chimera", 2, 4)[0]) ==
        "3REDUCE_GRAD0 0REDUCE_GRAD1 0BEGIN_LOSS 0AWAIT_LOSS 0REDUCE_NORM 0U");
}

TEST_CASE("buckets are reduced in the order that the rules give") {
  RuntimeMap const map = make_map("chimera", 2);
  int const first[] = {3, 3, 0};
  int const second[] = {2, 1, 1};
  std::span<int const> const buckets[] = {first, second};
  ActionRows const rows =
      complete(lower(make_schedule("chimera", 2, 2), map), map, {.buckets = buckets});
  CHECK(tail(rows[0]).rfind("3REDUCE_GRAD0 3REDUCE_GRAD1 0REDUCE_GRAD2 0BEGIN_LOSS", 0) == 0);
  CHECK(tail(rows[1]).rfind("2REDUCE_GRAD0 1REDUCE_GRAD1 1REDUCE_GRAD2 1BEGIN_LOSS", 0) == 0);
}

TEST_CASE("two models: an update a stage, and the averages last, or if overlapped before them") {
  constexpr Averaging weights = AverageWeights<>::averaging;
  constexpr Averaging overlapped = Overlapped<AverageWeights<>>::averaging;
  CHECK(text(completed("cross_model", 2, 2, {.averaging = weights})[0]) ==
        "0F0 0SEND_F0 3RECV_F1 3F1 0BEGIN_LOSS 3B1 3SEND_B1 0AWAIT_LOSS 3U 0RECV_B0 0B0 0U 3X 0X");
  CHECK(text(completed("cross_model", 2, 2, {.averaging = overlapped})[1]) ==
        "2F1 2SEND_F1 1RECV_F0 1F0 1BEGIN_LOSS 1B0 1SEND_B0 1AWAIT_LOSS 1X 1U 2RECV_B1 2B1 2X 2U");
  // Gradients of replicas are on their way, or losses to come.
  CHECK(tail(completed("cross_model", 2, 2, {.replicas = 2, .averaging = weights})[0]) ==
        "3REDUCE_GRAD0 0REDUCE_GRAD1 0BEGIN_LOSS 0AWAIT_LOSS 3U 0U 3X 0X");
  CHECK(tail(completed("cross_model", 2, 4, {.averaging = weights})[0]) ==
        "0BEGIN_LOSS 0AWAIT_LOSS 3U 0U 3X 0X");
  // The device in the middle of three has both copies of part 1.
  CHECK(tail(completed("cross_model", 3, 2, {.replicas = 2, .averaging = weights})[1])
            .rfind("4REDUCE_GRAD0 1REDUCE_GRAD1", 0) == 0);
}

template <class Schedule, int Devices, int Microbatches>
struct Constant {
  static constexpr auto map = schedule_map<Schedule, Devices>();
  static constexpr auto lowered = lower(schedule_table<Schedule, Devices, Microbatches>(), map);
  template <int Replicas>
  static constexpr auto rows() {
    constexpr StepRules rules{.replicas = Replicas};
    return complete<completed_length(lowered, map, rules)>(lowered, map, rules);
  }
};

TEST_CASE("a constant has the rows of a table that is made at run time") {
  static constexpr auto one = Constant<OneFOneB, 4, 8>::rows<1>();
  static constexpr auto both = Constant<Chimera, 4, 4>::rows<2>();
  static_assert(verify(one, Constant<OneFOneB, 4, 8>::map, 8, StepRules{}));
  static_assert(verify(both, Constant<Chimera, 4, 4>::map, 4, StepRules{.replicas = 2}));
  static_assert(verify(one, Constant<OneFOneB, 4, 8>::map, 8, StepRules{.replicas = 2}).flaw ==
                Flaw::missing);
  CHECK(rows_of(one) == completed("one_f_one_b", 4, 8));
  CHECK(rows_of(both) == completed("chimera", 4, 4, {.replicas = 2}));
}

TEST_CASE("the library's own schedules reduce and update parts on the way if they end in order") {
  for (char const* const name : {"chimera", "cross_model"}) {
    bool const pairs = std::string{name} == "chimera";
    for (int devices = 2; devices <= 8; devices += pairs ? 2 : 1) {
      for (int const microbatches : {2, 4, 8, 2 * devices}) {
        CAPTURE(name);
        CAPTURE(devices);
        CAPTURE(microbatches);
        RuntimeMap const map = make_map(name, devices);
        ActionRows const rows = lower(make_schedule(name, devices, microbatches), map);
        RowOrder const one = row_order(rows, map, {});
        RowOrder const two = row_order(rows, map, {.averaging = AverageWeights<>::averaging});
        CHECK(one.reduces_early == ends_from_last(rows, map));
        CHECK(two.updates_early == (one.reduces_early && goes_forward_first(rows)));
      }
    }
  }
}

/// Device 1 ends stage 1, then sends what device 0 needs to end the stage's other copy.
TEST_CASE("parts are reduced when the rows end if a device would wait for one that waits for it") {
  RuntimeMap const map = make_map("chimera", 2);
  ActionRows const rows = lower({{{ActionKind::forward, 0, 0, 0},
                                  {ActionKind::forward, 0, 3, 1},
                                  {ActionKind::backward, 0, 3, 1},
                                  {ActionKind::backward, 0, 0, 0}},
                                 {{ActionKind::forward, 0, 1, 0},
                                  {ActionKind::backward, 0, 1, 0},
                                  {ActionKind::forward, 0, 2, 1},
                                  {ActionKind::backward, 0, 2, 1}}},
                                map);
  CHECK(ends_from_last(rows, map));
  CHECK_FALSE(row_order(rows, map, {}).reduces_early);
  CHECK(verify(complete(rows, map), map, 2, StepRules{}));
}

/// Passes in any order that can run, with messages.
ActionRows random_table(StageMapView const& map, int microbatches, std::mt19937& random) {
  auto const stages = static_cast<std::size_t>(map.stages);
  std::vector<int> forward(stages);
  std::vector<int> backward(stages);
  ActionRows rows(static_cast<std::size_t>(map.devices));
  for (std::vector<Action> ready{{}}; !ready.empty();) {
    ready.clear();
    for (std::size_t s = 0; s < stages; ++s) {
      bool goes = forward[s] < microbatches / map.copies;
      bool returns = backward[s] < forward[s];
      for (int e = 0; e < map.edges; ++e) {
        auto const from = static_cast<std::size_t>(map.edge[e].from);
        auto const to = static_cast<std::size_t>(map.edge[e].to);
        goes = goes && (to != s || forward[from] > forward[s]);
        returns = returns && (from != s || backward[to] > backward[s]);
      }
      auto const add = [&](ActionKind kind, int index) {
        int const stage = static_cast<int>(s);
        ready.push_back({.kind = kind,
                         .stage = static_cast<std::int16_t>(stage),
                         .index = map.first_microbatch(stage, microbatches) + index});
      };
      goes ? add(ActionKind::forward, forward[s]) : void();
      returns ? add(ActionKind::backward, backward[s]) : void();
    }
    if (!ready.empty()) {
      Action const next = ready[random() % ready.size()];
      auto const s = static_cast<std::size_t>(next.stage);
      ++(next.kind == ActionKind::forward ? forward : backward)[s];
      rows[static_cast<std::size_t>(map.device[s])].push_back(next);
    }
  }
  return lower(rows, map);
}

/// So no table that is imported has to be verified again when it is complete.
TEST_CASE("what can run without its tail is completed to what can run with it") {
  std::mt19937 random{1};
  int early = 0;
  int late = 0;
  for (char const* const name : {"gpipe", "chimera"}) {
    for (int i = 0; i < 400; ++i) {
      int const microbatches = 2 + 2 * (i % 3);
      RuntimeMap const map = make_map(name, 2 + i % 2 * 2);
      ActionRows const rows = random_table(map, microbatches, random);
      if (!verify(rows, map, microbatches)) {
        continue;
      }
      for (Averaging const& averaging :
           {Averaging{}, AverageWeights<>::averaging, Overlapped<AverageWeights<>>::averaging}) {
        for (int const replicas : {1, 2}) {
          if (map.copies == 1 && averaging.keeps_two()) {
            continue;
          }
          StepRules const rules{.replicas = replicas, .averaging = averaging};
          CHECK(verify(complete(rows, map, rules), map, microbatches, rules));
          RowOrder const order = row_order(rows, map, rules);
          bool const reduces = averaging.keeps_two() ? order.updates_early : order.reduces_early;
          ++(reduces ? early : late);
        }
      }
    }
  }
  CHECK(early > 500);
  CHECK(late > 500);
}

}  // namespace complete_test
