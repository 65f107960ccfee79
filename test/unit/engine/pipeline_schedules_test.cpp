// SPDX-License-Identifier: Apache-2.0
// A pipeline changes where and when numbers are computed, not what they are: schedules of a chain,
// of two copies in opposite directions, and of two stages a device that turn back at the last one,
// where nothing is wrong in the memory that its stages share.

#include <tandem/schedule/csv/reader.hpp>

#include <pipeline_parity.hpp>
#include <table_schedule.hpp>

namespace tandem::test {
namespace pipeline_schedules_test {

TEST_CASE("two devices have the gradients of one under every schedule of a chain") {
  check_tables<InTwo<ZeroBubbleH1, 4>>(
      Alike::gradients, {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"},
      {1, 4, 7, 8});
}

TEST_CASE("four devices have the gradients of one under every schedule of a chain") {
  check_tables<InFour<ZeroBubbleH1, 4>>(
      Alike::gradients, {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"},
      {1, 4, 7, 8});
}

TEST_CASE("four devices with two copies, whose last weight gradients are apart, have one's bits") {
  check_tables<InFour<DualPipe, 8, Reproducible<>>>(Alike::bits, {"dual_pipe"}, {8});
}

TEST_CASE("two devices of two stages that turn back train as one, in whole and halved passes") {
  using Turning = InFour<ZeroBubbleV, 4>;
  check_tables<Turning, Double>(Alike::numbers, {"zero_bubble_v", "v_half", "v_min"},
                                {1, 2, 3, 4, 7});
  check_tables<Turning, Double>(Alike::numbers, {"dual_pipe_v"}, {4, 5, 8});
}

TEST_CASE("four devices of two stages that turn back have the bits of one") {
  check_tables<InEight<ZeroBubbleV, 4, Reproducible<>>>(
      Alike::bits, {"zero_bubble_v", "v_half", "v_min"}, {1, 4, 8});
}

// A table that was found, as a type: what
//   schedule --schedule search --stages 2 --microbatches 4 --cost 4,5,4 --memory 4 --format type
// prints, as test/examples/schedule_test.py sees.
static_assert(PipelineSchedule<TableSchedule> && TableSchedule::turns_back);

using Found = InFour<TableSchedule, 4, Reproducible<>>;

TEST_CASE("two devices that run a table that was found have the bits of one") {
  check_deep<Found>(Alike::bits);
}

// 1F1 must not take the memory of what 1F0 has made, which 2W0 reads behind it.
constexpr char const* late_weight_gradient =
    "0F0,3F0,3I0,3W0,0F1,0I0,0W0,3F1,3I1,3W1,0I1,0W1\n"
    "1F0,2F0,2I0,1I0,1W0,1F1,2F1,2W0,2I1,1I1,2W1,1W1\n";

TEST_CASE("a weight gradient may stand behind the one of the stage that it reads from") {
  TrainerOptions several = parity_options();
  several.rows = read_table_csv(late_weight_gradient, "late").rows;
  TrainerOptions single = parity_options();
  single.rows = make_schedule("sequential", 1, 2);
  check_deep<Found>(Alike::bits, single, several);
}

}  // namespace pipeline_schedules_test
}  // namespace tandem::test
