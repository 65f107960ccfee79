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
#include <tandem/schedule/verify/verify.hpp>

#include "mutations.hpp"
#include "reference_simulator.hpp"

namespace verify_mutation_test {

using namespace tandem;

struct Tally {
  int accepted = 0;
  int refused = 0;
};

/// The verdict agrees with the simulator at each depth; a flaw names what is in the table.
void judge(ActionRows const& rows, StageMapView const& map, int microbatches, Tally& tally) {
  for (int const depth : {0, 1, 2, 7}) {
    Verdict const verdict = verify(rows, map, microbatches, depth);
    bool const runs = reference::runs(rows, map, microbatches, depth);
    std::string const sentence = to_string(verdict);
    CAPTURE(depth);
    CAPTURE(sentence);
    REQUIRE(static_cast<bool>(verdict) == runs);
    if (!verdict) {
      REQUIRE(sentence.find("rank " + std::to_string(verdict.rank) + ": " +
                            to_string(verdict.action)) == 0);
    }
    if (depth == 1) {
      ++(runs ? tally.accepted : tally.refused);
    }
  }
}

using namespace mutations;

void check_mutations(ActionRows const& lowered, StageMapView const& map, int microbatches,
                     std::uint32_t seed) {
  Random random{seed};
  Tally plain;
  judge(lowered, map, microbatches, plain);
  REQUIRE(plain.accepted == 1);
  Tally drop;
  Tally twice;
  Tally order;
  Tally change;
  for (int i = 0; i < 60; ++i) {
    judge(dropped(lowered, random), map, microbatches, drop);
    judge(doubled(lowered, random), map, microbatches, twice);
    judge(swapped(lowered, random), map, microbatches, order);
    judge(moved(lowered, random), map, microbatches, order);
    judge(moved(moved(lowered, random), random), map, microbatches, order);
    judge(altered(lowered, random), map, microbatches, change);
    judge(dropped(dropped(lowered, random), random), map, microbatches, drop);
  }
  CHECK(drop.accepted == 0);
  CHECK(twice.accepted == 0);
  CHECK(order.refused > 0);
}

struct Case {
  char const* name;
  int devices;
  int microbatches;
  int chunks;
};

TEST_CASE("a changed table is refused exactly where a simulation of it fails") {
  constexpr Case cases[] = {
      {"sequential", 3, 4, 1},     {"gpipe", 4, 5, 1},          {"one_f_one_b", 2, 3, 1},
      {"one_f_one_b", 4, 7, 1},    {"interleaved", 2, 4, 2},    {"interleaved", 3, 6, 3},
      {"zero_bubble_h1", 4, 6, 1}, {"zero_bubble_h1", 2, 5, 1}, {"chimera", 4, 4, 1},
      {"chimera", 4, 10, 1},       {"one_f_one_b", 1, 4, 1},    {"interleaved", 1, 3, 3}};
  std::uint32_t seed = 1;
  for (Case const& c : cases) {
    CAPTURE(c.name);
    CAPTURE(c.devices);
    CAPTURE(c.microbatches);
    RuntimeMap const map = make_map(c.name, c.devices, c.chunks);
    ActionRows const rows = make_schedule(c.name, c.devices, c.microbatches, c.chunks);
    check_mutations(lower(rows, map), map, c.microbatches, seed++);
  }
}

/// Two branches on one device: both get their input over one link, in the order of the edges, but
/// the second goes first.
TEST_CASE("the same, of a placed graph with a shared link") {
  StageMap<4, 4> const map{.devices = 2,
                           .links = 3,
                           .device = {0, 1, 1, 0},
                           .edge = {{0, 1, 0}, {0, 2, 0}, {1, 3, 1}, {2, 3, 2}}};
  constexpr int order[] = {0, 2, 1, 3, 3, 1, 2, 0};
  for (int const microbatches : {1, 4}) {
    ActionRows rows(2);
    for (int m = 0; m < microbatches; ++m) {
      for (int i = 0; i < 8; ++i) {
        ActionKind const kind = i < 4 ? ActionKind::forward : ActionKind::backward;
        rows[static_cast<std::size_t>(map.device[order[i]])].push_back(
            {kind, 0, static_cast<std::int16_t>(order[i]), m});
      }
    }
    check_mutations(lower(rows, map), map, microbatches, 99);
  }
}

TEST_CASE("every schedule runs in the simulation wherever verify() says so") {
  for (Case const& c :
       {Case{"sequential", 1, 1, 1}, Case{"gpipe", 1, 1, 1}, Case{"one_f_one_b", 1, 1, 1},
        Case{"interleaved", 1, 1, 2}, Case{"interleaved", 1, 1, 3}, Case{"zero_bubble_h1", 1, 1, 1},
        Case{"chimera", 2, 2, 1}}) {
    bool const pairs = std::string{c.name} == "chimera";
    bool const groups = std::string{c.name} == "interleaved";
    for (int devices = c.devices; devices <= 6; devices += pairs ? 2 : 1) {
      for (int m = c.microbatches; m <= 12; m += pairs ? 2 : 1) {
        if (groups && m % devices != 0) {
          continue;
        }
        CAPTURE(c.name);
        CAPTURE(devices);
        CAPTURE(m);
        RuntimeMap const map = make_map(c.name, devices, c.chunks);
        ActionRows const rows = lower(make_schedule(c.name, devices, m, c.chunks), map);
        for (int const depth : {0, 1, 3}) {
          Verdict const verdict = verify(rows, map, m, depth);
          CHECK(static_cast<bool>(verdict) == reference::runs(rows, map, m, depth));
          CHECK((depth == 0 || verdict));
        }
      }
    }
  }
}

}  // namespace verify_mutation_test
