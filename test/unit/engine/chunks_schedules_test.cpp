// SPDX-License-Identifier: Apache-2.0
// Chunks of time in schedules whose devices send each other gradients both ways, and in tables of
// one's own. Schedules of one map are tables for one trainer.

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <support/table_schedule.hpp>

#include <support/chunk_runs.hpp>

namespace chunks_test {

using namespace tandem;

TEST_CASE("down the devices and back up, and a table of one's own") {
  Run<SingleDevice<Microbatches<4>>, Llama> const one;
  using Two = Pipeline<TableSchedule, 4, Chunks<3>, Split<2>, Split<2>, Split<1>, Split<1>>;
  CHECK(distance(one.numbers, Run<Two, Llama>{}.numbers) <= 1e-12);
  for (char const* const name : {"zero_bubble_v", "v_half", "v_min", "dual_pipe_v"}) {
    CAPTURE(name);
    Run<Two, Llama> const two{{}, rows, make_schedule(name, 2, 4)};
    CHECK(distance(one.numbers, two.numbers) <= 1e-12);
  }
}

TEST_CASE("from both ends, in rounds, and with more warming up") {
  Run<SingleDevice<Microbatches<4>>> const one;
  using Both = Pipeline<DualPipe, 4, Chunks<2>, Split<4>, Split<4>>;
  CHECK(distance(one.numbers, Run<Both>{}.numbers) <= 1e-12);
  CHECK(distance(one.numbers, Run<Both>{{}, rows, make_schedule("chimera", 2, 4)}.numbers) <=
        1e-12);
  using Rounds = Pipeline<Interleaved<2>, 4, Chunks<3>, Split<2>, Split<2>, Split<2>, Split<2>>;
  CHECK(distance(one.numbers, Run<Rounds>{}.numbers) <= 1e-12);
  using Warm = Pipeline<ZeroBubbleH2, 4, Chunks<2>, Split<3>, Split<5>>;
  CHECK(distance(one.numbers, Run<Warm>{}.numbers) <= 1e-12);
}

}  // namespace chunks_test
