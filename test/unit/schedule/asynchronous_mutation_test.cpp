// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/updates.hpp>

#include "reference_simulator.hpp"

namespace asynchronous_mutation_test {

using namespace tandem;
using enum ActionKind;

/// What verify() shall find, from the equations: each row is run with slots that hold the number of
/// updates that their weights have had.
class Reference {
 public:
  Reference(std::string name, int devices, int of_step)
      : name_{std::move(name)}, devices_{devices}, of_step_{of_step} {}

  [[nodiscard]] bool runs(ActionRows const& rows, StageMapView const& map, int microbatches,
                          int depth) const {
    ActionRows plain(rows.size());
    for (std::size_t d = 0; d < rows.size(); ++d) {
      if (!row_runs(rows[d], map, static_cast<int>(d))) {
        return false;
      }
      for (Action action : rows[d]) {
        if (action.kind != update) {
          action.version = 0;
          plain[d].push_back(action);
        }
      }
    }
    return reference::runs(plain, map, microbatches, depth);
  }

 private:
  [[nodiscard]] int delay(int stage) const {
    return (name_ == "pmp" ? 2 : 1) * (devices_ - 1 - stage);
  }
  [[nodiscard]] int versions(int stage) const {
    return name_ == "pipedream"                 ? delay(stage) + 1
           : name_ == "pipedream_vertical_sync" ? devices_
           : name_ == "pipedream_2bw"           ? 2
                                                : 1;
  }
  [[nodiscard]] int version(Action const& action) const {
    int const g = action.index;
    if (name_ == "pipedream_2bw") {
      return g / of_step_ - 1;
    }
    if (name_ == "pipedream_vertical_sync") {
      return g - (devices_ - 1);
    }
    bool const current = action.kind == backward && name_ != "pipedream";
    return current ? g : g - delay(action.stage);
  }

  [[nodiscard]] bool row_runs(std::vector<Action> const& row, StageMapView const& map,
                              int device) const {
    int const stage = device;
    int const slots = versions(stage);
    std::vector<int> holds(static_cast<std::size_t>(slots), 0);
    int updates = 0;
    int backwards = 0;  // since the last update
    for (Action const& action : row) {
      if (action.stage < 0 || action.stage >= map.stages || action.stage != stage ||
          action.kind > update) {
        return false;
      }
      if (action.kind == update) {
        if (backwards != of_step_ || action.index != 0 || action.version != 0) {
          return false;
        }
        backwards = 0;
        ++updates;
        holds[static_cast<std::size_t>(updates % slots)] = updates;
      } else if (action.kind == forward || action.kind == backward) {
        int const wanted = version(action);
        int const slot = (wanted % slots + slots) % slots;
        if ((action.kind == backward && backwards++ == of_step_) || action.index < 0 ||
            action.version != std::max(0, wanted) ||
            holds[static_cast<std::size_t>(slot)] != std::max(0, wanted)) {
          return false;
        }
      } else if (action.version != 0) {
        return false;
      }
    }
    return backwards == 0;
  }

