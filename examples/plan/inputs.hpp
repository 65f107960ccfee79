// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What plan works on: networks and machines by name, graphs from files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/models/resnet_imagenet.hpp>
#include <tandem/models/vgg.hpp>
#include <tandem/plan/cost/big_lstm_graph.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/gnmt_graph.hpp>
#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/cost/graph_file.hpp>
#include <tandem/plan/cost/measured_costs.hpp>
#include <tandem/plan/cost/profile_json.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/epochs/tokens.hpp>
#include <tandem/plan/machine/calibrate.hpp>
#include <tandem/plan/machine/fit_kernels.hpp>
#include <tandem/plan/machine/json.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/machine/timed_all_reduces.hpp>
#include <tandem/plan/machine/timed_products.hpp>
#include <tandem/plan/place/ordered.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/place/text.hpp>
#include <tandem/plan/search/sources.hpp>
#include <tandem/plan/search/worker_placed.hpp>
#include <tandem/plan/search/workers.hpp>

#include "arguments.hpp"

/// One of GPT-2's sizes, or the sizes given.
/// @throws std::runtime_error  the width is no multiple of the heads
inline tandem::GptSizes gpt_sizes(PlanArguments const& a) {
  using tandem::GptSizes;
  tandem::GptSizes const sizes =
      a.net == "gpt2_medium"  ? GptSizes{.width = 1024, .heads = 16, .layers = 24}
      : a.net == "gpt2_large" ? GptSizes{.width = 1280, .heads = 20, .layers = 36}
      : a.net == "gpt2_xl"    ? GptSizes{.width = 1600, .heads = 25, .layers = 48}
                              : a.gpt;
  if (sizes.width % sizes.heads != 0) {
    throw std::runtime_error{"--width must be a multiple of --heads, not " +
                             std::to_string(sizes.width) + " of " + std::to_string(sizes.heads)};
  }
  return sizes;
}
inline tandem::GraphView gpt_of(PlanArguments const& a) {
  static tandem::GptGraph const graph{gpt_sizes(a)};  // there is one --net
  return graph.view();
}

inline tandem::GraphView gnmt_of(PlanArguments const& a) {
  static tandem::GnmtGraph const graph{a.gnmt};
  return graph.view();
}
inline tandem::GraphView big_lstm_of(PlanArguments const& a) {
  static tandem::BigLstmGraph const graph{a.big_lstm};
  return graph.view();
}

/// A network whose sizes the compiler knows.
struct KnownNetwork {
  char const* name;
  tandem::GraphView graph;
};
template <class Net>
KnownNetwork known_network(char const* name) {
  return {name, tandem::graph<Net>};
}
inline std::vector<KnownNetwork> const& known_networks() {
  using namespace tandem::models;
  static std::vector<KnownNetwork> const all{
      known_network<GoogLeNet<10>>("googlenet"), known_network<ResNet18<10>>("resnet18"),
      known_network<ResNet50<1000>>("resnet50"), known_network<Vgg16<1000>>("vgg16"),
      known_network<InceptionV3<1000>>("inception_v3")};
  return all;
}

/// GoogLeNet and ResNet-18 are those for CIFAR-10, other networks of images those for ImageNet.
/// @throws std::runtime_error  there is none of that name
inline tandem::GraphView network_of(PlanArguments const& a) {
  std::string const& name = a.net;
  for (char const* const gpt : {"gpt", "gpt2", "gpt2_medium", "gpt2_large", "gpt2_xl"}) {
    if (name == gpt) {
      return gpt_of(a);
    }
  }
  if (name == "gnmt" || name == "big_lstm") {
    return name == "gnmt" ? gnmt_of(a) : big_lstm_of(a);
  }
  for (KnownNetwork const& known : known_networks()) {
    if (name == known.name) {
      return known.graph;
    }
  }
  throw std::runtime_error{
      "--net takes googlenet, resnet18, resnet50, vgg16, inception_v3, gpt2, gpt2_medium, "
      "gpt2_large, gpt2_xl, gpt, gnmt or big_lstm, not '" +
      name + "'"};
}

/// What a file has. It is read once, since a pipe cannot be read again.
template <class Value>
Value const& read_once(std::string const& path, Value (*read)(std::string const&)) {
  static std::map<std::string, Value> known;
  auto found = known.find(path);
  if (found == known.end()) {
    found = known.emplace(path, read(path)).first;
  }
  return found->second;
}

