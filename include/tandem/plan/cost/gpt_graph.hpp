// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GptGraph: the graph of a models::Gpt whose sizes are known at run time only, for planners.

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// As the arguments of models::Gpt; the default is GPT-2.
struct GptSizes {
  int vocabulary = 50257;
  int context = 1024;  ///< T
  int width = 768;     ///< C
  int heads = 12;
  int layers = 12;
};

/// The graph of models::Gpt<vocabulary, context, width, heads, layers>, node by node; only types
/// and initial values are left out. Not copyable: views refer to it.
/// @throws ContractError  a size is not positive, or the width is no multiple of the heads
template <class = void>  // compiled where it is called, not by every include
class GptGraph {
 public:
  explicit GptGraph(GptSizes const& sizes) : sizes_{sizes} {
    for (int const size :
         {sizes.vocabulary, sizes.context, sizes.width, sizes.heads, sizes.layers}) {
      expects(size >= 1 && size <= 1'000'000,
              "GptGraph: give vocabulary, context, width, heads and layers from 1 to 1000000");
    }
    expects(sizes.width % sizes.heads == 0,
            "GptGraph: the width must be a multiple of the heads, each of which has its part of "
            "it");
    make();
  }
  GptGraph(GptGraph const&) = delete;
  GptGraph& operator=(GptGraph const&) = delete;

  /// Refers to this.
  [[nodiscard]] GraphView view() const {
    GraphView view{Graph<GraphSize{1, 0, 0}>{}};
    view.nodes = static_cast<int>(node_.size());
    view.edges = static_cast<int>(source_.size());
    view.parameters = static_cast<int>(parameter_.size());
    view.node = node_.data();
    view.source = source_.data();
    view.edge_origin = edge_origin_.data();
    view.parameter = parameter_.data();
    view.result = view.nodes - 1;
    return view;
  }

 private:
  struct Weight {
    char const* name;
    Shape shape;
  };

  void make() {
    int const channels = sizes_.width;
    Shape const rows = timed_shape(sizes_.context, channels);
    Weight const words{"weight", {2, {sizes_.vocabulary, channels}}};
    int const norm_sums = 2 * channels;
    Node const input{.limit = sizes_.vocabulary,
                     .in = tokens_shape(sizes_.context),
                     .out = tokens_shape(sizes_.context),
                     .name = "Input"};
    node_.push_back(input);
    at({0});
    int last = layer("Embedding", 0, rows, 0, Kept::of(true, false), {words});
    top_ = 1;
    at({1, 0});
    last = layer("Positions", last, rows, 0, Kept::of(false, false),
                 {{"weight", {2, {sizes_.context, channels}}}});
    Kept const norm = Kept::of(true, false, 0, 2 * std::int64_t{sizes_.context}, norm_sums);
    for (int block = 0; block < sizes_.layers; ++block) {
      top_ = 2 + block;
      auto const part = static_cast<std::int16_t>(block);
      at({2, part, 0, Path::body, 0});
      int body = layer_norm(last, norm);
      at({2, part, 0, Path::body, 1});
      body = linear(body, 3 * channels);
      at({2, part, 0, Path::body, 2});
      std::int64_t const pairs = std::int64_t{sizes_.context} * (sizes_.context + 1) / 2;
      body = layer("Attention", body, rows, 2 * pairs * channels,
                   Kept::of(true, true, 0, std::int64_t{sizes_.context} * sizes_.heads), {});
      at({2, part, 0, Path::body, 3});
      body = linear(body, channels);
      at({2, part, 0});
      last = add(body, last);
      at({2, part, 1, Path::body, 0});
      body = layer_norm(last, norm);
      at({2, part, 1, Path::body, 1});
      body = linear(body, 4 * channels);
      at({2, part, 1, Path::body, 2});
      body = layer("GeluTanh", body, timed_shape(sizes_.context, 4 * channels), 0,
                   Kept::of(true, false), {});
      at({2, part, 1, Path::body, 3});
      body = linear(body, channels);
      at({2, part, 1});
      last = add(body, last);
    }
    top_ = 2 + sizes_.layers;
    at({3});
    last = layer_norm(last, norm);
    ++top_;
    at({4});
    std::int64_t const logits = std::int64_t{sizes_.context} * sizes_.vocabulary;
    layer("Vocabulary", last, timed_shape(sizes_.context, 3), logits * channels,
          Kept::of(true, false, logits), {words});
    node_.back().criterion = true;
    node_.back().limit = sizes_.vocabulary;
    parameter_.back().shared = 0;
    parameter_.back().path = parameter_.front().path;
  }

  void at(std::initializer_list<std::int16_t> parts) {
    path_ = {};
    for (std::int16_t const part : parts) {
      path_.push(part);
    }
  }
  int layer_norm(int from, Kept const& kept) {
    Shape const channels = vector_shape(sizes_.width);
    return layer("LayerNorm", from, node_[static_cast<std::size_t>(from)].out, 0, kept,
                 {{"weight", channels}, {"bias", channels}});
  }
  int linear(int from, int out) {
    Shape const in = node_[static_cast<std::size_t>(from)].out;
    return layer("Linear", from, timed_shape(sizes_.context, out), in.elements() * out,
                 Kept::of(true, false),
                 {{"weight", {2, {out, in[1]}}}, {"bias", vector_shape(out)}});
  }
  int layer(std::string_view name, int from, Shape out, std::int64_t macs, Kept const& kept,
            std::initializer_list<Weight> weights) {
    Node node{.kind = NodeKind::layer, .out = out, .macs = macs, .kept = kept};
    node.name = name;
    node.layer = name == "Linear"      ? LayerKind::linear
                 : name == "LayerNorm" ? LayerKind::row_norm
                 : name == "GeluTanh"  ? LayerKind::gelu_tanh
                                       : LayerKind::other;
    node.first_parameter = static_cast<int>(parameter_.size());
    node.parameters = static_cast<int>(weights.size());
    for (Weight const& weight : weights) {
      GraphParameter own{.node = static_cast<int>(node_.size()),
                         .origin = static_cast<int>(parameter_.size()),
                         .path = path_};
      own.parameter.name = weight.name;
      own.parameter.shape = weight.shape;
      parameter_.push_back(own);
    }
    return push(node, {from});
  }
  int add(int body, int shortcut) {
    Node node{.kind = NodeKind::add, .out = node_[static_cast<std::size_t>(body)].out};
    node.name = "Add";
    node.first_parameter = 0;
    return push(node, {body, shortcut});
  }
  int push(Node node, std::initializer_list<int> inputs) {
    node.needs_gradient = true;  // the words are trained, and all else is behind them
    node.origin = static_cast<int>(node_.size());
    node.top = top_;
    node.path = path_;
    node.first_edge = static_cast<int>(source_.size());
    node.edges = static_cast<int>(inputs.size());
    node.in = node_[static_cast<std::size_t>(*inputs.begin())].out;
    for (int const input : inputs) {
      edge_origin_.push_back(static_cast<int>(source_.size()));
      source_.push_back(input);
    }
    node_.push_back(node);
    return node.origin;
  }

  GptSizes sizes_;
  std::vector<Node> node_{};
  std::vector<int> source_{};
  std::vector<int> edge_origin_{};
  std::vector<GraphParameter> parameter_{};
  Path path_{};
  int top_ = 0;
};

}  // namespace tandem
