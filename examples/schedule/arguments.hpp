// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The command line of schedule: its flags, each once, and what they need of each other.

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/search_schedule.hpp>
#include <tandem/schedule/time/timeline.hpp>

#include "../command_line.hpp"

inline constexpr int most_depth = 65'536;

struct ScheduleArguments {
  std::string help;  // not asked for
  std::string schedule;
  std::string check;
  std::string format;
  std::string averaging;
  int stages = 0;
  int microbatches = 0;
  int chunks = 1;
  int time_chunks = 1;
  int steps = 0;
  int copies = 1;
  int depth = 1;
  bool depth_is_given = false;
  int memory = 0;
  tandem::ActionCosts costs;
};

inline constexpr char const* schedule_usage =
    R"(usage: schedule --schedule NAME --stages P --microbatches M [OPTION ...]
       schedule --check FILE.csv [--schedule NAME | --copies 2] [OPTION ...]

Prints the action table of a pipeline schedule, a picture of it, or what it costs; or checks a
table.)";

/// "1,2,3" or "1,2,3,1"
inline tandem::ActionCosts costs_in(std::string_view text) {
  std::vector<int> costs;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t const comma = std::min(text.find(',', begin), text.size());
    costs.push_back(number_in(text.substr(begin, comma - begin), 0, 1'000'000, "--cost"));
    begin = comma + 1;
  }
  if (costs.size() != 3 && costs.size() != 4) {
    throw std::runtime_error{
        "--cost takes three numbers, such as 1,1,1, or a fourth of a "
        "transfer, not '" +
        std::string{text} + "'"};
  }
  return {.forward = costs[0],
          .input_gradient = costs[1],
          .weight_gradient = costs[2],
          .transfer = costs.size() == 4 ? costs[3] : 0};
}

