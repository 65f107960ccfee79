// SPDX-License-Identifier: Apache-2.0
// Two stages a device that turn back at the last one: the numbers of one device, in double and bit
// for bit, and nothing wrong in the memory that the last device's stages share.

#include <tandem/schedule/csv/reader.hpp>

#include <pipeline_parity.hpp>
#include <table_schedule.hpp>

namespace tandem::test {
namespace pipeline_turning_test {

TEST_CASE("two devices of two stages train as one") {
  for_tables<OneDevice<>, InFour<ZeroBubbleV, 4>, Double>(
      {"zero_bubble_v", "v_half", "v_min"}, {1, 2, 3, 4, 7}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

TEST_CASE("tables of whole and of halved backward passes train as one device") {
  for_tables<OneDevice<>, InFour<ZeroBubbleV, 4>, Double>(
      {"dual_pipe_v"}, {4, 5, 8}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

TEST_CASE("four devices of two stages have the bits of one") {
  for_tables<OneDevice<Reproducible<>>, InEight<ZeroBubbleV, 4, Reproducible<>>, Host>(
      {"zero_bubble_v", "v_half", "v_min"}, {1, 4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

// 1F1 must not take the memory of what 1F0 has made, which 2W0 reads behind it.
constexpr char const* late_weight_gradient =
    "0F0,3F0,3I0,3W0,0F1,0I0,0W0,3F1,3I1,3W1,0I1,0W1\n"
    "1F0,2F0,2I0,1I0,1W0,1F1,2F1,2W0,2I1,1I1,2W1,1W1\n";

TEST_CASE("a weight gradient may stand behind the one of the stage that it reads from") {
  Watchdog const watchdog{"a weight gradient that is late"};
  TrainerOptions several = parity_options();
  several.rows = read_table_csv(late_weight_gradient, "late").rows;
  TrainerOptions single = parity_options();
  single.rows = make_schedule("sequential", 1, 2);
  Trainer<DeepNet, OneDevice<Reproducible<>>, Host> one{single};
  Trainer<DeepNet, InFour<ZeroBubbleV, 4, Reproducible<>>, Host> many{several};
  compare_bits(one, many);
}

// A table that was found, as a type: what
//   schedule --schedule search --stages 2 --microbatches 4 --cost 4,5,4 --memory 4 --format type
// prints, as test/examples/schedule_test.py sees.
static_assert(PipelineSchedule<TableSchedule> && TableSchedule::turns_back);

TEST_CASE("two devices that run a table that was found have the bits of one") {
  Watchdog const watchdog{"a table that was found"};
  Trainer<DeepNet, OneDevice<Reproducible<>>, Host> one{parity_options()};
  Trainer<DeepNet, InFour<TableSchedule, 4, Reproducible<>>, Host> many{parity_options()};
  compare_bits(one, many);
}

}  // namespace pipeline_turning_test
}  // namespace tandem::test
