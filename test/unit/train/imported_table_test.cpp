// SPDX-License-Identifier: Apache-2.0
// Tables that a program brings: those that run train as the strategy's own, others are refused
// before anything runs.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <support/temporary_folder.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace imported_table_test {

using Two = Pipeline<OneFOneB, 4, Split<4>, Split<5>, Reproducible<>>;
using TwoTrainer = Trainer<TinyNet, Two, Host>;

TrainerOptions with(ActionRows rows) {
  TrainerOptions options = parity_options();
  options.rows = std::move(rows);
  return options;
}
std::string refusal(ActionRows rows) {
  return message<ContractError>([&] { TwoTrainer const trainer{with(std::move(rows))}; });
}
ActionRows good() { return make_schedule("one_f_one_b", 2, 4); }
StageMapView const map{TwoTrainer::ProgramType::map};

TEST_CASE("gradients apart are for strategies that have compiled them so") {
  CHECK(
      contains(refusal(make_schedule("zero_bubble_h1", 2, 4)),
               "TrainerOptions: .rows has input and weight gradients apart (I and W), which this "
               "strategy has not compiled; take Pipeline<ZeroBubbleH1, ...>, which runs any rows"));
}

TEST_CASE("where nothing is cut, rows are the microbatches of gradient accumulation") {
  using One = Trainer<TinyNet, SingleDevice<Reproducible<>>, Host>;
  One rows{with(make_schedule("sequential", 1, 4))};
  Trainer<TinyNet, SingleDevice<Microbatches<4>, Reproducible<>>, Host> own{parity_options()};
  for (int s = 0; s < 3; ++s) {
    parity_step(rows, s);
    parity_step(own, s);
  }
  CHECK(first_difference(rows.parameters(), own.parameters()) == "");
  for (ActionRows const& other : {make_schedule("gpipe", 1, 2), good()}) {
    CHECK(contains(message<ContractError>([&] { One const trainer{with(other)}; }),
                   "one row, 0F0 0B0 0F1 0B1 and so on"));
  }
  CHECK(contains(
      message<ContractError>([&] { One const trainer{with(make_schedule("sequential", 1, 3))}; }),
      "take a power of two"));
}

TEST_CASE("the strategy's own table, with and without its messages, changes no bit") {
  Watchdog const watchdog{"imported tables"};
  TwoTrainer own{parity_options()};
  TwoTrainer passes{with(good())};
  TwoTrainer whole{with(lower(good(), map))};
  for (int s = 0; s < 3; ++s) {
    parity_step(own, s);
    parity_step(passes, s);
    parity_step(whole, s);
  }
  CHECK(first_difference(passes.parameters(), own.parameters()) == "");
  CHECK(first_difference(whole.parameters(), own.parameters()) == "");
}

// Device 0 is a microbatch further ahead than in 1F1B: no schedule of the library.
ActionRows of_ones_own() {
  ActionRows rows(2);
  auto const add = [&rows](ActionKind kind, int stage, int index) {
    rows[static_cast<std::size_t>(stage)].push_back(
        {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index});
  };
  constexpr int ahead = 2;
  for (int m = 0; m < 4 + ahead; ++m) {
    if (m < 4) {
      add(ActionKind::forward, 0, m);
      add(ActionKind::forward, 1, m);
      add(ActionKind::backward, 1, m);
    }
    if (m >= ahead) {
      add(ActionKind::backward, 0, m - ahead);
    }
  }
  return rows;
}

TEST_CASE("an order of one's own trains as any other, and keeps what it needs") {
  Watchdog const watchdog{"an order of one's own"};
  TwoTrainer own{parity_options()};
  TwoTrainer other{with(of_ones_own())};
  for (int s = 0; s < 3; ++s) {
    parity_step(own, s);
    parity_step(other, s);
  }
  CHECK(first_difference(other.parameters(), own.parameters()) == "");
  CHECK(2 * other.memory(0).kept == 3 * own.memory(0).kept);  // three live microbatches, not two
  CHECK(other.memory(1).kept == own.memory(1).kept);
}

