// Prints the action table of a pipeline schedule, draws it, or says what it costs; checks tables.
//   schedule --schedule one_f_one_b --stages 4 --microbatches 8 --format svg > 1f1b.svg
//   schedule --check table.csv
// Flags: schedule --help. Needs no device.

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/type_writer.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/search_schedule.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/step_period.hpp>
#include <tandem/schedule/time/summary.hpp>
#include <tandem/schedule/verify/step.hpp>

#include "arguments.hpp"

namespace td = tandem;

td::Verdict verify(td::CheckedTable const& table, td::Averaging const& averaging,
                   ScheduleArguments const& arguments) {
  if (table.asynchrony.on())
    return td::verify(table.lowered, table.map, table.microbatches, table.asynchrony,
                      arguments.depth);
  if (!arguments.averaging.empty())
    return td::verify(table.lowered, table.map, table.microbatches,
                      td::StepRules{.averaging = averaging}, arguments.depth);
  return td::verify(table.lowered, table.map, table.microbatches, arguments.depth,
                    arguments.time_chunks);
}

// Of the file if there is one, which was read.
td::CheckedTable table_at_depth(ScheduleArguments const& arguments, td::ReadTable const& read) {
  std::string const& file = arguments.check;
  std::string const& name = arguments.schedule;
  if (!file.empty()) {
    int const copies = name.empty() ? arguments.copies : td::make_map(name, 2).copies;
    return td::check_table(read, copies, arguments.depth, file, name);
  }
  int const ranks = arguments.stages;
  td::Averaging averaging;
  averaging.what =
      arguments.averaging == "gradients" ? td::Averaged::gradients : td::Averaged::weights;
  averaging.overlapped = arguments.averaging == "overlapped";
  td::CheckedTable table;
  table.passes =
      td::make_schedule(name, ranks, arguments.microbatches, arguments.chunks, arguments.steps);
  table.asynchrony = td::make_asynchrony(name, ranks, arguments.microbatches);
  table.passes = td::chunked(table.passes, arguments.time_chunks);
  table.map = td::make_map(name, ranks, arguments.chunks);
  table.lowered = td::lower(table.passes, table.map);
  if (!arguments.averaging.empty()) {
    table.lowered = td::complete(table.lowered, table.map, {.averaging = averaging});
    table.passes = td::without_messages(table.lowered);
  }
  table.microbatches = arguments.microbatches;
  if (table.asynchrony.on()) {
    int const steps = arguments.steps > 0 ? arguments.steps : td::unrolled_steps(table.asynchrony);
    table.microbatches *= steps;
  }
  td::Verdict const verdict = verify(table, averaging, arguments);
  if (!verdict)
    throw std::runtime_error{name + ": " + td::to_string(verdict) + "; give a larger --depth"};
  return table;
}

bool is_valid(ScheduleArguments const& arguments, td::ReadTable const& read) {
  try {
    table_at_depth(arguments, read);
    return true;
  } catch (std::runtime_error const&) {
    return false;
  }
}

// Without --depth, the table at the least depth at which it is valid, which is then --depth.
td::CheckedTable make_table(ScheduleArguments& arguments) {
  std::string const& file = arguments.check;
  td::ReadTable const read =
      file.empty() ? td::ReadTable{} : td::read_table_csv(read_text(file), file);
  int fails = 1;
  try {
    return table_at_depth(arguments, read);
  } catch (std::runtime_error const&) {
    ScheduleArguments most = arguments;
    most.depth = most_depth;
    if (arguments.depth_is_given || !is_valid(most, read))
      throw;
    arguments.depth = most_depth;
  }
  while (arguments.depth - fails > 1) {
    ScheduleArguments half = arguments;
    half.depth = (arguments.depth + fails) / 2;
    (is_valid(half, read) ? arguments.depth : fails) = half.depth;
  }
  return table_at_depth(arguments, read);
}

