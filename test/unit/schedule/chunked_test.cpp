// SPDX-License-Identifier: Apache-2.0
// Tables whose microbatches come in chunks of time: what verify() takes and refuses, how many are
// live, and how long they take.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/one_f_one_b.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/step.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace chunked_test {

using namespace tandem;

struct Case {
  char const* name;
  int devices;
  int microbatches;
  int parts = 1;  // a device
};

constexpr Case cases[] = {
    {"sequential", 3, 2},     {"gpipe", 2, 1},          {"gpipe", 4, 5},
    {"one_f_one_b", 2, 1},    {"one_f_one_b", 2, 4},    {"one_f_one_b", 4, 7},
    {"zero_bubble_h1", 2, 3}, {"zero_bubble_h1", 4, 6}, {"zero_bubble_h2", 3, 5},
    {"interleaved", 2, 4, 2}, {"interleaved", 4, 8, 3}, {"zero_bubble_v", 2, 4},
    {"zero_bubble_v", 4, 7},  {"v_half", 4, 6},         {"v_min", 3, 5},
    {"dual_pipe_v", 2, 5},    {"chimera", 4, 4},        {"chimera", 4, 8},
    {"dual_pipe", 4, 10}};

ActionRows table_of(Case const& c, int chunks) {
  return lower(chunked(make_schedule(c.name, c.devices, c.microbatches, c.parts), chunks),
               make_map(c.name, c.devices, c.parts));
}

constexpr auto map = chain_map<2>();
constexpr auto small = lower(chunked<3>(schedule_table<OneFOneB, 2, 2>()), map);
static_assert(verify(small, map, 2, 1, 3));
static_assert(!verify(small, map, 2, 1, 1));
static_assert(live_microbatches(small, map, 0) == 6 && live_microbatches(small, map, 1) == 3);

TEST_CASE("numbers count chunks forward, and back from the last of each microbatch") {
  for (int index = 0; index < 12; ++index) {
    int const own = chunk_of(ActionKind::backward, index, 4);
    CHECK(chunk_of(ActionKind::forward, index, 4) == index);
    CHECK(own / 4 == index / 4);
    CHECK(own % 4 == 3 - index % 4);
    CHECK(chunk_of(ActionKind::send_backward, index, 4) == own);
    CHECK(chunk_of(ActionKind::receive_backward, index, 4) == own);
    CHECK(chunk_of(ActionKind::input_gradient, index, 4) == own);
    CHECK(chunk_of(ActionKind::weight_gradient, index, 4) == own);
    CHECK(chunk_of(ActionKind::receive_forward, index, 4) == index);
    CHECK(chunk_of(ActionKind::reduce_gradient, index, 4) == index);
  }
}

TEST_CASE("a schedule in chunks passes, and holds as many microbatches in as many parts") {
  for (Case const& c : cases) {
    for (int const chunks : {1, 2, 5}) {
      CAPTURE(std::string{c.name});
      CAPTURE(c.devices);
      CAPTURE(chunks);
      RuntimeMap const stages = make_map(c.name, c.devices, c.parts);
      ActionRows const rows = table_of(c, chunks);
      Verdict const verdict = verify(rows, stages, c.microbatches, 1, chunks);
      CHECK(to_string(verdict) == to_string(Verdict{}));
      StepRules const rules{.replicas = 2, .chunks = chunks};
      Verdict const whole = verify(complete(rows, stages, rules), stages, c.microbatches, rules);
      CHECK(to_string(whole) == to_string(Verdict{}));
      ActionRows const plain = table_of(c, 1);
      for (int s = 0; s < StageMapView{stages}.stages; ++s) {
        CAPTURE(s);
        CHECK(live_microbatches(rows, stages, s) == chunks * live_microbatches(plain, stages, s));
        CHECK(deferred_microbatches(rows, stages, s) ==
              chunks * deferred_microbatches(plain, stages, s));
      }
    }
  }
}

// All microbatches go through a device's first stage before the second: it sends one on before it
// has taken all.
TEST_CASE("where chunks would wait forever, the verdict says so") {
  RuntimeMap const stages = make_map("interleaved", 2, 2);
  ActionRows rows(2);
  for (int const stage : {0, 1, 2, 3}) {
    for (int m = 0; m < 3; ++m) {
      rows[static_cast<std::size_t>(stage % 2)].push_back(
          {ActionKind::forward, 0, static_cast<std::int16_t>(stage), m});
    }
  }
  for (int const stage : {3, 2, 1, 0}) {
    for (int m = 0; m < 3; ++m) {
      rows[static_cast<std::size_t>(stage % 2)].push_back(
          {ActionKind::backward, 0, static_cast<std::int16_t>(stage), m});
    }
  }
  CHECK(verify(lower(rows, stages), stages, 3));
  CHECK(verify(lower(chunked(rows, 2), stages), stages, 3, 1, 2).flaw == Flaw::deadlock);
}

/// Where an action stands in a row.
std::size_t find(ActionRows const& rows, std::size_t device, Action const& action) {
  std::size_t at = 0;
  while (!(rows[device][at] == action)) {
    ++at;
  }
  return at;
}

TEST_CASE("a backward before the last forward of its microbatch is refused by name") {
  ActionRows rows = table_of({"one_f_one_b", 2, 1}, 3);
  // Rank 1: F0 F1 F2 B0 B1 B2, with messages; B0, which is of the last rows, before F2.
  auto& row = rows[1];
  std::size_t const last = find(rows, 1, {ActionKind::forward, 0, 1, 2});
  std::size_t const back = find(rows, 1, {ActionKind::backward, 0, 1, 0});
  std::swap(row[last], row[back]);
  Verdict const verdict = verify(rows, make_map("one_f_one_b", 2), 1, 1, 3);
  CAPTURE(to_string(verdict));
  CHECK(verdict.flaw == Flaw::before_its_input);
  CHECK(to_string(verdict).find("1B0") != std::string::npos);
  CHECK(to_string(verdict).find("1F2") != std::string::npos);
}

TEST_CASE("chunks that go back in the order of time are refused by name") {
  ActionRows rows = table_of({"one_f_one_b", 2, 1}, 3);
  for (Action& action : rows[1]) {
    if (action.kind == ActionKind::backward) {
      action.index = 2 - action.index;
    }
  }
  Verdict const verdict = verify(rows, make_map("one_f_one_b", 2), 1, 1, 3);
  CHECK(verdict.flaw == Flaw::retired_out_of_order);
  CHECK(to_string(verdict).find("1B2") != std::string::npos);
}

TEST_CASE("a wave through p stages of one microbatch in K chunks takes K + p - 1 of each pass") {
  for (char const* const name : {"gpipe", "one_f_one_b"}) {
    for (int devices = 2; devices <= 5; ++devices) {
      for (int const chunks : {1, 2, 5, 8}) {
        RuntimeMap const stages = make_map(name, devices);
        auto const timeline = simulate(table_of({name, devices, 1}, chunks), stages,
                                       {.forward = 2, .input_gradient = 3, .weight_gradient = 1});
        CAPTURE(devices);
        CAPTURE(chunks);
        CHECK(timeline.makespan == (chunks + devices - 1) * (2 + 4));
        double busy = 0.0;
        for (int d = 0; d < devices; ++d) {
          busy += static_cast<double>(timeline.device[d].busy);
        }
        CHECK(std::fabs(busy / static_cast<double>(timeline.makespan) -
                        ranks_in_wave(devices, 1, chunks)) <= 1e-12);
      }
    }
  }
}

}  // namespace chunked_test
