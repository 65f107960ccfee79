// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the example plan reads of its command line.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/plan/epochs.hpp>
#include <tandem/plan/machine.hpp>

inline constexpr char const* plan_help =
    R"(usage: plan --net NAME --machine MACHINE --devices A..B [OPTION ...]
       plan --graph FILE.txt --machine MACHINE --devices A..B [OPTION ...]
       plan --profile FILE.json --machine MACHINE --devices A..B [OPTION ...]
       plan --place --graph FILE.txt --devices M --link-gbps X [OPTION ...]
       plan --place --net NAME --machine MACHINE --devices M [OPTION ...]
       plan --partition "3,1,4,1,5" --parts P [--format json]

Says which strategy trains a network to the target accuracy first: how many workers of how many
devices, how to cut the network, how long it takes and how much memory. Or places a dataflow graph
on devices, so that a step takes the least time; or cuts a chain of loads into consecutive parts of
which the heaviest is as light as it can be.

  --graph FILE.txt    measured costs of operations, as PipeDream's profiler writes them
  --net NAME          googlenet, resnet18, resnet50, vgg16 or inception_v3, with computed costs
  --profile FILE.json times that the example profile has measured
  --machine MACHINE   dgx-1-v100, dgx-a100, dgx-h100, dgx-h200, pcie-box, two-cpus, or a FILE.json
  --batch-per-worker B  samples of a step, of a worker with all its devices (default 64); the costs
                      of --graph are of so many
  --precision P       of --net: fp32 (default), tf32, bf16 or fp64
  --devices M         2 to 64 equal devices of --place; else up to 1024, or 1..256: powers of two
  --epochs POINTS     to the target accuracy, by global batch: "2048:4,4096:7,8192:12,16384:23"
                      (default: one epoch whatever the batch, so that only time a sample counts)
  --samples N         of an epoch (default that of ImageNet, or of CIFAR-10 for its networks)
  --link-gbps X       of the link between two devices, in each direction: gigabytes a second (with
                      --machine by default its own)
  --latency-us X      of a transfer: microseconds (default 0)
  --memory X          of a device: as 16GB, 512MB or a number of bytes (default as much as needed)
  --optimizer NAME    sgd, momentum (default) or adam: what a device holds for each weight
  --seconds X         how long to search for a placement (default 10)
  --late-gradients    recommend asynchronous pipelines, too: their epochs are not known, those of
                      synchronous training are taken
  --svg FILE.svg      draws a step of a worker of the recommended plan, or of the placement
  --trace FILE.json   the same for chrome://tracing and Perfetto
  --format FORMAT     text (default) or json; times in seconds
  --partition LOADS   whole or decimal numbers, not negative
  --parts P           how many parts
  --help

Exits with 2 and one sentence if a flag or the file is not valid.
)";

struct PlanArguments {
  bool place = false;
  bool help = false;
  bool late_gradients = false;
  std::string graph;
  std::string net;
  std::string profile;
  std::string machine;
  std::string svg;
  std::string trace;
  tandem::MathPrecision precision = tandem::MathPrecision::fp32;
  int batch = 64;
  double samples = 0;                      // not given
  std::vector<tandem::EpochPoint> epochs;  // none: one epoch whatever the batch
  std::vector<int> counts;                 // of devices, where a strategy is sought
  std::string format = "text";
  std::string optimizer = "momentum";
  std::vector<double> loads;
  int parts = 0;
  int devices = 0;
  double link_gbps = 0;
  double latency_us = -1;  // not given
  double memory = -1;      // bytes
  double seconds = 10;

  /// How many descriptions of a graph are given.
  [[nodiscard]] int graphs() const { return !graph.empty() + !net.empty() + !profile.empty(); }

  /// What stands behind a flag as it is; null for other flags.
  std::string* text_of(std::string_view flag) {
    return flag == "--graph"     ? &graph
           : flag == "--net"     ? &net
           : flag == "--profile" ? &profile
           : flag == "--machine" ? &machine
           : flag == "--svg"     ? &svg
           : flag == "--trace"   ? &trace
                                 : nullptr;
  }
};

