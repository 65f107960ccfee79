// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NodeStep: what a pass does where a node of a device stands, worked out once.

#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/rank/op_list.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/spread.hpp>

namespace tandem {

/// How the gradients of a node's output are added up. A named value's come back from stage to
/// stage, rounded at each; they are rounded alike within a stage, so that it does not matter where
/// the network is cut.
constexpr Rounding rounding_of(Node const& node) {
  return node.named ? Rounding::each : Rounding::once;
}

/// A pass that does more than call a node's op goes a slower way, by the flags that are not plain.
template <class Backend>
struct NodeStep {
  PreparedOp<Backend>* op = nullptr;  ///< null: the node computes nothing
  bool plain_forward = false;         ///< forward only calls the op, with the pass as it is
  bool idle_forward = false;          ///< forward does nothing
  bool plain_backward = false;   ///< backward only calls the op, once for each gradient, likewise
  bool input_gradient = false;   ///< backward wants the gradients of its inputs
  bool weight_gradient = false;  ///< its op computes the gradients of its parameters
  bool both = false;             ///< its op computes both kinds of gradients at once
  bool adds_forks = false;       ///< the gradients of its output are added up, or sent
  bool collective = false;       ///< ranks that share layers add or exchange something there
  bool phased = false;           ///< its op is called for microbatches without samples, too
  bool of_source = false;        ///< it depends on an input that is whole where rows come in pieces
  bool dealt_rows = false;       ///< its op sees the rank's own rows
  bool needs_gradient = false;
  int clock = 0;
  int closes = -1;  ///< the bucket that is whole when its weights' gradients are, or -1
  int uses = 0;     ///< gradients that its output gets
  /// The Copy or Enter that gets its only gradient from this node, whose backward pass begins the
  /// sum of that over the ranks; or -1. Siblings that became one node give one together.
  int begins = -1;
};

/// The steps of all nodes of a device.
template <class Backend>
TANDEM_COLD std::vector<NodeStep<Backend>> node_steps(DeviceTables const& tables,
                                                      OpList<Backend> const& ops) {
  GraphView const& graph = tables.graph;
  std::vector<NodeStep<Backend>> steps(static_cast<std::size_t>(graph.nodes));
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    for (int e = 0; e < node.edges && !node.merged; ++e) {
      ++steps[static_cast<std::size_t>(graph.source[node.first_edge + e])].uses;
    }
  }
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    NodeStep<Backend>& step = steps[static_cast<std::size_t>(n)];
    bool const trains = node.parameters > 0 && !node.frozen;
    step.op = ops[static_cast<std::size_t>(n)].get();
    step.needs_gradient = node.needs_gradient;
    step.input_gradient = node.needs_gradient && gives_input_gradient(graph, n);
    step.weight_gradient = node.needs_gradient && trains && node.computes();
    step.both = step.input_gradient && step.weight_gradient && step.op->gives_both;
    step.adds_forks =
        node.needs_gradient && (node.kind == NodeKind::receive || (step.uses > 1 && !node.joined));
    step.collective = node.is_collective();
    step.phased = phase_rule(node, tables.several_replicas).joins();
    step.of_source = tables.reads_two && has_source_time(node);
    step.dealt_rows = spread_rule(node.dealt).out.value == Spread::rows;
    step.clock = node.in.clock;
    step.closes = node.needs_gradient && trains ? tables.layout.closes[n] : -1;
    if (node.needs_gradient && node.edges == 1 && !node.merged) {
      int const source = graph.source[node.first_edge];
      Node const& before = graph.node[source];
      bool const sums = before.kind == NodeKind::copy || before.kind == NodeKind::enter;
      step.begins =
          sums && before.needs_gradient && steps[static_cast<std::size_t>(source)].uses == 1
              ? source
              : -1;
    }
    bool const as_it_is = !step.of_source && !step.dealt_rows && step.clock == 0;
    step.plain_forward = as_it_is && !step.collective && step.op != nullptr;
    step.idle_forward = !step.collective && step.op == nullptr;
    step.plain_backward = as_it_is && !step.collective && !step.adds_forks && !step.both &&
                          step.begins < 0 && (step.closes < 0 || step.weight_gradient);
  }
  return steps;
}

}  // namespace tandem
