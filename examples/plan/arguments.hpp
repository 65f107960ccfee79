// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The command line of plan: its flags, each once, and what they need of each other.

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/plan/cost/big_lstm_graph.hpp>
#include <tandem/plan/cost/gnmt_graph.hpp>
#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/epochs/failures.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/scale/mesh_search.hpp>

#include "../command_line.hpp"
#include "values.hpp"

/// What plan is asked to do, as sentences and the groups of its flags name it.
inline constexpr std::string_view searching = "a search";
inline constexpr std::string_view scaling = "--global-batch";
inline constexpr std::string_view placing = "--place";
inline constexpr std::string_view simulating = "--simulate";
inline constexpr std::string_view partitioning = "--partition";
inline constexpr std::string_view comparing = "--compare";

struct PlanArguments {
  std::string help;  // not asked for
  std::string_view mode = searching;
  bool place = false;
  bool late_gradients = false;
  bool wide = false;
  std::string graph;
  std::string net;
  std::string profile;
  std::string machine;
  std::string all_reduces;
  std::string products;
  std::string svg;
  std::string html;
  std::string trace;
  std::string table;
  std::string schedule;
  tandem::MathPrecision precision = tandem::MathPrecision::fp32;
  int batch = 64;
  double samples = 0;    // not given
  tandem::GptSizes gpt;  // of --net gpt, and so on
  tandem::GnmtSizes gnmt;
  tandem::BigLstmSizes big_lstm;
  int global_batch = 0;  // not given
  int key_heads = 0;     // as heads
  int hidden = 0;        // four times the width
  bool gated = false;
  bool dropout = false;
  bool untied = false;
  bool separate = false;  // attention
  bool precision_given = false;
  double gradient_bytes = 4;
  tandem::MeshLimits limits;               // with --global-batch
  std::vector<tandem::EpochPoint> epochs;  // none: one epoch whatever the batch
  std::vector<tandem::EpochPoint> tokens;  // to a loss, by tokens a step
  double critical_batch = 0;               // not given
  std::vector<int> counts;                 // of devices, where a strategy is sought
  std::string format = "text";
  std::string optimizer = "momentum";
  std::vector<double> loads;
  std::pair<std::string, std::string> compared;
  int parts = 0;
  int workers = 1;
  int copies = 1;
  int depth = 1;
  double link_gbps = 0;
  double latency_us = -1;  // not given
  double memory = -1;      // bytes
  double seconds = 10;
  double mtbf_hours = 0;  // not given: no device fails
  double checkpoint_seconds = 0;
  double restart_seconds = 0;

  /// How many descriptions of a graph are given.
  [[nodiscard]] int graphs() const { return !graph.empty() + !net.empty() + !profile.empty(); }
};

inline constexpr int most_simulated_devices = 65'536;
inline constexpr int most_searched_devices = 65'536;
inline constexpr int most_listed_devices = 1024;  ///< for which a search has every plan

inline constexpr char const* plan_usage =
    R"(usage: plan --net NAME --machine MACHINE --devices A..B [OPTION ...]
       plan --graph FILE --machine MACHINE --devices A..B [OPTION ...]
       plan --profile FILE.json --machine MACHINE --devices A..B [OPTION ...]
       plan --net gpt --machine MACHINE --devices A..B --global-batch B [OPTION ...]
       plan --place --graph FILE --devices M --link-gbps X [OPTION ...]
       plan --place --net NAME --machine MACHINE --devices M [OPTION ...]
       plan --simulate FILE.csv --net NAME --machine MACHINE [OPTION ...]
       plan --partition "3,1,4,1,5" --parts P [--format json]
       plan --compare A.json B.json

Searches for the strategy that trains a network to the target accuracy first: how many workers of
how many devices, how to cut the network, how long it takes and how much memory. Or the same for a
step of a language model on up to 131,072 devices, by data, pipeline and tensor parallelism. Or
places a dataflow graph on devices, so that a step takes the least time; or simulates the action
table of a file on a machine; or cuts a chain of loads into consecutive parts of which the heaviest
is as light as it can be; or says what differs between two
results that --format json has written.)";

