// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// static_costs: what the nodes of a network take on a described machine, without a measurement.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// The costs of @p graph, as `graph<Net>`, for a minibatch of @p batch samples on one device: of
/// each pass of a node the longer of its operations at the achieved rate and of its bytes at the
/// memory's, and the overhead of a launch. Backward multiplies once for the input's gradient and
/// once for the weights'; attention, which has none, two and a half times as often. A
/// table of indices reads the rows that are looked up and writes the whole gradient, as a sampled
/// softmax does; with RowGradient both write those rows only, CostNode::rows. A recurrent layer
/// multiplies its input with one product and its states, T times in each direction, with a product
/// of its own, whose weights are read each time. A shared parameter counts in each layer that has
/// it, as each has a copy that is reduced and updated (Ties). A node's name is its path and its
/// layer: "3.1 Conv2d"; the input's is "input".
/// @throws ContractError  batch < 1, or check_machine() refuses the machine
TANDEM_ONCE [[nodiscard]] CostGraph static_costs(GraphView graph, Machine const& machine,
                                                 MathPrecision precision, int batch);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Times of one node by the roofline of a device.
class NodeCosts {
 public:
  NodeCosts(GraphView graph, Machine const& machine, MathPrecision precision, int batch, int node)
      : graph_{graph},
        times_{machine, precision},
        precision_{precision},
        node_{graph.node[node]},
        batch_{batch},
        operations_{2.0 * static_cast<double>(node_.macs) * batch},
        output_bytes_{bytes_of(node_.out, batch)} {
    for (int e = node_.first_edge; e < node_.first_edge + node_.edges; ++e) {
      Node const& source = graph.node[graph.source[e]];
      input_bytes_ += bytes_of(source.out, batch);
      wants_input_gradient_ = wants_input_gradient_ || source.needs_gradient;
    }
    bool const recurrent = node_.name == "Lstm" || node_.name == "Gru";
    for (int p = node_.first_parameter; p < node_.first_parameter + node_.parameters; ++p) {
      GraphParameter const& parameter = graph.parameter[p];
      parameters_ += static_cast<double>(parameter.parameter.shape.elements());
      trained_ = trained_ || !parameter.frozen;
      if (parameter.parameter.touched.sparse() && !parameter.frozen) {
        rows_ += rows_of(parameter.parameter);
      }
      std::string_view const name{parameter.parameter.name};
      if (recurrent && (name.starts_with("weight_hh") || name.starts_with("weight_hr"))) {
        Shape const& states = parameter.parameter.shape;
        state_parameters_ += static_cast<double>(states.elements());
        state_share_ = times_.share(batch, states[0], states[1]);
        directions_ += name.starts_with("weight_hh") ? 1 : 0;
      }
    }
    bool const indices = node_.edges == 1 && graph.node[graph.source[node_.first_edge]].limit > 0;
    read_parameters_ = indices ? std::min(parameters_, elements_of(node_.out, batch)) : parameters_;
    if (node_.criterion && node_.edges == 1) {  // a sample of the words, or all
      Shape const rows = graph.node[graph.source[node_.first_edge]].out;
      double const columns = static_cast<double>(node_.macs) / static_cast<double>(rows.elements());
      read_parameters_ = std::min(parameters_, columns * (rows[1] + 1));
    }
    share_ = share_of_peak();
    written_bytes_ = static_cast<double>(node_.kept.scalars) * batch * element_bytes(precision);
  }

  // Outputs of a Concat are written where they are read; views are not copied.
  [[nodiscard]] bool computes() const {
    return !node_.is_end() && !node_.view && node_.kind != NodeKind::concat;
  }
  [[nodiscard]] double forward() const { return computes() ? pass(0) : 0; }
  // Of the input, then of the weights; a layer without products does both at once. The sum of a
  // Residual passes its gradient on.
  [[nodiscard]] double backward() const {
    if (!computes() || !node_.needs_gradient || node_.passes_gradient()) {
      return 0;
    }
    double const dense =
        parameters_ * master_bytes(precision_) - static_cast<double>(rows_.parameter_bytes);
    double const unread = std::max(0.0, dense - read_parameters_ * master_bytes(precision_));
    if (node_.macs == 0) {
      return pass(output_bytes_ + unread);
    }
    bool const pairs = node_.parameters == 0;  // products of its input with itself: attention
    double const once = pass(output_bytes_);
    return pairs ? 2.5 * once
                 : once * ((wants_input_gradient_ ? 1 : 0) + (trained_ ? 1 : 0)) +
                       unread / times_.memory();
  }
  // The input is wherever it is read.
  [[nodiscard]] std::int64_t output_bytes() const {
    return node_.kind == NodeKind::input ? 0 : static_cast<std::int64_t>(output_bytes_);
  }
  [[nodiscard]] std::int64_t parameter_bytes() const {
    return static_cast<std::int64_t>(parameters_ * master_bytes(precision_));
  }
  [[nodiscard]] RowCosts const& rows() const { return rows_; }