/// Makes the flags of @p app set @p a.
inline void add_flags(CLI::App& app, ScheduleArguments& a) {
  auto const add = [&app](char const* name, char const* takes, auto& to, char const* help) {
    return app.add_option(name, to, help)->type_name(takes);
  };
  app.option_defaults()->group("Flags");
  std::string const schedules = tandem::schedule_names(false) +
                                "; asynchronous: " + tandem::schedule_names(true) +
                                "; search: the fastest that is found for --cost and --memory";
  add("--schedule", "NAME", a.schedule, schedules.c_str());
  add("--stages", "P", a.stages,
      "ranks of one replica; each has one stage, or --chunks stages, or with zero_bubble_v, "
      "v_half, v_min and dual_pipe_v two, or with chimera, dual_pipe and cross_model one stage of "
      "each of two copies")
      ->transform(number(1, 1024));
  add("--microbatches", "M", a.microbatches, "of the replica in a step")
      ->transform(number(1, 65'536));
  add("--chunks", "V", a.chunks,
      "stages a rank, of interleaved (default 1); of search the most, up to 4 (default 2)")
      ->transform(number(1, 64));
  add("--time-chunks", "K", a.time_chunks,
      "of synchronous schedules: chunks of time in which each microbatch's rows come, a pass each "
      "(default 1)")
      ->transform(number(1, 1024));
  add("--steps", "N", a.steps,
      "of an asynchronous schedule, whose table is unrolled (default as many as show how it fills, "
      "two periods and how it is drained)")
      ->transform(number(1, tandem::most_unrolled_steps));
  add("--averaging", "RULE", a.averaging,
      "adds what ends a step, its sums and updates, and of cross_model how its two models are kept "
      "together: "
      "gradients, weights, or overlapped (weights, while passes compute)")
      ->check(one_of({"gradients", "weights", "overlapped"}));
  app.add_option_function<std::string>(
         "--cost", [&a](std::string const& text) { a.costs = costs_in(text); },
         "times of forward, input gradient and weight gradient as whole numbers (default 1,1,1), "
         "and "
         "of a message (default 0); B, both gradients in one pass, takes I + W")
      ->type_name("F,I,W[,T]");
  add("--memory", "M", a.memory,
      "of search: microbatches of a rank's part of the model that may be live on it (default any "
      "number)")
      ->transform(number(1, 65'536));
  add("--depth", "D", a.depth,
      "messages of a link and direction that may be on their way (default the fewest with which "
      "the table can run, 1 or more); at 0 a send ends together with its receive")
      ->transform(number(0, most_depth));
  add("--format", "FORMAT", a.format,
      "text: makespan, idle times, live microbatches, or chunks of them (default)\n"
      "csv: a line a rank, a cell a time slot, as torch.distributed.pipelining has it\n"
      "csv-lowered: with sends and receives\n"
      "csv-pairs: a forward and a backward pass behind it as PyTorch's OVERLAP_F_B\n"
      "type: a header with the table as a type for Pipeline\n"
      "svg: a picture")
      ->check(one_of({"text", "csv", "csv-lowered", "csv-pairs", "type", "svg"}));
  add("--check", "FILE.csv", a.check,
      "says whether the table in the file can run, or prints it as --format says");
  add("--copies", "C", a.copies,
      "pipelines in the checked table, 1 or 2 (default 1); of search the most, each with a copy of "
      "the model")
      ->transform(number(1, 2));
  app.set_help_flag("--help", "says this");
}

/// @throws std::runtime_error  there is no such schedule, or it does not take what was given
inline void check_schedule_arguments(ScheduleArguments const& arguments) {
  std::string const& name = arguments.schedule;
  if (name == "search") {
    if (!arguments.check.empty() || arguments.chunks > 4 || arguments.steps != 0 ||
        !arguments.averaging.empty() || arguments.depth != 1 || arguments.time_chunks != 1) {
      throw std::runtime_error{
          "--schedule search takes --stages, --microbatches, --cost, --memory, --chunks up to 4, "
          "--copies and --format only"};
    }
    if (1LL * arguments.stages * arguments.microbatches > 10'000) {
      throw std::runtime_error{"--schedule search takes --stages times --microbatches up to 10000"};
    }
    return;
  }
  if (arguments.memory != 0) {
    throw std::runtime_error{"--memory goes with --schedule search; a table of " + name +
                             " is what it is"};
  }
  bool const asynchronous = tandem::make_asynchrony(name, 2, 2).on();
  if (arguments.time_chunks != 1 && (asynchronous || !arguments.averaging.empty())) {
    throw std::runtime_error{
        "--time-chunks goes with synchronous schedules, and without --averaging: a chunk goes on "
        "from what the same weights have made of the rows before"};
  }
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
  long long const all = 1LL * arguments.stages * arguments.microbatches *
                        std::max(arguments.steps, arguments.time_chunks);
  if (all > 1'000'000) {
    throw std::runtime_error{"--stages times --microbatches times --steps, or --time-chunks, is " +
                             std::to_string(all) + "; take numbers with 1000000 at most"};
  }
}

/// What stands together, and what must not be left out.
inline void check_arguments(ScheduleArguments const& arguments, CLI::App const& app) {
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
    if (app.count("--copies") > 0 && arguments.schedule != "search") {
      throw std::runtime_error{
          "--copies goes with --check and --schedule search only; chimera and dual_pipe have two "
          "copies"};
    }
  } else if (arguments.stages != 0 || arguments.microbatches != 0 || arguments.chunks != 1 ||
             arguments.time_chunks != 1 || arguments.steps != 0 || !arguments.averaging.empty()) {
    throw std::runtime_error{
        "--stages, --microbatches, --chunks, --time-chunks, --steps and --averaging do not go with "
        "--check: the file says them"};
  }
  if (!arguments.schedule.empty()) {
    check_schedule_arguments(arguments);
  }
}

/// @throws std::runtime_error  a flag has a fault, is missing, or does not go with another
inline ScheduleArguments parse_schedule_arguments(std::vector<std::string> words) {
  ScheduleArguments a;
  CLI::App app{schedule_usage};
  add_flags(app, a);
  a.help = parse(app, std::move(words));
  if (a.help.empty()) {
    a.depth_is_given = app.count("--depth") > 0;
    if (a.schedule == "search" && app.count("--chunks") == 0) {
      a.chunks = tandem::ScheduleTask{}.chunks;
    }
    check_arguments(a, app);
  }
  return a;
}
