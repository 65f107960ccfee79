// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// describe: any network as a table, and what training it takes on each device of a strategy.

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/volume.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/graph/spread/spread.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem::detail {

/// "12.5", or "-" of nothing.
TANDEM_ONCE std::string kib_or_dash(std::int64_t bytes);

/// A row for each node of a rank's graph: how the value that it gives and the gradient of it are
/// dealt out, and what a sample's passes add up over the devices there, or bring together.
/// @param graph   before a backend rewrites it
/// @param slices  of all devices together
TANDEM_ONCE std::string spread_table(GraphView graph, int devices, int slices,
                                     std::int64_t element_bytes);

struct LayerRow {
  std::string path;
  std::string name;
  std::string shape;
  std::int64_t parameters = 0;
  double mmacs = 0.0;
  double kib = 0.0;

  TANDEM_ONCE [[nodiscard]] std::string text() const;
};

/// Elements of a node's weights; those that it shares, too.
TANDEM_ONCE std::int64_t weights_of(GraphView graph, Node const& node);

/// @param tops  of the network
TANDEM_ONCE std::string layer_table(GraphView graph, std::string const& title, int tops,
                                    bool top_only);

}  // namespace tandem::detail

namespace tandem {

struct DescribeOptions {
  std::string title = "Network";
  bool top_only = false;  ///< a row for each top-level part, as Split counts them, not each layer
  int batch = 0;          ///< global: of how many samples memory is told; 0: of none
  Optimizer optimizer = Sgd{};
  WeightAverage average{};
};

namespace detail {

/// A line of the table of memory, in MiB.
TANDEM_ONCE std::string memory_line(std::string const& device, DeviceMemory const& m);

TANDEM_ONCE std::string memory_heads(DescribeOptions const& options, std::string const& precision,
                                     int replicas);

/// A row for each part of a model that is cut over devices: which device has it, or which two where
/// there are two copies of the model, its top-level layers, and what it computes and sends for a
/// sample. Above it the Splits that cut so, where parts are runs of top-level layers.
/// @param graph         with relays
/// @param part          of each node
/// @param scalar_bytes  of an activation's element
TANDEM_ONCE std::string parts_table(GraphView graph, std::int16_t const* part,
                                    StageMapView const& map, std::int64_t scalar_bytes);

/// The values that Let has named and that stages hand on without reading them.
TANDEM_ONCE std::string relayed_values(GraphView graph, std::int16_t const* stage);

}  // namespace detail

/// A table of @p Net: each layer's path, kind, output, parameters, multiply-accumulates and output
/// in KiB, and their sums; weights that layers share; where the model is cut, also by Auto, and
/// what each part computes and sends; named values that stages relay; of
/// TensorParallel and SpatialParallel how each value and its gradient are dealt out, and what is
/// added up or exchanged; and, of .batch samples, each device's memory by the function that fits<>
/// asks, parameters, gradients, the optimizer's states, activations and their gradients. Needs no
/// device.
///
///   std::puts(describe<Net, DataParallel<2>>({.batch = 256, .optimizer = AdamW{}}).c_str());
///
/// @throws ContractError  .batch < 0, or the strategy does not say how many replicas share it
template <class Net, class S = SingleDevice<>, class Precision = Fp32>
std::string describe(DescribeOptions const& options = {}) {
  expects(options.batch >= 0,
          "describe({.batch = ...}): give 1 sample or more, or 0 for no memory");
  constexpr auto const& network = graph<Net>;
  std::string text = detail::layer_table(network, options.title, network.tops, options.top_only);
  using P = Program<Net, S, static_cast<int>(sizeof(typename Precision::Master))>;
  if constexpr (S::devices > 1) {
    text += detail::parts_table(P::Routed::graph, P::Routed::partition.part, P::map,
                                static_cast<std::int64_t>(sizeof(typename Precision::Scalar)));
    text += detail::relayed_values(P::Routed::graph, P::Routed::partition.part);
  }
  if constexpr (P::has_tiles || P::layer_slices > 1) {
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((text +=
        detail::spread_table(detail::RankGraph<P, D>::graph, P::slices, P::layer_slices,
                             static_cast<std::int64_t>(sizeof(typename Precision::Scalar)))),
       ...);
    }
    (std::make_integer_sequence<int, S::devices>{});
  }
  if constexpr (detail::takes_any_replicas<S>) {
    expects(options.batch == 0,
            "describe<Net, DataParallel<>>({.batch = ...}): a replica's share of the batch depends "
            "on how many there are; name their number, DataParallel<N>");
  } else if (options.batch > 0) {
    int const states = states_of(options.optimizer) + (options.average.on() ? 1 : 0);
    text += detail::memory_heads(options, Precision::name, S::batching.replicas);
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((text += detail::memory_line(
            std::to_string(D), detail::device_memory<typename P::template Device<D>, Precision>(
                                   options.batch, states))),
       ...);
    }
    (std::make_integer_sequence<int, S::devices>{});
  }
  return text;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string kib_or_dash(std::int64_t bytes) {
  char text[32] = "-";
  if (bytes > 0) {
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / 1024);
  }
  return text;
}

