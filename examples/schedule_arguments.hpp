// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the example schedule reads of its command line and of files.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/io/file.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/time/timeline.hpp>

inline constexpr char const* schedule_help =
    R"(usage: schedule --schedule NAME --stages P --microbatches M [OPTION ...]
       schedule --check FILE.csv [--schedule NAME | --copies 2] [OPTION ...]

Prints the action table of a pipeline schedule, a picture of it, or what it costs; or checks a table.

  --schedule NAME     sequential, gpipe, one_f_one_b, interleaved, zero_bubble_h1, chimera or
                      cross_model; asynchronous: pipedream, pipedream_vertical_sync, pipedream_2bw,
                      delayed_gradient, weight_prediction, features_replay or pmp
  --stages P          ranks of one replica; each has one stage, or --chunks stages, or with chimera
                      and cross_model one stage of each of two copies
  --microbatches M    of the replica in a step
  --chunks V          stages a rank, of interleaved (default 1)
  --steps N           of an asynchronous schedule, whose table is unrolled (default as many as show
                      how it fills, two periods and how it is drained)
  --averaging RULE    adds the updates of a step, and of cross_model how its two models are kept
                      together: gradients, weights, or overlapped (weights, while passes compute)
  --cost F,I,W        times of forward, input gradient and weight gradient as whole numbers
                      (default 1,1,1); B, both gradients in one pass, takes I + W
  --depth D           messages of a link and direction that may be on their way (default 1); at 0 a
                      send ends together with its receive
  --format FORMAT     text: makespan, idle times, live microbatches (default)
                      csv: a line a rank, a cell a time slot, as torch.distributed.pipelining has it
                      csv-lowered: with sends and receives
                      svg: a picture
  --check FILE.csv    says whether the table in the file can run, or prints it as --format says
  --copies C          pipelines in the checked table, 1 or 2 (default 1)
  --help

Exits with 2 and one sentence if a flag or the file is not valid.
)";

struct ScheduleArguments {
  std::string schedule;
  std::string check;
  std::string format;
  std::string averaging;
  int stages = 0;
  int microbatches = 0;
  int chunks = 1;
  int steps = 0;
  int copies = 1;
  int depth = 1;
  tandem::ActionCosts costs;
  bool help = false;
};

/// @throws std::runtime_error  @p text is no whole number from @p least to @p most
inline int parse_number(std::string const& flag, std::string_view text, int least, int most) {
  int number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    throw std::runtime_error{flag + " takes a whole number from " + std::to_string(least) + " to " +
                             std::to_string(most) + ", not '" + std::string{text} + "'"};
  }
  return number;
}

inline tandem::ActionCosts parse_costs(std::string_view text) {
  std::vector<int> costs;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t const comma = std::min(text.find(',', begin), text.size());
    costs.push_back(parse_number("--cost", text.substr(begin, comma - begin), 0, 1'000'000));
    begin = comma + 1;
  }
  if (costs.size() != 3) {
    throw std::runtime_error{"--cost takes three numbers, such as 1,1,1, not '" +
                             std::string{text} + "'"};
  }
  return {.forward = costs[0], .input_gradient = costs[1], .weight_gradient = costs[2]};
}

/// @throws std::runtime_error  there is no such schedule, or it does not take what was given
inline void check_schedule_arguments(ScheduleArguments const& arguments) {
  std::string const& name = arguments.schedule;
  bool const asynchronous = tandem::make_asynchrony(name, 2, 2).on();
  if (arguments.steps != 0 && !asynchronous) {
    throw std::runtime_error{"--steps goes with asynchronous schedules; a table of " + name +
                             " is one step"};
  }
  if (!arguments.averaging.empty() && asynchronous) {
    throw std::runtime_error{"--averaging goes with synchronous schedules; the updates of " + name +
                             " are in its table already"};
  }
  if (!arguments.averaging.empty() && arguments.averaging != "gradients" &&
      name != tandem::CrossModel::name) {
    throw std::runtime_error{"--averaging " + arguments.averaging +
                             " goes with --schedule cross_model only, which keeps two models"};
  }
  long long const all = 1LL * arguments.stages * arguments.microbatches * arguments.steps;
  if (all > 1'000'000) {
    throw std::runtime_error{"--stages times --microbatches times --steps is " +
                             std::to_string(all) + "; take numbers with 1000000 at most"};
  }
}