/// A preset, or the machine of a JSON file.
/// @throws std::runtime_error  it is neither
inline tandem::Machine machine_named(std::string const& name) {
  if (tandem::Machine const* const known = tandem::find_machine(name)) {
    return *known;
  }
  if (name.ends_with(".json")) {
    return read_once<tandem::Machine>(name, &tandem::read_machine);
  }
  std::string list;
  for (std::string_view const known : tandem::machine_names) {
    list += std::string{known} + ", ";
  }
  throw std::runtime_error{"--machine takes " + list + "or a file that ends in .json, not '" +
                           name + "'"};
}

/// @p machine with the kernels of --products, if they are given.
inline tandem::Machine with_products(PlanArguments const& a, tandem::Machine machine) {
  if (!a.products.empty()) {
    tandem::KernelFit const fitted = tandem::fit_kernels(
        machine, read_once<std::vector<tandem::TimedProduct>>(a.products, &tandem::read_products));
    char text[100] = {};
    std::snprintf(text, sizeof text,
                  ", kernels fitted to %d products, off by %.2g %% and %.2g %% at most",
                  fitted.points, 100 * fitted.median_error, 100 * fitted.worst_error);
    machine = fitted.machine;
    machine.name += text;
  }
  return machine;
}

/// The machine of --machine, whose links within a node are those that a profile has measured.
inline tandem::Machine machine_of(PlanArguments const& a) {
  tandem::Machine machine = machine_named(a.machine);
  if (!a.profile.empty()) {
    machine.inside = read_once<tandem::NetworkProfile>(a.profile, &tandem::read_profile).message;
    machine.name += ", links within a node as in " + a.profile;
  }
  if (!a.all_reduces.empty()) {
    tandem::Calibration const fitted =
        tandem::calibrate(machine, tandem::read_all_reduces(a.all_reduces));
    char text[100] = {};
    std::snprintf(text, sizeof text,
                  ", links fitted to %d all-reduces, off by %.2g %% and %.2g %% at most",
                  fitted.points, 100 * fitted.median_error, 100 * fitted.worst_error);
    machine = fitted.machine;
    machine.name += text;
  }
  return with_products(a, machine);
}

/// Of --graph.
/// @throws std::runtime_error  weights are not told from other bytes, but must be
inline tandem::GraphFile const& graph_of(PlanArguments const& a) {
  tandem::GraphFile const& file = read_once<tandem::GraphFile>(a.graph, &tandem::read_graph_file);
  if (!file.knows_weights() && a.mode != placing) {
    throw std::runtime_error{a.graph +
                             " is a placement instance, which does not say what of its bytes are "
                             "weights, so that sums of gradients are not known; give --place"};
  }
  return file;
}

/// Weights and gradients, and the optimizer's state; or what is held already.
inline double bytes_of_parameter(PlanArguments const& a) {
  if (!a.graph.empty() && !graph_of(a).knows_weights()) {
    return 1;
  }
  return a.optimizer == "sgd" ? 2 : a.optimizer == "adam" ? 4 : 3;
}

/// @throws tandem::FileError  all nodes of @p graph together take no time, of which nothing is a
/// share
inline tandem::CostGraph with_time(tandem::CostGraph graph, std::string const& path) {
  if (graph.time() < 1e-12) {
    throw tandem::FileError{
        path, "all nodes together take less than 1e-12 s; give times as they were measured"};
  }
  return graph;
}

/// Costs of a minibatch of a worker, or of so many samples, whose passes take as much less.
/// @throws tandem::FileError  the graph's or the machine's file is not valid
inline tandem::CostGraph costs_of(PlanArguments const& a, int samples) {
  if (!a.net.empty()) {
    return tandem::static_costs(network_of(a), with_products(a, machine_named(a.machine)),
                                a.precision, samples);
  }
  if (!a.profile.empty()) {
    return with_time(
        tandem::measured_costs(read_once<tandem::NetworkProfile>(a.profile, &tandem::read_profile),
                               samples),
        a.profile);
  }
  tandem::CostGraph graph = with_time(graph_of(a).graph, a.graph);
  for (tandem::CostNode& node : graph.node) {
    node.forward *= static_cast<double>(samples) / a.batch;
    node.backward *= static_cast<double>(samples) / a.batch;
    node.output_bytes = node.output_bytes * samples / a.batch;
  }
  return graph;
}

/// Of an epoch.
inline double samples_of(PlanArguments const& a) {
  bool const small = a.net == "googlenet" || a.net == "resnet18";
  return a.samples > 0       ? a.samples
         : !a.tokens.empty() ? a.tokens.front().epochs / a.gpt.context
         : small             ? 50'000
                             : 1'281'167;
}

/// Epochs by batch in samples; none where one epoch is assumed.
inline std::vector<tandem::EpochPoint> points_of(PlanArguments const& a) {
  return a.tokens.empty() ? a.epochs
                          : tandem::epochs_of_tokens(a.tokens, a.gpt.context, samples_of(a));
}