TANDEM_ONCE std::string spread_table(GraphView graph, int devices, int slices,
                                     std::int64_t element_bytes) {
  SpreadVolume const all = spread_volume(graph);
  bool const tiles = all.exchanges > 0;
  std::string text =
      "\nspreads over " + std::to_string(devices) + " devices" +
      (slices > devices ? " in " + std::to_string(slices) + " slices" : "") + ", and KiB that " +
      (tiles ? "each gets (exchange)" : "they add up (all-reduce) or, where losses are made") +
      (all.row_gathers > 0 ? " or rows exchanged" : "") +
      (tiles ? "" : ", bring together (all-gather)") + " for one sample\n";
  auto const add = [&](std::string const& path, std::string const& kind, std::string const& shape,
                       std::string const& value, std::string const& gradient,
                       SpreadVolume const& volume) {
    char line[256];
    std::snprintf(line, sizeof line, "%-18.60s %-14.40s %12.40s %-9.12s %-9.12s %9.20s %9.20s\n",
                  path.c_str(), kind.c_str(), shape.c_str(), value.c_str(), gradient.c_str(),
                  kib_or_dash(volume.forward * element_bytes + volume.gathered * 8).c_str(),
                  kib_or_dash(volume.backward * element_bytes).c_str());
    text += line;
  };
  char heads[256];
  std::snprintf(heads, sizeof heads, "%-18s %-14s %12s %-9s %-9s %9s %9s\n", "layer", "kind",
                "a device's", "value", "gradient", "forward", "backward");
  text += heads;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.kind != NodeKind::input) {
      SpreadPair const pair = spread_rule(node.sharing.dealt).out;
      add(to_string(node.path), std::string{node.name}, to_string(node.out), name(pair.value),
          name(pair.gradient), spread_volume(node));
    }
  }
  std::string const gathers = all.gathers > 0 ? ", 1 all-gather" : "";
  std::string const total =
      tiles ? std::to_string(all.exchanges) + " exchanges"
            : std::to_string(all.reduces + all.copies) + " all-reduces" + gathers;
  add("total", total, "", "", "", all);
  if (all.row_gathers > 0) {
    text += "among these of rows, all-gathers: " + std::to_string(all.row_gathers) +
            ", reduce-scatters: " + std::to_string(all.row_scatters) +
            "; once a step gradients of rows, all-reduce: " +
            kib_or_dash(partial_gradients(graph) * element_bytes) + " KiB\n";
  }
  return text;
}

TANDEM_ONCE std::string LayerRow::text() const {
  char line[256];
  std::snprintf(line, sizeof line, "%-18.60s %-14.40s %12.40s %12lld %12.2f %12.1f\n", path.c_str(),
                name.c_str(), shape.c_str(), static_cast<long long>(parameters), mmacs, kib);
  return line;
}