/// A number from @p least to @p most; @p text begins at @p column of the flag's value, if above 0.
/// @throws std::runtime_error  it is none
inline double parse_real(std::string const& flag, std::string_view text, double least, double most,
                         std::size_t column = 0) {
  double number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number) ||
      number < least || number > most) {
    char range[80] = {};
    std::snprintf(range, sizeof range, "%g to %g", least, most);
    throw std::runtime_error{flag + (column > 0 ? ", column " + std::to_string(column) + "," : "") +
                             " takes a number from " + range + ", not '" + std::string{text} + "'"};
  }
  return number;
}

inline int parse_count(std::string const& flag, std::string_view text, int least, int most) {
  double const number = parse_real(flag, text, least, most);
  if (number != std::floor(number)) {
    throw std::runtime_error{flag + " takes a whole number, not '" + std::string{text} + "'"};
  }
  return static_cast<int>(number);
}

inline std::vector<double> parse_loads(std::string_view text) {
  std::vector<double> loads;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t const comma = std::min(text.find(',', begin), text.size());
    loads.push_back(
        parse_real("--partition", text.substr(begin, comma - begin), 0, 1e15, begin + 1));
    begin = comma + 1;
  }
  return loads;
}

inline double parse_bytes(std::string const& flag, std::string_view text) {
  double unit = 1;
  for (auto const& [name, bytes] : {std::pair{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}}) {
    if (text.ends_with(name)) {
      unit = bytes;
      text.remove_suffix(2);
      break;
    }
  }
  return unit * parse_real(flag, text, 0, 1e15);
}

/// "8", or "1..256": 1, 2, 4, …, 256.
inline std::vector<int> parse_devices(std::string const& text) {
  std::size_t const dots = text.find("..");
  if (dots == text.npos) {
    return {parse_count("--devices", text, 1, 1024)};
  }
  int const first = parse_count("--devices", text.substr(0, dots), 1, 1024);
  int const last = parse_count("--devices", text.substr(dots + 2), first, 1024);
  std::vector<int> counts;
  for (int count = first; count < last; count *= 2) {
    counts.push_back(count);
  }
  counts.push_back(last);
  return counts;
}

inline tandem::MathPrecision parse_precision(std::string const& name) {
  using enum tandem::MathPrecision;
  for (auto const& [known, precision] :
       {std::pair{"fp32", fp32}, {"tf32", tf32}, {"bf16", bf16}, {"fp64", fp64}}) {
    if (name == known) {
      return precision;
    }
  }
  throw std::runtime_error{"--precision takes fp32, tf32, bf16 or fp64, not '" + name + "'"};
}

/// @throws std::runtime_error  what is needed is missing, or does not go together
inline void check_plan_arguments(PlanArguments const& a) {
  if (!a.place && a.loads.empty()) {
    if (a.graphs() != 1 || a.machine.empty() || a.counts.empty()) {
      throw std::runtime_error{
          "give --net, --graph or --profile, --machine and --devices; or --place, or "
          "--partition; --help says more"};
    }
    if (a.parts != 0 || a.link_gbps != 0 || a.latency_us >= 0) {
      throw std::runtime_error{
          "--parts goes with --partition, --link-gbps and --latency-us go with "
          "--place; a --machine FILE.json says how fast links are"};
    }
    return;
  }
  if (a.late_gradients) {
    throw std::runtime_error{
        "--late-gradients goes with --machine and --devices, where a strategy "
        "is sought"};
  }
  if (a.place && !a.loads.empty()) {
    throw std::runtime_error{"give either --place or --partition; --help says more"};
  }
  if (a.place && (a.counts.size() != 1 || a.devices < 2 || a.devices > 64)) {
    throw std::runtime_error{"--place needs --devices, a number from 2 to 64"};
  }
  if (a.place && (a.graphs() != 1 || a.devices == 0)) {
    throw std::runtime_error{"--place needs --devices, and one of --graph, --net and --profile"};
  }
  if (a.place && !a.net.empty() && a.machine.empty()) {
    throw std::runtime_error{"--net needs --machine, whose speed its costs are computed with"};
  }
  if (a.place && a.machine.empty() && a.link_gbps == 0) {
    throw std::runtime_error{"--place needs --link-gbps, or --machine, whose links are taken"};
  }
  if (!a.place && (a.graphs() != 0 || !a.svg.empty() || !a.trace.empty() || !a.machine.empty() ||
                   a.devices != 0 || a.link_gbps != 0 || a.memory >= 0)) {
    throw std::runtime_error{"--partition goes with --parts and --format only"};
  }
  if (a.place ? a.parts != 0 : a.parts == 0) {
    throw std::runtime_error{a.place ? "--parts goes with --partition; --place takes --devices"
                                     : "--partition needs --parts"};
  }
  if (!a.place && static_cast<std::size_t>(a.parts) > a.loads.size()) {
    throw std::runtime_error{"--parts is " + std::to_string(a.parts) + ", but there are only " +
                             std::to_string(a.loads.size()) + " loads; give no more parts"};
  }
}