/// Those of --global-batch alone.
inline void add_scaling_flags(CLI::App& app, PlanArguments& a) {
  app.option_defaults()->group("With --global-batch");
  auto const size = [&app](char const* name, auto& to, char const* help) {
    app.add_option(name, to, help)->type_name("N")->transform(number(1, 1'000'000));
  };
  size("--global-batch", a.global_batch,
       "samples of a step, of all devices together: a language model's data x pipeline x tensor "
       "parallelism is sought, by its sizes; what is given below stays as it is");
  size("--key-heads", a.key_heads, "heads of keys and of values (default --heads)");
  app.add_flag("--gated", a.gated, "a block has three products, of which one is a gate");
  app.add_flag("--dropout", a.dropout, "a block has dropout");
  app.add_flag("--untied", a.untied, "the logits have a matrix of their own");
  app.add_flag("--separate-attention", a.separate,
               "attention is products and a softmax, not one kernel");
  size("--tensor", a.limits.tensor, "devices that share each product, within a node");
  size("--sequence", a.limits.sequence,
       "devices that have a part of each sequence each (default 1; it is not sought)");
  size("--pipeline", a.limits.pipeline, "devices of a pipeline, 1F1B");
  size("--chunks", a.limits.chunks, "stages of each of them, interleaved");
  size("--time-chunks", a.limits.time_chunks,
       "of each sequence, which the stages do one behind the other");
  size("--microbatch", a.limits.microbatch, "samples of a microbatch");
  app.add_option_function<std::string>(
         "--recompute",
         [&a](std::string const& name) {
           using enum tandem::Recomputation;
           a.limits.recomputation = name == "none" ? none : name == "full" ? full : selective;
         },
         "in the backward pass: none, selective (separate attention's scores) or full (blocks)")
      ->type_name("WHAT")
      ->check(one_of({"none", "selective", "full"}));
  auto const choice = [&app](char const* name, std::optional<bool>& to, char const* help) {
    app.add_option_function<std::string>(
           name, [&to](std::string const& word) { to = word == "yes"; }, help)
        ->type_name("YES")
        ->check(one_of({"yes", "no"}));
  };
  choice("--sequence-rows", a.limits.sequence_rows,
         "yes or no: devices that share products have a part of the rows of all else");
  app.add_option_function<std::string>(
         "--shard",
         [&a](std::string const& name) {
           using enum tandem::Sharding;
           a.limits.shard = name == "none"        ? none
                            : name == "state"     ? state
                            : name == "gradients" ? gradients
                                                  : parameters;
         },
         "what replicas have a part of each: none, the optimizer's state, gradients, too, or "
         "parameters, too")
      ->type_name("WHAT")
      ->check(one_of({"none", "state", "gradients", "parameters"}));
  app.add_flag("--overlap-products", a.limits.overlap.products,
               "collectives of products run beside computation");
  app.add_flag("--overlap-messages", a.limits.overlap.messages,
               "the same of messages of a pipeline");
  app.add_flag("--overlap-sums", a.limits.overlap.sums, "the same of sums of gradients");
  app.add_option("--gradient-bytes", a.gradient_bytes, "of an element that replicas sum")
      ->type_name("N")
      ->transform(number(1.0, 8.0));
}