TANDEM_ONCE std::int64_t weights_of(GraphView graph, Node const& node) {
  std::int64_t sum = 0;
  for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
    Parameter const& parameter = graph.parameter[p].parameter;
    sum += parameter.role == Role::weight ? parameter.shape.elements() : 0;
  }
  return sum;
}

/// Where the copies of a shared weight lie. The sum of their gradients is counted as a ring's.
TANDEM_ONCE std::string shared_weights(GraphView graph) {
  std::string text;
  for (int owner = 0; owner < graph.parameters; ++owner) {
    std::string layers;
    int holders = 0;
    for (int p = owner; p < graph.parameters; ++p) {
      if (graph.parameter[p].owner() == owner) {
        Node const& node = graph.node[graph.parameter[p].node];
        layers += (holders++ > 0 ? " and " : "") + std::string{node.name} + " of part " +
                  std::to_string(node.top);
      }
    }
    if (holders > 1) {
      std::int64_t const bytes = 4 * graph.parameter[owner].parameter.shape.elements();
      char mib[32];
      std::snprintf(mib, sizeof mib, "%.1f", static_cast<double>(bytes) / (1 << 20));
      text += "shared: " + parameter_name(graph, owner) + ", counted once, lies with " + layers +
              ", " + mib + " MiB each\n        in a step " +
              std::to_string(all_reduce_bytes(2, bytes)) +
              " bytes of its gradient go each way between two devices that have it; on one device, "
              "none\n";
    }
  }
  return text;
}

TANDEM_ONCE std::string layer_table(GraphView graph, std::string const& title, int tops,
                                    bool top_only) {
  std::string text = title + " on " + to_string(graph.node[0].out) + ", for one sample in fp32\n";
  char heads[256];
  std::snprintf(heads, sizeof heads, "%-18s %-14s %12s %12s %12s %12s\n", "layer", "kind", "output",
                "parameters", "MMACs", "KiB");
  text += heads;
  LayerRow part;
  LayerRow total{"total", std::to_string(tops) + " parts", to_string(graph.node[graph.result].out)};
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.kind == NodeKind::input) {
      continue;
    }
    LayerRow const row{to_string(node.path),
                       std::string{node.name},
                       to_string(node.out),
                       weights_of(graph, node),
                       static_cast<double>(node.macs) / 1e6,
                       node.view ? 0.0 : static_cast<double>(node.out.elements()) * 4 / 1024};
    total.mmacs += row.mmacs;
    total.kib += row.kib;
    if (!top_only) {
      text += row.text();
      continue;
    }
    part = {
        std::to_string(node.top), row.name,          row.shape, part.parameters + row.parameters,
        part.mmacs + row.mmacs,   part.kib + row.kib};
    if (n + 1 == graph.nodes || graph.node[n + 1].top != node.top) {
      text += part.text();
      part = {};
    }
  }
  for (int p = 0; p < graph.parameters; ++p) {
    GraphParameter const& own = graph.parameter[p];
    bool const counts = own.parameter.role == Role::weight && own.shared < 0;
    total.parameters += counts ? own.parameter.shape.elements() : 0;
  }
  return text + total.text() + shared_weights(graph);
}

TANDEM_ONCE std::string memory_line(std::string const& device, DeviceMemory const& m) {
  auto const mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  char line[256];
  std::snprintf(line, sizeof line, "%-8.20s %12.1f %12.1f %12.1f %12.1f %12.1f %12.1f %12.1f\n",
                device.c_str(), mib(m.parameters), mib(m.gradients), mib(m.optimizer_state),
                mib(m.kept + m.recomputed + m.passing), mib(m.activation_gradients),
                mib(m.versions + m.weights + m.states + m.exchange), mib(m.total()));
  return line;
}

TANDEM_ONCE std::string memory_heads(DescribeOptions const& options, std::string const& precision,
                                     int replicas) {
  char heads[256];
  std::snprintf(heads, sizeof heads, "%-8s %12s %12s %12s %12s %12s %12s %12s\n", "device",
                "parameters", "gradients", "optimizer", "activations", "their grads", "other",
                "total");
  return "\nMiB for steps of " + std::to_string(options.batch) + " samples in " + precision +
         " with " + optimizer_name(options.optimizer) +
         (options.average.on() ? " and averages" : "") +
         (replicas > 1 ? ", on the devices of each of " + std::to_string(replicas) + " replicas"
                       : "") +
         ": at most, without scratch memory and packed weights\n" + heads;
}

