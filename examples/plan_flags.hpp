// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The flags of the example plan, each once: what it takes and means, with what it goes, and where
/// it is kept. The help and the checks are made from this.

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/plan/epochs/epochs.hpp>

#include "plan_arguments.hpp"
#include "plan_values.hpp"

struct PlanFlag {
  std::string_view name;
  std::string_view takes;  ///< empty: nothing
  unsigned modes;          ///< that it goes with
  unsigned needed;         ///< modes that cannot be without it
  std::string_view help;
  void (*read)(PlanArguments& to, FlagValue const& from);
};

inline constexpr unsigned of_graphs = searching | placing | simulating;
inline constexpr unsigned of_all = of_graphs | partitioning;

inline constexpr PlanFlag plan_flags[] = {
    {"--net", "NAME", of_graphs, 0,
     "googlenet, resnet18, resnet50, vgg16 or inception_v3, with computed costs",
     [](auto& a, auto const& v) { a.net = v.text; }},
    {"--graph", "FILE.txt", of_graphs, 0,
     "measured costs of operations, as PipeDream's profiler writes them",
     [](auto& a, auto const& v) { a.graph = v.text; }},
    {"--profile", "FILE.json", of_graphs, 0, "times that the example profile has measured",
     [](auto& a, auto const& v) { a.profile = v.text; }},
    {"--machine", "MACHINE", of_graphs, searching | simulating,
     "dgx-1-v100, dgx-a100, dgx-h100, dgx-h200, pcie-box, two-cpus, or a FILE.json",
     [](auto& a, auto const& v) { a.machine = v.text; }},
    {"--all-reduces", "FILE.csv", of_graphs, 0,
     "timed on --machine, a first line devices,bytes,seconds and then one for each: links are "
     "fitted to them",
     [](auto& a, auto const& v) { a.all_reduces = v.text; }},
    {"--batch-per-worker", "B", of_graphs, 0,
     "samples of a step, of a worker with all its devices (default 64); the costs of --graph are "
     "of so many",
     [](auto& a, auto const& v) { a.batch = parse_count(v, 1, 1'000'000); }},
    {"--precision", "P", of_graphs, 0, "of --net: fp32 (default), tf32, bf16 or fp64",
     [](auto& a, auto const& v) { a.precision = parse_precision(v); }},
    {"--svg", "FILE.svg", of_graphs, 0,
     "draws a step: of a worker of the recommended plan, of the placement, or of the table",
     [](auto& a, auto const& v) { a.svg = v.text; }},
    {"--trace", "FILE.json", of_graphs, 0, "the same for chrome://tracing and Perfetto",
     [](auto& a, auto const& v) { a.trace = v.text; }},

    {"--devices", "M", searching | placing, searching | placing,
     "2 to 64 equal devices of --place; else up to 1024, or 1..256: powers of two",
     [](auto& a, auto const& v) { a.counts = parse_devices(v); }},
    {"--memory", "X", searching | placing, 0,
     "of a device: as 16GB, 512MB or a number of bytes (default the machine's, with --place as "
     "much "
     "as needed)",
     [](auto& a, auto const& v) { a.memory = parse_bytes(v); }},
    {"--optimizer", "NAME", searching | placing, 0,
     "sgd, momentum (default) or adam: what a device holds for each weight",
     [](auto& a, auto const& v) {
       a.optimizer = parse_word(v, {"sgd", "momentum", "adam"});
     }},

    {"--epochs", "POINTS", searching, 0,
     "to the target accuracy, by global batch: \"2048:4,4096:7,8192:12,16384:23\" (default: one "
     "epoch whatever the batch, so that only time a sample counts)",
     [](auto& a, auto const& v) { a.epochs = tandem::parse_epoch_points(v.text); }},
    {"--samples", "N", searching, 0,
     "of an epoch (default that of ImageNet, or of CIFAR-10 for its networks)",
     [](auto& a, auto const& v) { a.samples = parse_real(v, 1, 1e15); }},
    {"--late-gradients", "", searching, 0,
     "recommend asynchronous pipelines, too: their epochs are not known, those of synchronous "
     "training are taken",
     [](auto& a, auto const&) { a.late_gradients = true; }},

    {"--place", "", placing, placing, "places the graph on --devices",
     [](auto& a, auto const&) { a.mode = placing; }},
    {"--link-gbps", "X", placing, 0,
     "of the link between two devices, in each direction: gigabytes a second (with --machine by "
     "default its own)",
     [](auto& a, auto const& v) { a.link_gbps = parse_real(v, 1e-6, 1e6); }},
    {"--latency-us", "X", placing, 0,
     "of a transfer: microseconds (default 0, with --machine its own)",
     [](auto& a, auto const& v) { a.latency_us = parse_real(v, 0, 1e9); }},
    {"--seconds", "X", placing, 0, "how long to search for a placement (default 10)",
     [](auto& a, auto const& v) { a.seconds = parse_real(v, 0, 1e6); }},

    {"--simulate", "FILE.csv", simulating, simulating,
     "an action table as the example schedule writes it: a line a device, whose stages are "
     "consecutive parts of the network, cut so that the heaviest is as light as it can be; updates "
     "take no time",
     [](auto& a, auto const& v) {
       a.mode = simulating;
       a.table = v.text;
     }},
    {"--copies", "C", simulating, 0, "pipelines in the table, 1 (default) or 2",
     [](auto& a, auto const& v) { a.copies = parse_count(v, 1, 2); }},
    {"--schedule", "NAME", simulating, 0,
     "of the table, which says its copies; an asynchronous one needs it, such as pipedream",
     [](auto& a, auto const& v) { a.schedule = v.text; }},
    {"--depth", "D", simulating, 0,
     "messages of a link and direction that may be on their way (default 1); at 0 a send ends "
     "together with its receive",
     [](auto& a, auto const& v) { a.depth = parse_count(v, 0, 65'536); }},

    {"--partition", "LOADS", partitioning, partitioning,
     "\"3,1,4,1,5\": whole or decimal numbers, not negative",
     [](auto& a, auto const& v) {
       a.mode = partitioning;
       a.loads = parse_loads(v);
     }},
    {"--parts", "P", partitioning, partitioning, "how many parts",
     [](auto& a, auto const& v) { a.parts = parse_count(v, 1, 1'000'000); }},

    {"--format", "FORMAT", of_all, 0, "text (default) or json; times in seconds",
     [](auto& a, auto const& v) {
       a.format = parse_word(v, {"text", "json"});
     }},
    {"--help", "", of_all, 0, "says this", [](auto& a, auto const&) { a.help = true; }},
};

/// @throws std::runtime_error  there is none of that name
inline PlanFlag const& flag_named(std::string const& name) {
  auto const* const found = std::find_if(std::begin(plan_flags), std::end(plan_flags),
                                         [&](PlanFlag const& flag) { return flag.name == name; });
  if (found == std::end(plan_flags)) {
    throw std::runtime_error{"there is no flag '" + name + "'; --help lists them"};
  }
  return *found;
}

/// "--place", or "--simulate and a search", as sentences name modes.
inline std::string modes_text(unsigned modes) {
  std::vector<std::string_view> words;
  for (auto const& [mode, word] : {std::pair{searching, "a search"},
                                   {placing, "--place"},
                                   {simulating, "--simulate"},
                                   {partitioning, "--partition"}}) {
    if ((modes & mode) != 0) {
      words.emplace_back(word);
    }
  }
  return listed(words, "and");
}