// good() with messages, one of which stands elsewhere: before, or behind, another action.
ActionRows with_message(Action message, Action at, std::ptrdiff_t behind) {
  ActionRows rows = lower(good(), map);
  for (std::vector<Action>& row : rows) {
    if (auto const found = std::find(row.begin(), row.end(), message); found != row.end()) {
      row.erase(found);
      row.insert(std::find(row.begin(), row.end(), at) + behind, message);
    }
  }
  return rows;
}

TEST_CASE("a gradient may arrive before another one's pass") {
  Watchdog const watchdog{"gradients that arrive early"};
  TwoTrainer own{parity_options()};
  TwoTrainer early{with(with_message({.kind = ActionKind::receive_backward, .index = 1},
                                     {.kind = ActionKind::backward, .index = 0}, 0))};
  for (int s = 0; s < 3; ++s) {
    parity_step(own, s);
    parity_step(early, s);
  }
  CHECK(first_difference(early.parameters(), own.parameters()) == "");
  CHECK(early.memory(0).transient > own.memory(0).transient);
  CHECK(early.memory(1).transient == own.memory(1).transient);
}

TEST_CASE("a gradient is sent before the next one is computed") {
  CHECK(contains(refusal(with_message({.kind = ActionKind::send_backward, .stage = 1, .index = 0},
                                      {.kind = ActionKind::backward, .stage = 1, .index = 1}, 1)),
                 "TrainerOptions: .rows has 1SEND_B0 behind 1B1, which computes the next gradient "
                 "where that one is sent from; put it before that"));
}

TEST_CASE("a table that cannot run is refused with the verdict on it") {
  auto const check = [](ActionRows const& rows) {
    Verdict const verdict = verify(lower(rows, map), map, 4);
    REQUIRE(!verdict);
    CHECK(refusal(rows) == "TrainerOptions: .rows cannot run: " + to_string(verdict));
  };
  ActionRows rows = good();
  rows[0].pop_back();  // a pass is missing
  check(rows);
  rows = good();
  rows[1].push_back(rows[1][0]);  // one is there twice
  check(rows);
  rows = good();
  std::swap(rows[1][0], rows[1][1]);  // backward before forward
  check(rows);
  rows = make_schedule("gpipe", 2, 4);
  std::swap(rows[0][0], rows[0][1]);  // microbatch 1 before 0
  check(rows);
  CHECK(contains(refusal(rows), "0F1 stands before 0F0"));
}

TEST_CASE("messages that do not match are refused") {
  ActionRows const whole = lower(good(), map);
  for (std::size_t device = 0; device < 2; ++device) {
    for (std::size_t i = 0; i < whole[device].size(); ++i) {
      ActionKind const kind = whole[device][i].kind;
      if (kind >= ActionKind::send_forward && kind <= ActionKind::receive_backward) {
        ActionRows rows = whole;
        rows[device].erase(rows[device].begin() + static_cast<std::ptrdiff_t>(i));
        CHECK(contains(refusal(rows), "TrainerOptions: .rows cannot run: "));
      }
    }
  }
}

TEST_CASE("a table for other devices or other leaves is refused") {
  CHECK(refusal(make_schedule("gpipe", 3, 4)) ==
        "TrainerOptions: .rows has 3 rows, but a replica of the strategy has 2 devices; give a row "
        "for each");
  CHECK(refusal(make_schedule("gpipe", 2, 6)) ==
        "TrainerOptions: .rows has 6 microbatches, of which Reproducible<> makes as many leaves: "
        "take a power of two");
}

TEST_CASE("the last microbatch that an int can name is refused") {
  ActionRows rows = good();
  rows[1].back().index = std::numeric_limits<std::int32_t>::max();
  CHECK(refusal(rows) ==
        "TrainerOptions: .rows has a microbatch 2147483647, but only 16 actions; number "
        "microbatches from 0 on");
}

}  // namespace imported_table_test
}  // namespace tandem::test
