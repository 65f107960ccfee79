// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of action tables and what is done with a table: the first byte chooses copies,
// depth and schedule, the rest is the file. What can run is simulated to its end, drawn, and
// written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/error.hpp>
#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/summary.hpp>

#include "require.hpp"

namespace {

using fuzz::require;

void check(tandem::CheckedTable const& table, int copies, int depth, std::string_view schedule) {
  auto const timeline = tandem::simulate(table.lowered, table.map, {}, depth);
  require(timeline.finished);
  std::string const svg = tandem::schedule_svg(table.lowered, timeline, "input");
  require(svg.ends_with("</svg>\n"));
  require(!tandem::schedule_summary(table.lowered, table.map, timeline, "input").empty());
  std::string const csv = tandem::to_csv(table.lowered);
  tandem::ReadTable const read = tandem::read_table_csv(csv, "again");
  require(read.rows == table.lowered);
  tandem::CheckedTable const again = tandem::check_table(read, copies, depth, "again", schedule);
  require(again.lowered == table.lowered && again.microbatches == table.microbatches);
  std::string const pairs = tandem::to_csv_in_pairs(table.passes);
  require(tandem::read_table_csv(pairs, "pairs").rows == table.passes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  constexpr std::string_view schedules[] = {"",
                                            "pipedream",
                                            "pipedream_vertical_sync",
                                            "pipedream_2bw",
                                            "weight_prediction",
                                            "features_replay",
                                            "delayed_gradient",
                                            "pmp"};
  constexpr int depths[] = {0, 1, 2, 65'536};
  int const copies = 1 + (data[0] & 1U);
  int const depth = depths[(data[0] >> 1U) & 3U];
  std::string_view const schedule = schedules[(data[0] >> 3U) & 7U];
  try {
    tandem::ReadTable const read =
        tandem::read_table_csv(fuzz::text_of(data + 1, size - 1), "input");
    check(tandem::check_table(read, copies, depth, "input", schedule), copies, depth, schedule);
  } catch (tandem::TableError const& error) {  // any other exception is a finding
    require(std::string_view{error.what()}.starts_with("input:"));
    fuzz::require_sentence(error.what());
  }
  return 0;
}