 private:
  [[nodiscard]] RowCosts rows_of(Parameter const& parameter) const {
    std::int64_t const rows = parameter.shape[0];
    std::int64_t const row =  // and its number
        parameter.shape.elements() / rows * master_bytes(precision_) + 4;
    RowsTouched const& touched = parameter.touched;
    return {.parameter_bytes = parameter.shape.elements() * master_bytes(precision_),
            .most_bytes = rows * row,
            .step_bytes = touched.of_step * row,
            .minibatch_bytes = std::int64_t{touched.of_sample} * batch_ * row};
  }
  [[nodiscard]] double bytes_of(Shape const& shape, int batch) const {
    return elements_of(shape, batch) * element_bytes(precision_);
  }
  [[nodiscard]] static double elements_of(Shape const& shape, int batch) {
    return static_cast<double>(shape.elements()) * batch;
  }
  [[nodiscard]] double pass(double more_bytes) const {
    double const read = read_parameters_ - state_parameters_;
    double const bytes = input_bytes_ + output_bytes_ + written_bytes_ + more_bytes +
                         read * element_bytes(precision_);
    double const steps = static_cast<double>(directions_) * node_.out[0];
    double const states = state_parameters_ / std::max(directions_, 1);
    return times_.run(operations_ - steps * 2 * states * batch_, share_, bytes) +
           steps * (states > 0 ? times_.run(2 * states * batch_, state_share_,
                                            states * element_bytes(precision_))
                               : 0);
  }
  // Of the product that a layer is: its first weight's rows are columns, as many rows as there are
  // operations for.
  [[nodiscard]] double share_of_peak() const {
    if (node_.macs == 0 || node_.parameters == 0) {
      return times_.attention_share();
    }
    Shape const& weight = graph_.parameter[node_.first_parameter].parameter.shape;
    auto const elements = static_cast<double>(weight.elements());
    auto const columns = static_cast<double>(weight[0]);
    return times_.share(operations_ / 2 / elements, columns, elements / columns);
  }

  GraphView graph_;
  KernelTimes times_;
  MathPrecision precision_;
  Node const& node_;
  int batch_;
  double operations_;
  double output_bytes_;
  double input_bytes_ = 0;
  double parameters_ = 0;
  double read_parameters_ = 0;   // in a pass: of a table of indices, rows that are looked up
  double state_parameters_ = 0;  // of a recurrent layer: multiplied row by row of the time
  double state_share_ = 1;
  int directions_ = 0;
  double share_ = 1;  // of the peak
  RowCosts rows_{};
  double written_bytes_ = 0;  // beside its output, and read again: logits
  bool wants_input_gradient_ = false;
  bool trained_ = false;
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE CostGraph static_costs(GraphView graph, Machine const& machine, MathPrecision precision,
                                   int batch) {
  expects(batch >= 1, "static_costs(graph, machine, precision, batch): give 1 sample or more");
  check_machine(machine);
  CostGraph result;
  for (int n = 0; n < graph.nodes; ++n) {
    detail::NodeCosts const costs{graph, machine, precision, batch, n};
    Node const& node = graph.node[n];
    std::string const path = to_string(node.path);
    result.node.push_back({.name = node.kind == NodeKind::input
                                       ? std::string{"input"}
                                       : path + " " + std::string{node.name},
                           .forward = costs.forward(),
                           .backward = costs.backward(),
                           .output_bytes = costs.output_bytes(),
                           .parameter_bytes = costs.parameter_bytes(),
                           .part = node.top,
                           .rows = costs.rows()});
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      CostEdge const edge{graph.source[e], n};
      if (result.edge.empty() || !(result.edge.back() == edge)) {
        result.edge.push_back(edge);
      }
    }
  }
  return result;
}

}  // namespace tandem

#endif