  std::string name_;
  int devices_;
  int of_step_;
};

struct Table {
  ActionRows rows;
  RuntimeMap map;
  Asynchrony asynchrony;
  int microbatches;
  Reference reference;
};

Table make(char const* name, int devices, int of_step, int steps) {
  RuntimeMap map = make_map(name, devices);
  ActionRows rows = lower(make_schedule(name, devices, of_step, 1, steps), map);
  return {std::move(rows), std::move(map), make_asynchrony(name, devices, of_step), steps * of_step,
          Reference{name, devices, of_step}};
}

bool judge(Table const& table, ActionRows const& rows) {
  bool accepted = false;
  for (int const depth : {1, 2, 7}) {
    Verdict const verdict = verify(rows, table.map, table.microbatches, table.asynchrony, depth);
    std::string const sentence = to_string(verdict);
    CAPTURE(depth);
    CAPTURE(sentence);
    CAPTURE(verdict.position);
    REQUIRE(static_cast<bool>(verdict) ==
            table.reference.runs(rows, table.map, table.microbatches, depth));
    if (!verdict) {
      REQUIRE(sentence.find("rank " + std::to_string(verdict.rank) + ": " +
                            to_string(verdict.action)) == 0);
    }
    accepted = static_cast<bool>(verdict);
  }
  return accepted;
}

using Random = std::mt19937;

struct Place {
  std::vector<Action>& row;
  std::ptrdiff_t at;
};

Place any(ActionRows& rows, Random& random) {
  auto& row = rows[random() % rows.size()];
  return {row, static_cast<std::ptrdiff_t>(random() % row.size())};
}

/// A forward, with its messages, behind the next update of its row.
ActionRows& behind_update(ActionRows& rows, Random& random) {
  Place const place = any(rows, random);
  auto& row = place.row;
  auto const from = row.begin() + place.at;
  auto const to = std::find_if(from, row.end(), [](Action const& a) { return a.kind == update; });
  if (from->kind == forward && to != row.end()) {
    auto const is_message = [&](auto one, ActionKind kind) {
      return one >= row.begin() && one < to && one->kind == kind;
    };
    auto const begin = is_message(from - (place.at > 0 ? 1 : 0), receive_forward) ? from - 1 : from;
    auto const end = is_message(from + 1, send_forward) ? from + 2 : from + 1;
    std::rotate(begin, end, to + 1);
  }
  return rows;
}

TEST_CASE("a changed table is refused exactly where its equation would not be computed") {
  struct Case {
    char const* name;
    int devices;
    int of_step;
    int steps;
  };
  Random random{1};
  for (Case const& c :
       {Case{"pipedream", 3, 1, 5}, Case{"pipedream", 2, 1, 4}, Case{"pipedream", 1, 1, 3},
        Case{"pipedream_vertical_sync", 3, 1, 6}, Case{"pipedream_2bw", 3, 3, 4},
        Case{"pipedream_2bw", 2, 5, 3}, Case{"weight_prediction", 3, 1, 4},
        Case{"features_replay", 4, 1, 6}, Case{"pmp", 3, 1, 7}}) {
    CAPTURE(c.name);
    CAPTURE(c.devices);
    Table const table = make(c.name, c.devices, c.of_step, c.steps);
    REQUIRE(judge(table, table.rows));
    for (int i = 0; i < 120; ++i) {
      ActionRows rows = table.rows;
      auto [row, at] = any(rows, random);
      Action const action = row[static_cast<std::size_t>(at)];
      CAPTURE(to_string(action));
      row.erase(row.begin() + at);
      CHECK(!judge(table, rows));  // left out
      row.insert(row.begin() + static_cast<std::ptrdiff_t>(random() % (row.size() + 1)), action);
      judge(table, rows);  // moved
      row = table.rows[static_cast<std::size_t>(&row - rows.data())];
      row.insert(row.begin() + static_cast<std::ptrdiff_t>(random() % (row.size() + 1)), action);
      CHECK(!judge(table, rows));  // twice

      rows = table.rows;
      auto [other, from] = any(rows, random);
      if (from + 1 < static_cast<std::ptrdiff_t>(other.size())) {
        std::swap(other[static_cast<std::size_t>(from)], other[static_cast<std::size_t>(from) + 1]);
        judge(table, rows);
      }
      rows = table.rows;  // a pass with its messages, or more, to another place of its row
      auto [line, first] = any(rows, random);
      auto const last = std::min(first + 1 + static_cast<std::ptrdiff_t>(random() % 4),
                                 static_cast<std::ptrdiff_t>(line.size()));
      std::vector<Action> const together{line.begin() + first, line.begin() + last};
      line.erase(line.begin() + first, line.begin() + last);
      line.insert(line.begin() + static_cast<std::ptrdiff_t>(random() % (line.size() + 1)),
                  together.begin(), together.end());
      judge(table, rows);

      rows = table.rows;
      judge(table, behind_update(rows, random));

      rows = table.rows;
      auto [altered, which] = any(rows, random);
      Action& changed = altered[static_cast<std::size_t>(which)];
      switch (random() % 4) {
        case 0:
          changed.kind = static_cast<ActionKind>(random() % 14);
          judge(table, rows);
          break;
        case 1:
          changed.stage = static_cast<std::int16_t>(changed.stage + (random() % 2 == 0 ? 1 : -1));
          CHECK(!judge(table, rows));
          break;
        case 2:
          changed.index += random() % 2 == 0 ? 1 : -1;
          CHECK(!judge(table, rows));
          break;
        default:
          changed.version =
              static_cast<std::uint8_t>(changed.version + (random() % 2 == 0 ? 1 : 255));
          CHECK(!judge(table, rows));
          break;
      }
    }
  }
}

Action* find(std::vector<Action>& row, std::string const& text) {
  return &*std::find_if(row.begin(), row.end(),
                        [&](Action const& action) { return to_string(action) == text; });
}

TEST_CASE("the sentence says what is wrong with updates and versions") {
  Table const table = make("pipedream", 2, 1, 4);
  // 0F0 0F1 0B0 0U 0F2@1 0B1 0U 0F3@2 ..., messages between them
  auto const sentence = [&](ActionRows const& rows, Flaw flaw) {
    Verdict const verdict = verify(rows, table.map, table.microbatches, table.asynchrony);
    CHECK(verdict.flaw == flaw);
    return to_string(verdict);
  };
  ActionRows rows = table.rows;
  find(rows[0], "0F2@1")->version = 2;
  CHECK(sentence(rows, Flaw::wrong_version) ==
        "rank 0: 0F2@2 must read version 1 of the weights; so the schedule says");
  rows = table.rows;
  rows[0].erase(rows[0].begin() + (find(rows[0], "0U") - rows[0].data()));
  CHECK(sentence(rows, Flaw::version_to_come) ==
        "rank 0: 0F2@1 reads weights that are not there yet: its stage has had 0 updates");
  rows = table.rows;
  std::swap(*find(rows[0], "0U"), *find(rows[0], "0B0"));
  CHECK(sentence(rows, Flaw::before_its_input) == "rank 0: 0U stands before 0B0, which it needs");
  rows = table.rows;
  rows[1].pop_back();
  CHECK(sentence(rows, Flaw::missing) == "rank 1: 1U is missing");
  rows[1].push_back({update, 0, 1, 0});
  rows[1].push_back({update, 0, 1, 0});
  CHECK(sentence(rows, Flaw::doubled) == "rank 1: 1U stands there although it was done before");
  rows = table.rows;
  rows[0].insert(rows[0].begin(), {exchange, 0, 0, 0});
  CHECK(sentence(rows, Flaw::foreign_update).find("rank 0: 0X is neither a pass, a message") == 0);
  Table const replay = make("features_replay", 2, 1, 4);
  rows = replay.rows;  // its 0F1 moved behind the first update
  Action const moved = *find(rows[0], "0F1");
  rows[0].erase(rows[0].begin() + (find(rows[0], "0F1") - rows[0].data()));
  rows[0].erase(rows[0].begin() + (find(rows[0], "0SEND_F1") - rows[0].data()));
  auto const behind = rows[0].begin() + (find(rows[0], "0U") - rows[0].data()) + 1;
  rows[0].insert(behind, {moved, {send_forward, 0, 0, 1}});
  Verdict const gone = verify(rows, replay.map, replay.microbatches, replay.asynchrony);
  CHECK(to_string(gone) ==
        "rank 0: 0F1 reads weights that are overwritten: its stage has had 1 update");
  CHECK_THROWS_AS(static_cast<void>(verify(rows, replay.map, 0, replay.asynchrony)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(verify(rows, replay.map, 4, Asynchrony{})), ContractError);
}

}  // namespace asynchronous_mutation_test
