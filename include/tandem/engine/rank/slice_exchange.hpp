// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SliceExchange: what ranks that share layers do where a collective node stands.

#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>

namespace tandem {

/// The passes of collective node @p n. A host has
///
/// slice(): which of the ranks this is.
/// begin_slices(data, elements, node, label), await_slices(): what the node has becomes its sum
///                        over the ranks; in between nothing touches it.
/// begin_scatter(all, own, rows, width, node, label), end_scatter(own, rows, width): the rank's own
///                        rows of that sum, likewise.
/// gather_rows(own, all, rows, width, node, label): all ranks' rows.
/// take_rows(all, own, rows, width): the rank's own of what all have.
template <class Host>
struct SliceExchange {
  using PassType = typename Host::PassType;
  using Table = typename Host::Table;

  Host& host;
  Node const& node;
  int n;
  PassType const& pass;  ///< of all rows
  Table const& table;

  void forward() const {
    auto const& own = table.operands[n];
    if (node.kind == NodeKind::reduce) {
      host.begin_slices(own.y, pass.elements(node.out), n, "reduce");
      host.await_slices();
    } else if (node.kind == NodeKind::enter || node.kind == NodeKind::collect) {
      host.gather_rows(own.x[0], own.y, rows(), width(), n,
                       node.kind == NodeKind::enter ? "enter" : "collect");
    } else if (node.kind == NodeKind::leave) {
      host.begin_scatter(own.x[0], own.y, rows(), width(), n, "leave");
      host.end_scatter(own.y, rows(), width());
    } else if (node.kind == NodeKind::deal) {
      host.take_rows(own.x[0], own.y, rows(), width());
    }
  }

  /// Of the gradient that the node has. What is added up where its only reader has given it, over
  /// that one's weight gradient, is awaited.
  /// @param uses           readers that give the node a gradient
  /// @param gives_gradient whether it gives its input one
  void backward(int uses, bool gives_gradient) const {
    if (node.kind == NodeKind::copy || node.kind == NodeKind::enter) {
      if (uses > 1) {
        begin();
      }
      if (node.kind == NodeKind::copy) {
        host.await_slices();
      } else {
        host.end_scatter(table.operands[n].dx[0], rows(), width());
      }
    } else if (gives_gradient && node.exchanges_rows()) {
      auto* const own = table.gradient[n];
      auto* const to = table.operands[n].dx[0];
      if (node.kind == NodeKind::collect) {
        host.take_rows(own, to, rows(), width());
      } else {
        host.gather_rows(own, to, rows(), width(), n,
                         node.kind == NodeKind::leave ? "gradient of leave" : "gradient of deal");
      }
    }
  }
  /// Of a Copy or an Enter: its gradient begins to be added up.
  void begin() const {
    if (node.kind == NodeKind::copy) {
      host.begin_slices(table.gradient[n], pass.elements(node.out), n, "gradient of copy");
    } else {
      host.begin_scatter(table.gradient[n], table.operands[n].dx[0], rows(), width(), n,
                         "gradient of enter");
    }
  }

 private:
  [[nodiscard]] DealtRows rows() const { return {pass.rows(node.out), host.slice()}; }
  [[nodiscard]] std::int64_t width() const { return node.out.row_elements(); }
};

}  // namespace tandem
