// Prints the action table of a pipeline schedule, draws it, or says what it costs; checks tables.
//   schedule --schedule one_f_one_b --stages 4 --microbatches 8 --format svg > 1f1b.svg
//   schedule --check table.csv
// Flags: schedule --help. Needs no device.

#include <cstdio>

#include <tandem/strategy/makespan.hpp>
#include <tandem/strategy/schedule_summary.hpp>
#include <tandem/strategy/schedule_svg.hpp>
#include <tandem/strategy/table_check.hpp>
#include <tandem/strategy/table_csv.hpp>

#include "schedule_arguments.hpp"

namespace td = tandem;

td::CheckedTable make_table(ScheduleArguments const& arguments) {
  std::string const& file = arguments.check;
  if (!file.empty()) {
    int const copies = arguments.schedule == "chimera" ? 2 : arguments.copies;
    return td::check_table(td::read_table_csv(read_text(file), file), copies, arguments.depth,
                           file);
  }
  int const ranks = arguments.stages;
  td::CheckedTable table;
  table.passes =
      td::make_schedule(arguments.schedule, ranks, arguments.microbatches, arguments.chunks);
  table.map = td::make_map(arguments.schedule, ranks, arguments.chunks);
  table.lowered = td::lower(table.passes, table.map);
  table.microbatches = arguments.microbatches;
  td::Verdict const verdict =
      td::verify(table.lowered, table.map, table.microbatches, arguments.depth);
  if (!verdict)
    throw std::runtime_error{arguments.schedule + ": " + td::to_string(verdict) +
                             "; give a larger --depth"};
  return table;
}

std::string print(td::CheckedTable const& table, ScheduleArguments const& arguments) {
  bool const checked = !arguments.check.empty();
  std::string const size = counted(table.map.devices, "rank") + ", " +
                           counted(table.map.device.size(), "stage") + ", " +
                           counted(table.microbatches, "microbatch", "es");
  std::string const title = (checked ? arguments.check : arguments.schedule) + ": " + size;
  if (arguments.format == "csv")
    return td::to_csv_by_time(table.passes, table.map);
  if (arguments.format == "csv-lowered")
    return td::to_csv(table.lowered);
  if (checked && arguments.format.empty())
    return "valid: " + size + "\n" + td::live_text(table.lowered, table.map);
  auto const timeline = td::simulate(table.lowered, table.map, arguments.costs, arguments.depth);
  return arguments.format == "svg"
             ? td::schedule_svg(table.lowered, timeline, title)
             : td::schedule_summary(table.lowered, table.map, timeline, title);
}

int main(int argc, char** argv) try {
  ScheduleArguments const arguments = parse_arguments({argv + 1, argv + argc});
  std::string const text = arguments.help ? schedule_help : print(make_table(arguments), arguments);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw std::runtime_error{"the output cannot be written; is the disk full?"};
} catch (td::TableError const& error) {  // says the file, line and column
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
} catch (std::exception const& error) {
  std::fprintf(stderr, "schedule: %s\n", error.what());
  return 2;
}
