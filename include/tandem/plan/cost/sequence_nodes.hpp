// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SequenceNodes: what GptGraph, GnmtGraph and BigLstmGraph are made of: the nodes of a network of
/// sequences whose sizes are known at run time only.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem::detail {

/// Grows node by node as GraphBuilder does; only types and initial values are left out. Not
/// copyable: views refer to it.
class SequenceNodes {
 public:
  SequenceNodes(SequenceNodes const&) = delete;
  SequenceNodes& operator=(SequenceNodes const&) = delete;

  /// Refers to this.
  TANDEM_ONCE [[nodiscard]] GraphView view() const;

 protected:
  struct Weight {
    char const* name;
    Shape shape;
    RowsTouched touched{};
  };

  SequenceNodes() = default;
  ~SequenceNodes() = default;

  [[nodiscard]] Shape out(int n) const { return node_[static_cast<std::size_t>(n)].out; }
  Node& back() { return node_.back(); }

  TANDEM_ONCE void at(std::initializer_list<int> parts);
  /// Of @p time tokens of @p limit words; the second input's time is another.
  TANDEM_ONCE int input(int time, int limit);
  TANDEM_ONCE int layer(std::string_view name, std::initializer_list<int> from, Shape out,
                        std::int64_t macs, Kept const& kept, std::vector<Weight> const& weights);
  /// Rows of the first input's time.
  TANDEM_ONCE int join(NodeKind kind, std::string_view name, int first, int second, int columns);
  TANDEM_ONCE int add(int body, int shortcut);
  /// The newest parameter is that of the network's first layer.
  TANDEM_ONCE void share_first();

  int top_ = 0;

 private:
  TANDEM_ONCE int push(Node node, std::initializer_list<int> inputs);

  std::vector<Node> node_{};
  std::vector<int> source_{};
  std::vector<int> edge_origin_{};
  std::vector<GraphParameter> parameter_{};
  Path path_{};
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE GraphView SequenceNodes::view() const {
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

TANDEM_ONCE void SequenceNodes::at(std::initializer_list<int> parts) {
  path_ = {};
  for (int const part : parts) {
    path_.push(part);
  }
}

TANDEM_ONCE int SequenceNodes::input(int time, int limit) {
  Shape shape = tokens_shape(time);
  int const number = static_cast<int>(node_.size());
  shape.clock = static_cast<std::int8_t>(number);
  node_.push_back({.limit = limit, .input = number, .origin = number, .in = shape, .out = shape});
  node_.back().name = "Input";
  return number;
}

TANDEM_ONCE int SequenceNodes::layer(std::string_view name, std::initializer_list<int> from,
                                     Shape out, std::int64_t macs, Kept const& kept,
                                     std::vector<Weight> const& weights) {
  Node node{.kind = NodeKind::layer, .out = out, .macs = macs, .kept = kept};
  node.name = name;
  node.layer = name == "Linear"       ? LayerKind::linear
               : name == "LayerNorm"  ? LayerKind::row_norm
               : name == "GeluTanh"   ? LayerKind::gelu_tanh
               : name == "Dropout"    ? LayerKind::dropout
               : name == "Embedding"  ? LayerKind::embedding
               : name == "Vocabulary" ? LayerKind::vocabulary
                                      : LayerKind::other;
  node.sequence.in_chunks = node.layer != LayerKind::other;
  if (node.layer == LayerKind::gelu_tanh || node.layer == LayerKind::dropout) {
    node.sharing.columns = Columns::alike();
  }
  node.first_parameter = static_cast<int>(parameter_.size());
  node.parameters = static_cast<int>(weights.size());
  for (Weight const& weight : weights) {
    GraphParameter own{.node = static_cast<int>(node_.size()),
                       .origin = static_cast<int>(parameter_.size()),
                       .path = path_};
    own.parameter.name = weight.name;
    own.parameter.shape = weight.shape;
    own.parameter.touched = weight.touched;
    parameter_.push_back(own);
  }
  return push(node, from);
}

TANDEM_ONCE int SequenceNodes::join(NodeKind kind, std::string_view name, int first, int second,
                                    int columns) {
  Shape shape = this->out(first);
  shape.extent[1] = columns;
  Node node{.kind = kind, .out = shape};
  node.name = name;
  node.first_parameter = 0;
  return push(node, {first, second});
}

TANDEM_ONCE int SequenceNodes::add(int body, int shortcut) {
  return join(NodeKind::add, "Add", body, shortcut, this->out(body)[1]);
}

TANDEM_ONCE void SequenceNodes::share_first() {
  parameter_.back().own_name = parameter_.back().parameter.name;
  parameter_.back().shared = 0;
  parameter_.back().path = parameter_.front().path;
}

TANDEM_ONCE int SequenceNodes::push(Node node, std::initializer_list<int> inputs) {
  node.needs_gradient = true;  // the words are trained, and all else is behind them
  node.origin = static_cast<int>(node_.size());
  node.top = top_;
  node.path = path_;
  node.first_edge = static_cast<int>(source_.size());
  node.edges = static_cast<int>(inputs.size());
  node.in = this->out(*inputs.begin());
  node.out.clock = node.in.clock;
  for (int const input : inputs) {
    edge_origin_.push_back(static_cast<int>(source_.size()));
    source_.push_back(input);
  }
  node_.push_back(node);
  return node.origin;
}

}  // namespace tandem::detail

#endif