std::string type_of(td::CheckedTable const& table) {
  if (table.descends)
    throw std::runtime_error{
        "--format type takes backward passes in ascending order of microbatches only, as Pipeline "
        "does; take --format csv"};
  std::optional<td::StageLayout> const layout = td::layout_of(table.map);
  if (table.asynchrony.on() || !layout)
    throw std::runtime_error{
        "--format type takes a chain of stages in turn over the ranks, one that turns back at the "
        "last rank, or two copies in opposite directions; take --format csv and "
        "TrainerOptions::rows"};
  return td::to_type(table.passes, table.microbatches, *layout, "TableSchedule");
}

// "ranks at work: 1.667; in chunks of time of stages of one cost 1.667 at most"
std::string wave_text(td::CheckedTable const& table, td::TimelineRows const& timeline, int chunks) {
  if (chunks == 1)
    return {};
  double busy = 0;
  for (int d = 0; d < table.map.devices; ++d)
    busy += double(timeline.device[d].busy);
  char text[120];
  std::snprintf(text, sizeof text,
                "ranks at work: %.3f; in chunks of time of stages of one cost %.3f at most\n",
                busy / double(timeline.makespan),
                td::ranks_in_wave(table.map.devices, table.microbatches, chunks));
  return text;
}

// "step behind step without a barrier (PostValidated): 24 each"
std::string period_text(td::CheckedTable const& table, ScheduleArguments const& arguments) {
  bool const whole = arguments.averaging.empty() && arguments.time_chunks == 1;
  if (table.map.copies > 1 || table.asynchrony.on() || !whole)
    return {};
  td::Ticks const each = td::step_period(table.lowered, table.map, table.microbatches,
                                         arguments.costs, arguments.depth);
  return "step behind step without a barrier (PostValidated): " + std::to_string(each) + " each\n";
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
  if (arguments.format == "csv-pairs")
    return td::to_csv_in_pairs(table.passes);
  if (arguments.format == "type")
    return type_of(table);
  std::string const depth = arguments.depth > 1 && !arguments.depth_is_given
                                ? "with " + counted(arguments.depth, "message") +
                                      " in flight for each link and direction\n"
                                : "";
  std::string const order = table.descends ? "backward passes in descending order of microbatches, "
                                             "which TrainerOptions::rows does not take\n"
                                           : "";
  if (checked && arguments.format.empty())
    return "valid: " + size + "\n" + depth + order + td::live_text(table.lowered, table.map) +
           td::staleness_text(table.asynchrony);
  auto const timeline = td::simulate(table.lowered, table.map, arguments.costs,
                                     arguments.depth * arguments.time_chunks);
  return arguments.format == "svg"
             ? td::schedule_svg(table.lowered, timeline, title)
             : td::schedule_summary(table.lowered, table.map, timeline, title,
                                    arguments.time_chunks) +
                   depth + order + wave_text(table, timeline, arguments.time_chunks) +
                   period_text(table, arguments) + td::staleness_text(table.asynchrony);
}

// Prints the fastest table; times are in twelfths, so that those of all parts are whole numbers.
std::string search(ScheduleArguments arguments) {
  td::FoundSchedule const found = td::search_schedule({.devices = arguments.stages,
                                                       .microbatches = arguments.microbatches,
                                                       .costs = arguments.costs,
                                                       .memory = arguments.memory,
                                                       .chunks = arguments.chunks,
                                                       .copies = arguments.copies});
  td::CheckedTable table;
  table.passes = found.rows;
  table.map = found.map;
  table.lowered = td::lower(table.passes, table.map);
  table.microbatches = arguments.microbatches;
  arguments.costs = td::stage_costs(arguments.costs, found.chunks);
  std::string text = print(table, arguments);
  if (arguments.format.empty() || arguments.format == "text")
    text += "found: " + found.found_by + ", " + counted(found.chunks, "stage") + " a rank; " +
            std::to_string(found.time) + " twelfths of --cost, no table takes less than " +
            std::to_string(found.bound) + "\n";
  return text;
}

std::string text_of(std::vector<std::string> words) {
  ScheduleArguments arguments = parse_schedule_arguments(std::move(words));
  if (!arguments.help.empty())
    return arguments.help;
  return arguments.schedule == "search" ? search(arguments)
                                        : print(make_table(arguments), arguments);
}

int main(int argc, char** argv) { return run("schedule", text_of, {argv + 1, argv + argc}); }
