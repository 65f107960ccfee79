// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/step.hpp>

#include "mutations.hpp"
#include "reference_step.hpp"

namespace verify_step_mutation_test {

using namespace tandem;
using namespace mutations;

constexpr Averaging gradients = AverageGradients::averaging;
constexpr Averaging weights = AverageWeights<>::averaging;
constexpr Averaging overlapped = Overlapped<AverageWeights<>>::averaging;

struct Case {
  char const* name;
  int devices;
  int microbatches;
  StepRules rules{};
  int chunks = 1;
};

struct Tally {
  int accepted = 0;
  int refused = 0;
};

/// The verdict is that of the slow judge, and names what is in the table.
void judge(ActionRows const& rows, RuntimeMap const& map, Case const& c, int depth, Tally& tally) {
  Verdict const verdict = verify(rows, map, c.microbatches, c.rules, depth);
  bool const runs = reference::runs(rows, map, c.microbatches, c.rules, depth);
  std::string const sentence = to_string(verdict);
  CAPTURE(depth);
  CAPTURE(sentence);
  REQUIRE(static_cast<bool>(verdict) == runs);
  if (!verdict) {
    REQUIRE(sentence.find("rank " + std::to_string(verdict.rank) + ": " +
                          to_string(verdict.action)) == 0);
    auto const& row = rows[static_cast<std::size_t>(verdict.rank)];
    auto const at = static_cast<std::size_t>(verdict.position);
    if (verdict.flaw == Flaw::missing) {
      REQUIRE(at <= row.size());
    } else {
      REQUIRE(row.at(at) == verdict.action);
    }
  }
  ++(runs ? tally.accepted : tally.refused);
}

ActionRows completed(Case const& c, RuntimeMap const& map) {
  return complete(lower(make_schedule(c.name, c.devices, c.microbatches, c.chunks), map), map,
                  c.rules);
}

Case const cases[] = {
    {"gpipe", 1, 2, {.replicas = 2}},
    {"gpipe", 2, 2, {}},
    {"one_f_one_b", 3, 3, {.replicas = 2}},
    {"interleaved", 2, 2, {.replicas = 2}, 2},
    {"zero_bubble_h1", 2, 3, {.replicas = 2}},
    {"chimera", 2, 2, {}},
    {"chimera", 4, 4, {.replicas = 2}},
    {"cross_model", 3, 2, {.averaging = gradients}},
    {"cross_model", 2, 2, {.averaging = weights}},
    {"cross_model", 3, 2, {.averaging = weights}},
    {"cross_model", 2, 4, {.averaging = weights}},
    {"cross_model", 2, 2, {.replicas = 2, .averaging = weights}},
    {"cross_model", 2, 2, {.averaging = overlapped}},
    {"cross_model", 3, 2, {.replicas = 2, .averaging = overlapped}},
};

TEST_CASE("a step whose tail lacks an action, or has one twice or elsewhere, is refused rightly") {
  for (Case const& c : cases) {
    CAPTURE(c.name);
    CAPTURE(c.devices);
    CAPTURE(c.rules.replicas);
    CAPTURE(static_cast<int>(c.rules.averaging.what));
    RuntimeMap const map = make_map(c.name, c.devices, c.chunks);
    ActionRows const rows = completed(c, map);
    Tally plain;
    for (int const depth : {1, 2}) {
      judge(rows, map, c, depth, plain);
    }
    REQUIRE(plain.accepted == 2);
    Tally lost;
    Tally twice;
    Tally order;
    for (std::size_t d = 0; d < rows.size(); ++d) {
      for (std::size_t i = 0; i < rows[d].size(); ++i) {
        if (!is_tail(rows[d][i].kind)) {
          continue;
        }
        CAPTURE(to_string(rows[d][i]));
        ActionRows without = rows;
        drop(without[d], i);
        judge(without, map, c, 1, lost);
        for (std::size_t to = 0; to < rows[d].size(); to += 1 + to % 2) {
          ActionRows with = rows;
          put(with[d], to, rows[d][i]);
          judge(with, map, c, 1, twice);
          if (to != i) {
            put(without[d], to, rows[d][i]);
            judge(without, map, c, 1, order);
            drop(without[d], to);
          }
        }
      }
    }
    CHECK(lost.accepted == 0);
    CHECK(lost.refused > 0);
    CHECK(twice.accepted == 0);
    CHECK(order.refused > 0);
  }
}

TEST_CASE("a step with anything changed is refused exactly where a run of all ranks fails") {
  std::uint32_t seed = 1;
  Tally all;
  for (Case const& c : cases) {
    CAPTURE(c.name);
    CAPTURE(c.devices);
    RuntimeMap const map = make_map(c.name, c.devices, c.chunks);
    ActionRows const rows = completed(c, map);
    Random random{seed++};
    for (int i = 0; i < 40; ++i) {
      int const depth = i % 3;
      judge(swapped(rows, random), map, c, depth, all);
      judge(moved(rows, random), map, c, depth, all);
      judge(moved(swapped(rows, random), random), map, c, depth, all);
      judge(altered(rows, random), map, c, depth, all);
    }
  }
  CHECK(all.accepted > 0);
  CHECK(all.refused > 0);
}

TEST_CASE("passes that can run in any order are completed to a step that can") {
  std::uint32_t seed = 1;
  int orders = 0;
  for (Case const& c : cases) {
    CAPTURE(c.name);
    CAPTURE(c.devices);
    RuntimeMap const map = make_map(c.name, c.devices, c.chunks);
    ActionRows rows = lower(make_schedule(c.name, c.devices, c.microbatches, c.chunks), map);
    Random random{seed++};
    for (int i = 0; i < 300; ++i) {
      ActionRows const other = random() % 2 == 0 ? swapped(rows, random) : moved(rows, random);
      if (verify(other, map, c.microbatches)) {
        rows = other;
        Verdict const verdict = verify(complete(rows, map, c.rules), map, c.microbatches, c.rules);
        REQUIRE(to_string(verdict) == "the action table is valid");
        ++orders;
      }
    }
  }
  CHECK(orders > 500);
}

}  // namespace verify_step_mutation_test
