// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>

#include <tandem/schedule/csv/type_writer.hpp>
#include <tandem/schedule/orders/search_schedule.hpp>
#include <tandem/schedule/time/simulate.hpp>

namespace search_schedule_test {

using namespace tandem;

constexpr ActionCosts costs[] = {
    {.forward = 1, .input_gradient = 1, .weight_gradient = 1},
    {.forward = 4, .input_gradient = 5, .weight_gradient = 4},
    {.forward = 10, .input_gradient = 11, .weight_gradient = 9},
    {.forward = 10, .input_gradient = 10, .weight_gradient = 11},
};

TEST_CASE("within 2 % of the bound on 64 points, with the memory of 1F1B or twice as much") {
  int points = 0;
  for (int const p : {2, 4, 6, 8}) {
    for (int const times : {2, 4}) {
      for (int const memory : {p, 2 * p}) {
        for (ActionCosts const& one : costs) {
          CAPTURE(p);
          CAPTURE(times);
          CAPTURE(memory);
          CAPTURE(one.forward);
          FoundSchedule const found = search_schedule(
              {.devices = p, .microbatches = times * p, .costs = one, .memory = memory});
          CHECK(verify(lower(found.rows, found.map), found.map, times * p));
          CHECK(found.bound <= found.time);
          CHECK(100 * found.time <= 102 * found.bound);
          ++points;
        }
      }
    }
  }
  CHECK(points == 64);
}

// What a table of the library takes, where its activations are within the memory; else nothing.
std::optional<Ticks> time_of(detail::NamedSchedule const& one, ScheduleTask const& task,
                             int chunks) {
  RuntimeMap const map = make_map(one.name, task.devices, chunks);
  ActionRows const rows = make_schedule(one.name, task.devices, task.microbatches, chunks);
  if (task.memory > 0 && detail::most_live_twelfths(rows, chunks) > 12 * task.memory) {
    return std::nullopt;
  }
  ActionRows const lowered = lower(rows, map);
  if (!verify(lowered, map, task.microbatches)) {
    return std::nullopt;
  }
  return simulate(lowered, map, stage_costs(task.costs, chunks)).makespan;
}

// Whether what is found is within the memory and the bound, and no slower than each of the
// library's.
void check_found(ScheduleTask const& task, std::set<std::string>& compared) {
  CAPTURE(task.devices);
  CAPTURE(task.memory);
  CAPTURE(task.chunks);
  CAPTURE(task.copies);
  CAPTURE(task.costs.transfer);
  FoundSchedule const found = search_schedule(task);
  CHECK(verify(lower(found.rows, found.map), found.map, task.microbatches));
  CHECK(found.chunks <= task.chunks);
  CHECK(found.map.copies <= task.copies);
  CHECK(found.bound <= found.time);
  if (task.memory > 0) {
    CHECK(detail::most_live_twelfths(found.rows, found.chunks) <= 12 * task.memory);
  }
  CHECK(simulate(lower(found.rows, found.map), found.map, stage_costs(task.costs, found.chunks))
            .makespan == found.time);
  for (detail::NamedSchedule const& one : detail::all_schedules) {
    for (int chunks = 1; chunks <= task.chunks; ++chunks) {
      bool const has_them = one.takes_chunks ? chunks > 1 : chunks == one.chunks;
      if (has_them && !one.is_asynchronous && one.copies <= task.copies &&
          one.words.runs_on(task.devices) && one.fits(task.devices, task.microbatches)) {
        CAPTURE(one.name);
        CAPTURE(chunks);
        std::optional<Ticks> const takes = time_of(one, task, chunks);
        CHECK((!takes || found.time <= *takes));
        compared.insert(takes ? std::string{one.name} : "");
      }
    }
  }
}

TEST_CASE("never worse than what the library has, within the memory, with transfers or without") {
  std::set<std::string> compared;
  for (ActionCosts const& one :
       {costs[0], ActionCosts{.forward = 2, .input_gradient = 3, .weight_gradient = 1},
        ActionCosts{.forward = 4, .input_gradient = 4, .weight_gradient = 4, .transfer = 1},
        ActionCosts{.forward = 1, .input_gradient = 1, .weight_gradient = 1, .transfer = 3}}) {
    for (int const p : {2, 3, 4}) {
      for (int const memory : {0, 1, 2, p}) {
        check_found({.devices = p, .microbatches = 2 * p, .costs = one, .memory = memory},
                    compared);
      }
      check_found({.devices = p, .microbatches = 2 * p, .costs = one, .chunks = 1}, compared);
      check_found({.devices = p, .microbatches = 2 * p, .costs = one, .chunks = 4, .copies = 2},
                  compared);
    }
  }
  for (char const* const name : {"interleaved", "chimera", "dual_pipe", "dual_pipe_v", "v_half"}) {
    CHECK(compared.count(name) == 1);
  }
}

TEST_CASE("more stages a device, or a second copy, where they are allowed and are faster") {
  ScheduleTask const task{.devices = 4, .microbatches = 8};
  Ticks const one = search_schedule({.devices = 4, .microbatches = 8, .chunks = 1}).time;
  Ticks const two = search_schedule(task).time;
  CHECK(two < one);
  FoundSchedule const copies =
      search_schedule({.devices = 4, .microbatches = 8, .chunks = 1, .copies = 2});
  CHECK(copies.time < one);
  CHECK(copies.map.copies == 2);
  // A message takes as long as eight passes of half a stage: to send half as often is worth more.
  ActionCosts const slow{.forward = 1, .input_gradient = 1, .weight_gradient = 1, .transfer = 4};
  CHECK(search_schedule({.devices = 4, .microbatches = 8, .costs = slow}).chunks == 1);
}

TEST_CASE("what cannot be sought") {
  CHECK_THROWS_AS(static_cast<void>(search_schedule({.devices = 0})), ContractError);
  CHECK_THROWS_AS(static_cast<void>(search_schedule({.chunks = 5})), ContractError);
  CHECK_THROWS_AS(static_cast<void>(search_schedule({.copies = 3})), ContractError);
}

TEST_CASE("a table as a type") {
  std::string const text = to_type(make_schedule("one_f_one_b", 1, 1), 1, {}, "Mine");
  CHECK(text.find("struct Mine {") != std::string::npos);
  CHECK(text.find("    sink(0, {ActionKind::forward, 0, 0, 0});\n"
                  "    sink(0, {ActionKind::backward, 0, 0, 0});\n") != std::string::npos);
  CHECK(text.find("splits_backward = false") != std::string::npos);
  CHECK(to_type(make_schedule("v_min", 1, 1), 1, {.chunks = 2, .turns_back = true}, "Mine")
            .find("chunks = 2") != std::string::npos);
}

TEST_CASE("where the stages of a map are") {
  for (detail::NamedSchedule const& one : detail::all_schedules) {
    CAPTURE(one.name);
    StageLayout const own{one.chunks, one.copies, one.turns_back};
    CHECK((one.is_asynchronous || layout_of(make_map(one.name, 4)) == own || one.takes_chunks));
  }
  CHECK(layout_of(make_map("interleaved", 3, 2)) == StageLayout{.chunks = 2});
  RuntimeMap odd = make_map("interleaved", 3, 2);
  std::swap(odd.device[0], odd.device[1]);
  CHECK(!layout_of(odd));
}

}  // namespace search_schedule_test
