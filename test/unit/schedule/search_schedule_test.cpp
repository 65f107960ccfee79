// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

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
          CHECK(found.bound_half_ticks <= found.half_ticks);
          CHECK(100 * found.half_ticks <= 102 * found.bound_half_ticks);
          ++points;
        }
      }
    }
  }
  CHECK(points == 64);
}

TEST_CASE(
    "with little memory never worse than what the library has for it, and within the memory") {
  for (int const p : {2, 3, 4, 6}) {
    for (int memory = 1; memory <= p; ++memory) {
      for (ActionCosts const& one :
           {costs[0], ActionCosts{.forward = 2, .input_gradient = 3, .weight_gradient = 1}}) {
        CAPTURE(p);
        CAPTURE(memory);
        FoundSchedule const found =
            search_schedule({.devices = p, .microbatches = 2 * p, .costs = one, .memory = memory});
        bool const halves = found.map.device.size() == 2 * found.rows.size();
        int const part = halves ? 1 : 2;
        CHECK(detail::most_live_halves(found.rows, part) <= 2 * memory);
        for (char const* const name :
             {"sequential", "one_f_one_b", "zero_bubble_h1", "zero_bubble_v", "v_half", "v_min"}) {
          RuntimeMap const map = make_map(name, p);
          ActionRows const rows = make_schedule(name, p, 2 * p);
          int const whole = map.device.size() == rows.size() ? 2 : 1;
          if (detail::most_live_halves(rows, whole) <= 2 * memory) {
            ActionCosts scaled = one;
            scaled.forward *= whole;
            scaled.input_gradient *= whole;
            scaled.weight_gradient *= whole;
            CAPTURE(name);
            CHECK(found.half_ticks <= simulate(lower(rows, map), map, scaled).makespan);
          }
        }
      }
    }
  }
  CHECK_THROWS_AS(static_cast<void>(search_schedule({.devices = 0})), ContractError);
}

TEST_CASE("a table as a type") {
  std::string const text = to_type(make_schedule("one_f_one_b", 1, 1), 1, false, "Mine");
  CHECK(text.find("struct Mine {") != std::string::npos);
  CHECK(text.find("    sink(0, {ActionKind::forward, 0, 0, 0});\n"
                  "    sink(0, {ActionKind::backward, 0, 0, 0});\n") != std::string::npos);
  CHECK(text.find("splits_backward = false") != std::string::npos);
  CHECK(to_type(make_schedule("v_min", 1, 1), 1, true, "Mine").find("chunks = 2") !=
        std::string::npos);
}

}  // namespace search_schedule_test