/// @throws std::runtime_error  a flag is unknown, lacks its value, or has one that it does not take
inline PlanArguments parse_plan_arguments(std::vector<std::string> const& words) {
  PlanArguments a;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string const& flag = words[i];
    if (flag == "--help") {
      a.help = true;
      return a;
    }
    if (flag == "--place" || flag == "--late-gradients") {
      (flag == "--place" ? a.place : a.late_gradients) = true;
      continue;
    }
    bool const known = flag == "--format" || flag == "--optimizer" || flag == "--partition" ||
                       flag == "--parts" || flag == "--devices" || flag == "--link-gbps" ||
                       flag == "--latency-us" || flag == "--memory" || flag == "--seconds" ||
                       flag == "--batch-per-worker" || flag == "--precision" ||
                       flag == "--epochs" || flag == "--samples" || a.text_of(flag) != nullptr;
    if (!known) {
      throw std::runtime_error{"there is no flag '" + flag + "'; --help lists them"};
    }
    if (i + 1 == words.size() || words[i + 1].empty() || words[i + 1].substr(0, 2) == "--") {
      throw std::runtime_error{flag + " lacks its value; --help says what it takes"};
    }
    std::string const& value = words[++i];
    if (std::string* const text = a.text_of(flag)) {
      *text = value;
    } else if (flag == "--batch-per-worker") {
      a.batch = parse_count(flag, value, 1, 1'000'000);
    } else if (flag == "--precision") {
      a.precision = parse_precision(value);
    } else if (flag == "--partition") {
      a.loads = parse_loads(value);
    } else if (flag == "--parts") {
      a.parts = parse_count(flag, value, 1, 1'000'000);
    } else if (flag == "--devices") {
      a.counts = parse_devices(value);
      a.devices = a.counts.back();
    } else if (flag == "--epochs") {
      a.epochs = tandem::parse_epoch_points(value);
    } else if (flag == "--samples") {
      a.samples = parse_real(flag, value, 1, 1e15);
    } else if (flag == "--link-gbps") {
      a.link_gbps = parse_real(flag, value, 1e-6, 1e6);
    } else if (flag == "--latency-us") {
      a.latency_us = parse_real(flag, value, 0, 1e9);
    } else if (flag == "--memory") {
      a.memory = parse_bytes(flag, value);
    } else if (flag == "--seconds") {
      a.seconds = parse_real(flag, value, 0, 1e6);
    } else if (flag == "--optimizer") {
      if (value != "sgd" && value != "momentum" && value != "adam") {
        throw std::runtime_error{"--optimizer takes sgd, momentum or adam, not '" + value + "'"};
      }
      a.optimizer = value;
    } else {
      if (value != "text" && value != "json") {
        throw std::runtime_error{"--format takes text or json, not '" + value + "'"};
      }
      a.format = value;
    }
  }
  check_plan_arguments(a);
  return a;
}
