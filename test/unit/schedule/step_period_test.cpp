// SPDX-License-Identifier: Apache-2.0
// What a step takes where no barrier stands between steps: nothing at its ends.

#include <string>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/step_period.hpp>

namespace step_period_test {

using namespace tandem;

struct Times {
  Ticks alone = 0;   ///< the makespan of one step
  Ticks period = 0;  ///< of steps in a row
};

Times times(std::string const& name, int ranks, int microbatches, ActionCosts const& costs = {},
            int chunks = 1) {
  RuntimeMap const map = make_map(name, ranks, chunks);
  ActionRows const rows = lower(make_schedule(name, ranks, microbatches, chunks), map);
  return {simulate(rows, map, costs).makespan, step_period(rows, map, microbatches, costs)};
}

TEST_CASE("of ZeroBubbleH2 and ZeroBubbleV none is idle between steps, alone at their ends") {
  for (int const ranks : {2, 3, 4, 8}) {
    for (int const microbatches : {2 * ranks - 1, 2 * ranks, 4 * ranks}) {
      INFO(ranks << " ranks, " << microbatches << " microbatches");
      Times const h2 = times("zero_bubble_h2", ranks, microbatches);
      CHECK(h2.period == 3 * microbatches);
      CHECK(h2.alone == 3 * microbatches + ranks - 1);
      Times const v = times("zero_bubble_v", ranks, microbatches, {}, 2);
      CHECK(v.period == 6 * microbatches);
      CHECK(v.alone == 6 * microbatches + ranks - 1);
    }
  }
}

TEST_CASE("where the first device ends last, nothing is gained") {
  ActionCosts const costs{.forward = 3, .input_gradient = 4, .weight_gradient = 2};
  Times const whole = times("one_f_one_b", 4, 8, costs);
  CHECK(whole.alone == 11 * 9);
  CHECK(whole.period == whole.alone);
  for (char const* const name : {"gpipe", "interleaved", "one_f_one_b", "zero_bubble_h1", "v_half",
                                 "v_min", "dual_pipe_v"}) {
    INFO(name);
    bool const has_two = name[0] == 'v' || name[0] == 'd' || name[0] == 'i';  // stages a rank
    Times const own = times(name, 4, 8, {}, has_two ? 2 : 1);
    CHECK(own.period == own.alone);
    CHECK(own.alone > 0);
  }
}

TEST_CASE("rows of several steps are those of one, with further microbatches") {
  ActionRows const rows = make_schedule("gpipe", 2, 3);
  ActionRows const two = steps_in_a_row(rows, 3, 2);
  CHECK(two[0].size() == 2 * rows[0].size());
  CHECK(two[1][rows[1].size()] == Action{.stage = 1, .index = 3});
}

}  // namespace step_period_test
