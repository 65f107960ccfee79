// SPDX-License-Identifier: Apache-2.0
// Fuzzes the command line of schedule, a line an argument; no file is read. Small
// schedules that are accepted are made.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <tandem/core/error.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>

#include "../../examples/schedule/arguments.hpp"
#include "require.hpp"

namespace {

using fuzz::require;

void make(ScheduleArguments const& a) {
  require(a.copies >= 1 && a.copies <= 2 && a.depth >= 0 && a.depth <= 65'536);
  if (!a.help.empty() || !a.check.empty() || a.stages * a.microbatches * a.chunks > 1000 ||
      a.steps > 20) {
    return;
  }
  if (a.schedule == "search") {
    return;  // which takes long; its unit test has it
  }
  auto const rows = tandem::make_schedule(a.schedule, a.stages, a.microbatches, a.chunks, a.steps);
  auto const map = tandem::make_map(a.schedule, a.stages, a.chunks);
  require(tandem::lower(rows, map).size() == rows.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    make(parse_schedule_arguments(fuzz::words_of(data, size)));
  } catch (std::runtime_error const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
