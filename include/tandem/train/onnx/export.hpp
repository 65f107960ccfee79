// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// export_onnx: a trained network's evaluation mode as an ONNX file.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/train/onnx/attention.hpp>
#include <tandem/train/onnx/graph.hpp>
#include <tandem/train/onnx/image_layers.hpp>
#include <tandem/train/onnx/layers.hpp>
#include <tandem/train/onnx/recurrent.hpp>
#include <tandem/train/predict/model_weights.hpp>

namespace tandem {

namespace detail {

/// One model's parameters in floats, in the network's order.
struct OnnxWeights {
  std::vector<std::vector<float>> memory;
  std::vector<NamedParameter<float>> list;

  TANDEM_ONCE explicit OnnxWeights(GraphView network);
};

/// No protobuf has 2 GiB.
TANDEM_ONCE void check_onnx_size(std::string const& path, std::int64_t bytes);

/// The layers of a network's leaves, by index.
using OnnxWriter = std::string (*)(OnnxNode const&);

template <class Network>
struct OnnxWriters;
template <class... Layers>
struct OnnxWriters<TypeList<Layers...>> {
  static std::vector<OnnxWriter> list() { return {&OnnxLayer<Layers>::write...}; }
};

/// Whether the network that a caller has named, if any, is the trainer's.
template <class Net, class Own>
struct NetworkIsNamed {
  static constexpr bool value = true;
  static_assert(std::is_same_v<Leaves<typename Net::body>, Leaves<typename Own::body>>,
                "export_onnx<Net>(trainer, path): the trainer's network has other layers than Net; "
                "leave Net out");
};
template <class Own>
struct NetworkIsNamed<void, Own> {
  static constexpr bool value = true;
};

TANDEM_ONCE std::string onnx_model(GraphView network, std::vector<OnnxWriter> const& writers,
                                   std::vector<NamedParameter<float>> const& weights);

}  // namespace detail

/// Writes a Trainer's or a Predictor's network as an ONNX model in evaluation mode, opset 17.
///
///   export_onnx(trainer, "net.onnx");  // session.run(None, {"input": images})
///
/// Inputs "input" (N, input) and, of two, "second_input"; output "output" (N, output); of a network
/// that ends with a Vocabulary the logits of all rows (N, T, V). N, and of sequences T up to the
/// network's, are the caller's; indices are 64-bit integers, sequences whole (without lengths).
/// Parameters are floats under their names in checkpoints. A layer that ONNX has no operators for
/// is a compile error that names it; see OnnxLayer.
/// @param which  as Predictor::take(): where there are averages of the weights, those
/// @throws FileError  the model is larger than 2 GiB, which no protobuf is, or cannot be written;
///                    the file there is untouched
template <class Net = void, class Source>
void export_onnx(Source const& source, std::string const& path,
                 WhichModel which = WhichModel::average) {
  using Network = typename Source::ProgramType::Network;
  static_assert(detail::NetworkIsNamed<Net, Network>::value);
  auto const& network = Source::graph;
  detail::check_onnx_size(path, 4 * network.parameter_elements());
  detail::OnnxWeights weights{network};
  if constexpr (requires { source.options(); }) {
    detail::copy_model(source, weights.list, which);
  } else {
    auto const own = source.parameters();
    for (std::size_t p = 0; p < own.size(); ++p) {
      for (std::size_t i = 0; i < own[p].value.size(); ++i) {
        weights.memory[p][i] = static_cast<float>(own[p].value[i]);
      }
    }
  }
  std::string const model = detail::onnx_model(
      network, detail::OnnxWriters<Leaves<typename Network::body>>::list(), weights.list);
  detail::check_onnx_size(path, static_cast<std::int64_t>(model.size()));
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{model}));
  file.commit();
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE OnnxWeights::OnnxWeights(GraphView network) {
  for (int p = 0; p < network.parameters; ++p) {
    Shape const shape = network.parameter[p].parameter.shape;
    memory.emplace_back(static_cast<std::size_t>(shape.elements()));
    list.push_back({.name = parameter_name(network, p), .index = p, .shape = shape});
  }
  for (std::size_t p = 0; p < memory.size(); ++p) {
    list[p].value = memory[p];
  }
}

TANDEM_ONCE void check_onnx_size(std::string const& path, std::int64_t bytes) {
  if (bytes >= std::int64_t{1} << 31) {
    throw FileError{path, "the model has " + std::to_string(bytes) +
                              " bytes or more, but an ONNX file has less than 2 GiB; "
                              "export_model() writes any"};
  }
}

/// Extents of a value of @p shape, the batch first.
TANDEM_ONCE OnnxGraph::Extents onnx_extents(Shape const& shape) {
  OnnxGraph::Extents list{std::string_view{"N"}};
  for (int axis = 0; axis < shape.rank; ++axis) {
    if (axis == 0 && shape.timed) {
      list.emplace_back(std::string_view{shape.clock == 0 ? "T" : "T2"});
    } else {
      list.emplace_back(std::int64_t{shape[axis]});
    }
  }
  return list;
}

TANDEM_ONCE std::string onnx_join(OnnxGraph& graph, Node const& node,
                                  OnnxGraph::Names const& inputs) {
  if (node.kind == NodeKind::concat) {
    return graph("Concat", inputs, {{"axis", std::int64_t{node.out.timed ? 2 : 1}}});
  }
  std::string all = inputs[0];  // ONNX has both of two inputs
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    all = graph(node.kind == NodeKind::add ? "Add" : "Mul", {all, inputs[i]});
  }
  return all;
}

TANDEM_ONCE std::string onnx_model(GraphView network, std::vector<OnnxWriter> const& writers,
                                   std::vector<NamedParameter<float>> const& weights) {
  OnnxGraph graph;
  for (int p = 0; p < network.parameters; ++p) {
    if (network.parameter[p].shared < 0) {
      graph.constant(parameter_name(network, p), extents(network.parameter[p].parameter.shape),
                     weights[static_cast<std::size_t>(p)].value);
    }
  }
  std::vector<std::string> value;
  for (int n = 0; n < network.nodes; ++n) {
    Node const& node = network.node[n];
    OnnxGraph::Names inputs;
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      inputs.push_back(value[static_cast<std::size_t>(network.source[e])]);
    }
    graph.begin(std::string{node.name} + " " + to_string(node.path));
    switch (node.kind) {
      case NodeKind::input:
        value.emplace_back(node.input == 0 ? "input" : "second_input");
        graph.input(value.back(), node.limit > 0 ? OnnxGraph::index_type : OnnxGraph::float_type,
                    onnx_extents(node.out));
        break;
      case NodeKind::layer: {
        OnnxNode const layer{graph, network, node, inputs[0], node.in, node.out, inputs};
        value.push_back(writers[static_cast<std::size_t>(node.leaf)](layer));
        break;
      }
      default:
        value.push_back(onnx_join(graph, node, inputs));
    }
  }
  Node const& last = network.node[network.result];
  OnnxGraph::Extents made = onnx_extents(last.out);
  if (last.criterion) {
    made.back() = std::int64_t{last.limit};
  }
  graph.output(value[static_cast<std::size_t>(network.result)], "output", made);
  return std::move(graph).model("tandem");
}

}  // namespace tandem::detail

#endif