/// Makes the flags of @p app set @p a. A group says the modes that its flags go with.
inline void add_flags(CLI::App& app, PlanArguments& a) {
  using Text = std::string const&;
  auto const add = [&app](char const* name, char const* takes, auto& to, char const* help) {
    return app.add_option(name, to, help)->type_name(takes);
  };
  auto const read = [&app](char const* name, char const* takes, char const* help, auto from) {
    return app.add_option_function<std::string>(name, from, help)->type_name(takes);
  };

  app.option_defaults()->group("With a search, --global-batch, --place and --simulate");
  add("--net", "NAME", a.net,
      "googlenet, resnet18, resnet50, vgg16, inception_v3, gpt2, gpt2_medium, gpt2_large, gpt2_xl, "
      "gnmt, big_lstm, or gpt with sizes of its own, with computed costs");
  auto const size = [&](char const* name, int& to, char const* help) {
    add(name, "N", to, help)->transform(number(1, 1'000'000));
  };
  size("--layers", a.gpt.layers,
       "of --net gpt: blocks (default 12, as GPT-2); of gnmt: of each half (4); of big_lstm (2)");
  size("--width", a.gpt.width,
       "of --net gpt: channels (default 768); of gnmt (1024); of big_lstm: its projection (1024)");
  size("--heads", a.gpt.heads, "of --net gpt (default 12)");
  size("--context", a.gpt.context,
       "of --net gpt: tokens of a sample (default 1024); of gnmt: of a sentence (50); of big_lstm: "
       "of a step (20)");
  size("--vocabulary", a.gpt.vocabulary,
       "of --net gpt: words (default 50257); of gnmt (32000); of big_lstm (793470)");
  size("--hidden", a.hidden,
       "of --net big_lstm: states of a layer (default 8192); of --global-batch: columns between "
       "the products of a block (4 --width)");
  app.option_defaults()->group("With a search, --place and --simulate");
  add("--graph", "FILE", a.graph,
      "measured costs of operations: as PipeDream's profiler writes them, or the JSON of Piper or "
      "of the placement instances of NeurIPS 2020");
  add("--profile", "FILE.json", a.profile, "times that the example profile has measured");
  app.option_defaults()->group("With a search, --global-batch, --place and --simulate");
  add("--machine", "MACHINE", a.machine,
      "dgx-1-v100, dgx-a100, dgx-h100, dgx-h200, gb200-nvl72, pcie-box, two-cpus, or a FILE.json");
  add("--all-reduces", "FILE.csv", a.all_reduces,
      "timed on --machine, a first line devices,bytes,seconds and then one for each: links are "
      "fitted to them");
  add("--products", "FILE.csv", a.products,
      "products in bf16 or fp16 that were timed on --machine, a first line "
      "rows,columns,depth,seconds and then one for each: its kernels are fitted to them");
  read("--precision", "P",
       "of --net: fp32 (default; of --global-batch bf16), tf32 (that of Cuda), bf16, fp16 or fp64",
       [&a](Text name) {
         using enum tandem::MathPrecision;
         a.precision = name == "fp32"   ? fp32
                       : name == "tf32" ? tf32
                       : name == "bf16" ? bf16
                       : name == "fp16" ? fp16
                                        : fp64;
       })
      ->check(one_of({"fp32", "tf32", "bf16", "fp16", "fp64"}));
  app.option_defaults()->group("With a search, --place and --simulate");
  add("--batch-per-worker", "B", a.batch,
      "samples of a step, of a worker with all its devices (default 64); the costs of --graph are "
      "of so many")
      ->transform(number(1, 1'000'000));
  add("--svg", "FILE.svg", a.svg,
      "draws a step: of a worker of the recommended plan, of the placement, or of the table");
  add("--trace", "FILE.json", a.trace, "the same for chrome://tracing and Perfetto");

  app.option_defaults()->group("With a search, --global-batch and --place");
  read("--devices", "M",
       "2 to 64 equal devices of --place; else up to 65536, with --global-batch 131072, or 1..256: "
       "powers of two",
       [&a](Text text) { a.counts = devices_in(text); });
  read("--memory", "X",
       "of a device: as 16GB, 512MB or a number of bytes (default the machine's, with --place as "
       "much as needed)",
       [&a](Text text) { a.memory = bytes_in(text); });
  add("--optimizer", "NAME", a.optimizer,
      "sgd, momentum (default; of --global-batch adam) or adam: what a device holds for each "
      "weight")
      ->check(one_of({"sgd", "momentum", "adam"}));

  app.option_defaults()->group("With a search");
  read("--epochs", "POINTS",
       "to the target accuracy, by global batch: \"2048:4,4096:7,8192:12,16384:23\" (default: one "
       "epoch whatever the batch, so that only time a sample counts)",
       [&a](Text text) { a.epochs = tandem::parse_epoch_points(text); });
  read("--tokens", "POINTS",
       "of a GPT, in place of --epochs: tokens to the target loss by tokens of a global batch, "
       "\"65536:2e9,131072:2.1e9\"; without --samples an epoch is those of the first point",
       [&a](Text text) { a.tokens = tandem::parse_epoch_points(text); });
  add("--critical-batch", "B", a.critical_batch,
      "with one point of --epochs or --tokens: a batch B needs twice as many as a small one, "
      "(1 + batch / B) times as many in general; samples, or tokens with --tokens")
      ->transform(number(1e-3, 1e15));
  add("--samples", "N", a.samples,
      "of an epoch (default that of ImageNet, or of CIFAR-10 for its networks; networks of text "
      "have none)")
      ->transform(number(1.0, 1e15));
  add("--mtbf-hours", "H", a.mtbf_hours,
      "mean time between failures of one device, its share of host and links included: C is then "
      "with what failures undo, and the best time between checkpoints is said")
      ->transform(number(1e-3, 1e9));
  add("--checkpoint-seconds", "X", a.checkpoint_seconds,
      "with --mtbf-hours: for which a checkpoint stops training (default 0)")
      ->transform(number(0.0, 1e6));
  add("--restart-seconds", "X", a.restart_seconds,
      "with --mtbf-hours: from a failure until training goes on (default 0)")
      ->transform(number(0.0, 1e6));
  app.add_flag("--late-gradients", a.late_gradients,
               "recommend asynchronous pipelines, too: their epochs are not known, those of "
               "synchronous training are taken");
  app.add_flag("--wide", a.wide,
               "seek more, as on more than 1024 devices: workers of up to 128, any number of "
               "microbatches, and simulate only what may be best");
  add("--html", "FILE.html", a.html,
      "a page for a browser: all plans, time against devices, memory, a step")
      ->group("With a search and --global-batch");

  add_scaling_flags(app, a);

  app.option_defaults()->group("With --place");
  app.add_flag("--place", a.place, "places the graph on --devices");
  add("--link-gbps", "X", a.link_gbps,
      "of the link between two devices, in each direction: gigabytes a second (with --machine by "
      "default its own)")
      ->transform(number(1e-6, 1e6));
  add("--latency-us", "X", a.latency_us,
      "of a transfer: microseconds (default 0, with --machine its own)")
      ->transform(number(0.0, 1e9));
  add("--seconds", "X", a.seconds, "how long to search for a placement (default 10)")
      ->transform(number(0.0, 1e6));

  app.option_defaults()->group("With --simulate");
  add("--simulate", "FILE.csv", a.table,
      "an action table as the program schedule writes it: a line a device, whose stages are "
      "consecutive parts of the network, cut so that the heaviest is as light as it can be; "
      "updates take no time");
  add("--copies", "C", a.copies, "pipelines in the table, 1 (default) or 2")
      ->transform(number(1, 2));
  add("--schedule", "NAME", a.schedule,
      "of the table, which says its copies; an asynchronous one needs it, such as pipedream");
  add("--depth", "D", a.depth,
      "messages of a link and direction that may be on their way (default 1); at 0 a send ends "
      "together with its receive")
      ->transform(number(0, 65'536));

  add("--workers", "N", a.workers,
      "equal workers that sum their gradients (default 1), up to 65536 devices in all; those that "
      "do the same are simulated once")
      ->transform(number(1, most_simulated_devices));

  app.option_defaults()->group("With --partition");
  read("--partition", "LOADS", "\"3,1,4,1,5\": whole or decimal numbers, not negative",
       [&a](Text text) { a.loads = loads_in(text); });
  add("--parts", "P", a.parts, "how many parts")->transform(number(1, 1'000'000));

  app.option_defaults()->group("With --compare");
  add("--compare", "A.json B.json", a.compared,
      "what differs between two results of --format json, a line each");

  app.option_defaults()->group("Always");
  add("--format", "FORMAT", a.format, "text (default) or json; times in seconds")
      ->check(one_of({"text", "json"}));
  app.set_help_flag("--help", "says this");
}

/// Each flag goes with the mode, and the mode has what it needs.
inline void check_mode(PlanArguments const& a, CLI::App const& app) {
  std::string const mode{a.mode};
  for (CLI::Option const* const option : app.get_options()) {
    std::string const& modes = option->get_group();
    if (option->count() > 0 && modes != "Always" && modes.find(mode) == modes.npos) {
      throw std::runtime_error{option->get_name() + " goes with " +
                               modes.substr(modes.find(' ') + 1) + ", not with " + mode +
                               "; --help says more"};
    }
  }
  if (a.mode == searching && a.graphs() == 0) {  // perhaps nothing is given at all
    throw std::runtime_error{
        "give --net, --graph or --profile, --machine and --devices; or --place, --simulate, "
        "--partition or --compare; --help says more"};
  }
  if (a.graphs() > 1) {
    throw std::runtime_error{"give one of --net, --graph and --profile; --help says more"};
  }
  std::vector<std::string> missing;
  for (auto const& [of, flag] : {std::pair{searching, "--machine"},
                                 {simulating, "--machine"},
                                 {scaling, "--machine"},
                                 {searching, "--devices"},
                                 {scaling, "--devices"},
                                 {placing, "--devices"},
                                 {partitioning, "--parts"}}) {
    if (a.mode == of && app.count(flag) == 0) {
      missing.push_back(flag + (" " + app.get_option(flag)->get_type_name()));
    }
  }
  if (a.mode != partitioning && a.mode != comparing && a.graphs() == 0) {
    missing.emplace_back("one of --net, --graph and --profile");
  }
  if (!missing.empty()) {
    throw std::runtime_error{mode + " needs " + listed(missing, "and") + "; --help says more"};
  }
}

inline void check_placing(PlanArguments const& a) {
  if (a.counts.size() != 1 || a.counts[0] < 2 || a.counts[0] > 64) {
    throw std::runtime_error{"--place needs --devices, a number from 2 to 64"};
  }
  if (!a.net.empty() && a.machine.empty()) {
    throw std::runtime_error{"--net needs --machine, whose speed its costs are computed with"};
  }
  if (a.machine.empty() && a.link_gbps == 0) {
    throw std::runtime_error{"--place needs --link-gbps, or --machine, whose links are taken"};
  }
}

inline void check_scaling(PlanArguments const& a) {
  if (!a.net.starts_with("gpt")) {
    throw std::runtime_error{
        "--global-batch goes with --net gpt, gpt2, gpt2_medium, gpt2_large or "
        "gpt2_xl; other networks have --batch-per-worker"};
  }
  if (a.key_heads > 0 && a.gpt.heads % a.key_heads != 0) {
    throw std::runtime_error{"--key-heads must divide --heads"};
  }
}

/// Networks that have sizes of their own.
inline void check_sizes_given(PlanArguments const& a, CLI::App const& app) {
  bool const recurrent = a.net == "gnmt" || a.net == "big_lstm";
  for (char const* const flag : {"--layers", "--width", "--context", "--vocabulary"}) {
    if (app.count(flag) > 0 && a.net != "gpt" && !recurrent) {
      throw std::runtime_error{
          flag + std::string{" goes with --net gpt, gnmt and big_lstm; others have their sizes"}};
    }
  }
  if (app.count("--heads") > 0 && a.net != "gpt") {
    throw std::runtime_error{"--heads goes with --net gpt; others have their sizes"};
  }
  if (app.count("--hidden") > 0 && a.net != "big_lstm" && a.mode != scaling) {
    throw std::runtime_error{"--hidden goes with --net big_lstm, or with --global-batch"};
  }
}

/// Of gnmt and big_lstm: what is given in place of their own.
inline void take_recurrent_sizes(PlanArguments& a, CLI::App const& app) {
  auto const take = [&app](char const* flag, int given, int& to) {
    to = app.count(flag) > 0 ? given : to;
  };
  take("--layers", a.gpt.layers, a.gnmt.layers);
  take("--width", a.gpt.width, a.gnmt.hidden);
  take("--context", a.gpt.context, a.gnmt.context);
  take("--vocabulary", a.gpt.vocabulary, a.gnmt.vocabulary);
  take("--layers", a.gpt.layers, a.big_lstm.layers);
  take("--width", a.gpt.width, a.big_lstm.projection);
  take("--hidden", a.hidden, a.big_lstm.states);
  take("--context", a.gpt.context, a.big_lstm.context);
  take("--vocabulary", a.gpt.vocabulary, a.big_lstm.vocabulary);
  if (a.net == "gnmt" && a.gnmt.layers < 2) {
    throw std::runtime_error{"--net gnmt takes --layers from 2 on, of each half"};
  }
  if (a.net == "big_lstm" && a.big_lstm.vocabulary <= a.big_lstm.sampled) {
    throw std::runtime_error{"--net big_lstm takes --vocabulary above 8192, the words of a sample"};
  }
}

/// What --epochs, --tokens and --critical-batch want of each other.
inline void check_points(PlanArguments const& a) {
  if (!a.tokens.empty() && !a.net.starts_with("gpt")) {
    throw std::runtime_error{"--tokens goes with --net gpt2 or another GPT; give --epochs"};
  }
  if (!a.tokens.empty() && !a.epochs.empty()) {
    throw std::runtime_error{"give --epochs or --tokens"};
  }
  if (a.critical_batch > 0 && a.epochs.size() + a.tokens.size() != 1) {
    throw std::runtime_error{
        "--critical-batch needs one point of --epochs or --tokens, through which its law goes"};
  }
}

/// @throws std::runtime_error  a flag has a fault, is missing, or does not go with another
inline PlanArguments parse_plan_arguments(std::vector<std::string> words) {
  PlanArguments a;
  CLI::App app{plan_usage};
  add_flags(app, a);
  a.help = parse(app, std::move(words));
  if (!a.help.empty()) {
    return a;
  }
  bool const compares = !a.compared.first.empty();
  if (a.place + !a.table.empty() + !a.loads.empty() + (a.global_batch > 0) + compares > 1) {
    throw std::runtime_error{
        "give one of --global-batch, --place, --simulate, --partition and --compare; --help says "
        "more"};
  }
  a.mode = a.place              ? placing
           : a.global_batch > 0 ? scaling
           : !a.table.empty()   ? simulating
           : !a.loads.empty()   ? partitioning
           : compares           ? comparing
                                : searching;
  check_mode(a, app);
  if (app.count("--precision") > 0 && a.net.empty()) {
    throw std::runtime_error{"--precision goes with --net; costs of a file are what was measured"};
  }
  check_sizes_given(a, app);
  take_recurrent_sizes(a, app);
  a.precision_given = app.count("--precision") > 0;
  if (a.mode == scaling) {
    check_scaling(a);
    a.optimizer = app.count("--optimizer") > 0 ? a.optimizer : "adam";
  } else if (!a.counts.empty() && a.counts.back() > most_searched_devices) {
    throw std::runtime_error{"--devices takes up to 65536, and more with --global-batch only"};
  }
  bool const reads_text = a.net.starts_with("gpt") || a.net == "gnmt" || a.net == "big_lstm";
  check_points(a);
  if (a.mode == searching && reads_text && a.samples == 0 && a.tokens.empty()) {
    throw std::runtime_error{"--net " + a.net +
                             " needs --samples N, the sequences of an epoch of your text"};
  }
  for (char const* const flag : {"--checkpoint-seconds", "--restart-seconds"}) {
    if (app.count(flag) > 0 && a.mtbf_hours == 0) {
      throw std::runtime_error{flag + std::string{" needs --mtbf-hours, without which none fails"}};
    }
  }
  if (!a.all_reduces.empty() && a.machine.empty()) {
    throw std::runtime_error{"--all-reduces needs --machine, whose links are fitted to them"};
  }
  if (!a.products.empty() && a.machine.empty()) {
    throw std::runtime_error{"--products needs --machine, whose kernels are fitted to them"};
  }
  if (app.count("--copies") > 0 && !a.schedule.empty()) {
    throw std::runtime_error{"give --copies or --schedule, which says them, too"};
  }
  if (a.mode == placing) {
    check_placing(a);
  }
  if (static_cast<std::size_t>(a.parts) > a.loads.size()) {
    throw std::runtime_error{"--parts is " + std::to_string(a.parts) + ", but there are only " +
                             std::to_string(a.loads.size()) + " loads; give no more parts"};
  }
  return a;
}