inline tandem::EpochCurve epochs_of(PlanArguments const& a) {
  std::vector<tandem::EpochPoint> points = points_of(a);
  if (a.critical_batch > 0) {
    double const unit = a.tokens.empty() ? 1 : a.gpt.context;
    return tandem::EpochCurve::of_noise(a.critical_batch / unit, points.front());
  }
  if (points.empty()) {
    points.push_back({.batch = 1, .epochs = 1});
  }
  return tandem::EpochCurve::measured(std::move(points));
}

inline tandem::SearchTask search_task(PlanArguments const& a) {
  std::optional<tandem::GraphView> network;
  if (!a.net.empty()) {
    network = network_of(a);
  }
  return {.machine = machine_of(a),
          .batch_per_worker = a.batch,
          .samples = samples_of(a),
          .bytes_of_parameter = bytes_of_parameter(a),
          .memory = a.memory < 0 ? 0 : a.memory,
          .late_gradients = a.late_gradients,
          .network = network,
          .precision = a.precision,
          .failures = {.device = 3600 * a.mtbf_hours,
                       .checkpoint = a.checkpoint_seconds,
                       .restart = a.restart_seconds},
          .computed = network.has_value()};
}

/// Where costs, links, epochs and memory came from.
inline tandem::SearchSources sources_of(PlanArguments const& a, tandem::SearchTask const& task) {
  std::string const nodes = !a.profile.empty() ? a.profile + ", measured beside another device"
                            : a.graph.empty()
                                ? tandem::computed_nodes_source(task.machine, a.precision)
                                : a.graph + ", of " + std::to_string(a.batch) +
                                      " samples; passes of fewer take as much less";
  tandem::SearchSources sources = tandem::search_sources(task, nodes, points_of(a));
  auto const text = [](double value) { return tandem::detail::digits(value, 6); };
  if (!a.tokens.empty()) {
    sources.epochs += ", of tokens to a loss: " + text(a.gpt.context) + " a sample, " +
                      text(samples_of(a) * a.gpt.context) + " an epoch";
  }
  if (a.critical_batch > 0) {
    sources.epochs += ", elsewhere (1 + batch / " + text(a.critical_batch) +
                      (a.tokens.empty() ? "" : " tokens") + ") times that of a small batch";
  }
  return sources;
}

/// A placement for the order in which the engine runs the nodes, as a type to paste, with what a
/// step then takes; nothing is known of one for a graph from a file.
inline std::string placed_type(PlanArguments const& a, tandem::CostGraph const& graph,
                               tandem::PlacementTask const& task, std::vector<int> const& listed) {
  if (a.net.empty()) {
    return "";
  }
  std::vector<int> const device = tandem::place_ordered(graph, task, listed, 0.2 * a.seconds);
  bool used[64] = {};  // --place takes no more devices
  for (std::size_t n = 1; n < device.size(); ++n) {
    used[device[n]] = true;
  }
  if (std::count(used, used + a.counts[0], true) < a.counts[0]) {
    return "";  // Placed wants a part on each device
  }
  char time[100] = {};
  std::snprintf(time, sizeof time, "  // placed for the network's order: %.5g ms a step\n",
                1e3 * tandem::ordered_step(graph, task, device));
  return tandem::placed_text(network_of(a), device) +
         "using Strategy = ModelParallel<Placed<table>>;" + time;
}

/// How a chain is cut, in the format that was asked for.
inline std::string partition_text(PlanArguments const& a) {
  tandem::ChainPartition const parts = tandem::partition_chain(a.loads, a.parts);
  std::string sizes;
  for (int const size : parts.sizes) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  char load[40] = {};
  std::snprintf(load, sizeof load, "%.15g", parts.max_load);
  return a.format == "json"
             ? std::string{"{\"max_load\": "} + load + ", \"sizes\": [" + sizes + "]}\n"
             : "sizes " + sizes + "; the heaviest part has " + load + "\n";
}

/// The links are the machine's, but for what the flags say.
inline tandem::PlacementTask placement_task(PlanArguments const& a) {
  tandem::LinkSpeed link = a.machine.empty() ? tandem::LinkSpeed{} : machine_of(a).inside;
  link.bandwidth = a.link_gbps > 0 ? a.link_gbps * 1e9 : link.bandwidth;
  link.latency = a.latency_us >= 0 ? a.latency_us * 1e-6 : link.latency;
  return {.devices = a.counts[0],
          .bandwidth = link.bandwidth,
          .latency = link.latency,
          .memory = a.memory < 0 ? -1 : static_cast<std::int64_t>(a.memory),
          .bytes_of_parameter = bytes_of_parameter(a)};
}
