// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SliceExchange: what ranks that share layers do where a collective node stands.

#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>

namespace tandem {

/// The passes of collective node n, whose kind is that of node @p I. A host has
///
/// slices.slice(): which of the ranks this is.
/// begin_slices(data, elements, node, label), await_slices(): what the node has becomes its sum
///                        over the ranks; in between nothing touches it.
/// begin_scatter(all, own, rows, width, node, label), end_scatter(own, rows, width): the rank's own
///                        rows of that sum, likewise.
/// gather_rows(own, all, rows, width, node, label): all ranks' rows.
/// take_rows(all, own, rows, width): the rank's own of what all have.
///
/// @tparam Program  DeviceProgram
/// @tparam Uses     readers that give the node a gradient
template <class Program, int I, int Uses = 0>
struct SliceExchange {
  static constexpr auto const& graph = Program::graph;
  static constexpr NodeKind kind = graph.node[I].kind;

  /// @param pass  of all rows
  template <class Host, class Pass, class Operands>
  static void forward(Host& host, Pass const& pass, Operands const& own, int n) {
    if constexpr (kind == NodeKind::reduce) {
      host.begin_slices(own.y, pass.elements(graph.node[n].out), n, "reduce");
      host.await_slices();
    } else if constexpr (kind == NodeKind::enter || kind == NodeKind::collect) {
      host.gather_rows(own.x[0], own.y, rows(host, pass), width(n), n,
                       kind == NodeKind::enter ? "enter" : "collect");
    } else if constexpr (kind == NodeKind::leave) {
      host.begin_scatter(own.x[0], own.y, rows(host, pass), width(n), n, "leave");
      host.end_scatter(own.y, rows(host, pass), width(n));
    } else if constexpr (kind == NodeKind::deal) {
      host.take_rows(own.x[0], own.y, rows(host, pass), width(n));
    }
  }

  /// Of the gradient that the node has. What is added up where its only reader has given it, over
  /// that one's weight gradient, is awaited.
  template <class Host, class Pass, class Table>
  static void backward(Host& host, Pass const& pass, Table const& table, int n) {
    if constexpr (kind == NodeKind::copy || kind == NodeKind::enter) {
      if constexpr (Uses > 1) {
        begin(host, pass, table, n);
      }
      if constexpr (kind == NodeKind::copy) {
        host.await_slices();
      } else {
        host.end_scatter(table.operands[n].dx[0], rows(host, pass), width(n));
      }
    } else if constexpr (Program::gives_input_gradient.of[I] && graph.node[I].exchanges_rows()) {
      auto* const own = table.gradient[n];
      auto* const to = table.operands[n].dx[0];
      if constexpr (kind == NodeKind::collect) {
        host.take_rows(own, to, rows(host, pass), width(n));
      } else {
        host.gather_rows(own, to, rows(host, pass), width(n), n,
                         kind == NodeKind::leave ? "gradient of leave" : "gradient of deal");
      }
    }
  }
  /// Of a Copy or an Enter: its gradient begins to be added up.
  template <class Host, class Pass, class Table>
  static void begin(Host& host, Pass const& pass, Table const& table, int n) {
    if constexpr (kind == NodeKind::copy) {
      host.begin_slices(table.gradient[n], pass.elements(graph.node[n].out), n, "gradient of copy");
    } else {
      host.begin_scatter(table.gradient[n], table.operands[n].dx[0], rows(host, pass), width(n), n,
                         "gradient of enter");
    }
  }

 private:
  template <class Host, class Pass>
  static DealtRows rows(Host& host, Pass const& pass) {
    return {pass.rows(graph.node[I].out), host.slices.slice()};
  }
  static std::int64_t width(int n) { return graph.node[n].out.row_elements(); }
};

}  // namespace tandem
