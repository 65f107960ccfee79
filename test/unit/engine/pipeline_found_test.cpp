// SPDX-License-Identifier: Apache-2.0
// A table that was found, as a type: the bits of one device. test/support/table_schedule.hpp is
// what
//   schedule --schedule search --stages 2 --microbatches 4 --cost 4,5,4 --memory 4 --format type
// prints, as test/examples/schedule_test.py sees.

#include <pipeline_parity.hpp>
#include <table_schedule.hpp>

namespace tandem::test {
namespace pipeline_found_test {

static_assert(PipelineSchedule<TableSchedule> && TableSchedule::turns_back);

TEST_CASE("two devices that run a table that was found have the bits of one") {
  Watchdog const watchdog{"a table that was found"};
  Trainer<DeepNet, OneDevice<Reproducible<>>, Host> one{parity_options()};
  Trainer<DeepNet, InFour<TableSchedule, 4, Reproducible<>>, Host> many{parity_options()};
  compare_bits(one, many);
}

}  // namespace pipeline_found_test
}  // namespace tandem::test