/// What stands together, and what must not be left out.
inline void check_arguments(ScheduleArguments const& arguments, bool copies) {
  if (arguments.check.empty()) {
    if (arguments.schedule.empty() || arguments.stages == 0 || arguments.microbatches == 0) {
      throw std::runtime_error{
          "give --schedule, --stages and --microbatches, or --check FILE.csv; --help says more"};
    }
    long long const passes = 1LL * arguments.stages * arguments.microbatches * arguments.chunks;
    if (passes > 1'000'000) {
      throw std::runtime_error{"--stages times --microbatches times --chunks is " +
                               std::to_string(passes) + "; take numbers with 1000000 at most"};
    }
    if (copies) {
      throw std::runtime_error{
          "--copies goes with --check only; --schedule chimera has two copies"};
    }
  } else if (arguments.stages != 0 || arguments.microbatches != 0 || arguments.chunks != 1 ||
             arguments.steps != 0 || !arguments.averaging.empty()) {
    throw std::runtime_error{
        "--stages, --microbatches, --chunks, --steps and --averaging do not go with --check: the "
        "file says them"};
  }
  if (!arguments.schedule.empty()) {
    check_schedule_arguments(arguments);
  }
}

/// @throws std::runtime_error  a flag is unknown, lacks its value, or has one that it does not take
inline ScheduleArguments parse_arguments(std::vector<std::string> const& words) {
  ScheduleArguments arguments;
  bool copies = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string const& flag = words[i];
    if (flag == "--help") {
      arguments.help = true;
      return arguments;
    }
    bool const known = flag == "--schedule" || flag == "--stages" || flag == "--microbatches" ||
                       flag == "--chunks" || flag == "--cost" || flag == "--depth" ||
                       flag == "--format" || flag == "--check" || flag == "--copies" ||
                       flag == "--steps" || flag == "--averaging";
    if (!known) {
      throw std::runtime_error{"there is no flag '" + flag + "'; --help lists them"};
    }
    if (i + 1 == words.size() || words[i + 1].empty() || words[i + 1].substr(0, 2) == "--") {
      throw std::runtime_error{flag + " lacks its value; --help says what it takes"};
    }
    std::string const& value = words[++i];
    if (flag == "--schedule") {
      arguments.schedule = value;
    } else if (flag == "--stages") {
      arguments.stages = parse_number(flag, value, 1, 1024);
    } else if (flag == "--microbatches") {
      arguments.microbatches = parse_number(flag, value, 1, 65'536);
    } else if (flag == "--chunks") {
      arguments.chunks = parse_number(flag, value, 1, 64);
    } else if (flag == "--cost") {
      arguments.costs = parse_costs(value);
    } else if (flag == "--depth") {
      arguments.depth = parse_number(flag, value, 0, 65'536);
    } else if (flag == "--steps") {
      arguments.steps = parse_number(flag, value, 1, tandem::most_unrolled_steps);
    } else if (flag == "--averaging") {
      if (value != "gradients" && value != "weights" && value != "overlapped") {
        throw std::runtime_error{"--averaging takes gradients, weights or overlapped, not '" +
                                 value + "'"};
      }
      arguments.averaging = value;
    } else if (flag == "--check") {
      arguments.check = value;
    } else if (flag == "--copies") {
      arguments.copies = parse_number(flag, value, 1, 2);
      copies = true;
    } else if (value == "text" || value == "csv" || value == "csv-lowered" || value == "svg") {
      arguments.format = value;
    } else {
      throw std::runtime_error{"--format takes text, csv, csv-lowered or svg, not '" + value + "'"};
    }
  }
  check_arguments(arguments, copies);
  return arguments;
}

/// @throws tandem::FileError  it cannot be read
inline std::string read_text(std::string const& path) {
  auto const bytes = tandem::read_file(path, tandem::text_file_limit);
  return {bytes.begin(), bytes.end()};
}

/// "1 rank", "4 ranks", "8 microbatches".
inline std::string counted(std::size_t count, char const* what, char const* plural = "s") {
  return std::to_string(count) + " " + what + (count == 1 ? "" : plural);
}