/// "Split<4>, Split<5>"; "" where parts are no runs of top-level layers.
TANDEM_ONCE std::string splits_of(GraphView graph, std::int16_t const* part) {
  std::string text;
  int begin = 0;  // the first top-level layer of the part
  for (int n = 0; n < graph.nodes; ++n) {
    bool const last = n + 1 == graph.nodes;
    if (last || part[n + 1] != part[n]) {
      int const end = graph.node[n].top + 1;
      if (!last && (part[n + 1] != part[n] + 1 || graph.node[n + 1].top < end)) {
        return "";
      }
      text += (begin > 0 ? ", Split<" : "Split<") + std::to_string(end - begin) + ">";
      begin = end;
    }
  }
  return text;
}

TANDEM_ONCE std::string parts_table(GraphView graph, std::int16_t const* part,
                                    StageMapView const& map, std::int64_t scalar_bytes) {
  std::string const splits = splits_of(graph, part);
  std::string text =
      "\ncut into " + std::to_string(map.parts()) + " parts" +
      (splits.empty() ? "" : ", " + splits) +
      "; of a sample's training step, gradients of the values go back the same way\n";
  char line[256];
  std::snprintf(line, sizeof line, "%-8s %-10s %-12s %12s %12s %12s %12s\n", "part", "device",
                "layers", "parameters", "MMACs", "MFLOPs", "KiB sent");
  text += line;
  for (int p = 0; p < map.parts(); ++p) {
    std::string devices = std::to_string(map.device[p]);
    for (int copy = 1; copy < map.copies; ++copy) {
      devices += ", " + std::to_string(map.device[copy * map.parts() + p]);
    }
    int first = -1;
    int last = -1;
    std::int64_t weights = 0;
    std::int64_t macs = 0;
    std::int64_t sent = 0;
    for (int n = 0; n < graph.nodes; ++n) {
      Node const& node = graph.node[n];
      if (part[n] != p || node.kind == NodeKind::input) {
        continue;
      }
      first = first < 0 ? node.top : first;
      last = node.top;
      weights += weights_of(graph, node);
      macs += node.macs;
      std::vector<bool> goes(static_cast<std::size_t>(map.devices));  // to each device once
      for (int reader = n + 1; reader < graph.nodes; ++reader) {
        for (int e = 0; e < graph.node[reader].edges; ++e) {
          auto const to = static_cast<std::size_t>(map.device[part[reader]]);
          if (graph.source[graph.node[reader].first_edge + e] == n &&
              map.device[part[reader]] != map.device[p] && !goes[to]) {
            goes[to] = true;
            sent += node.out.elements() * scalar_bytes;
          }
        }
      }
    }
    std::string const layers =
        first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
    std::snprintf(line, sizeof line, "%-8d %-10.20s %-12.20s %12lld %12.2f %12.2f %12.1f\n", p,
                  devices.c_str(), layers.c_str(), static_cast<long long>(weights),
                  static_cast<double>(macs) / 1e6, 6 * static_cast<double>(macs) / 1e6,
                  static_cast<double>(sent) / 1024);
    text += line;
  }
  return text;
}

TANDEM_ONCE std::string relayed_values(GraphView graph, std::int16_t const* stage) {
  std::string text;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.name == "Relay") {
      char kib[32];
      std::snprintf(kib, sizeof kib, "%.1f", static_cast<double>(node.out.elements()) * 4 / 1024);
      text += "relayed: what " + to_string(node.path) + " gives, " + to_string(node.out) +
              ", goes through stage " + std::to_string(stage[n]) + ", and its gradient back, " +
              kib + " KiB a sample each\n";
    }
  }
  return text;
}

}  // namespace tandem::detail

#endif
