// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Player: plays a step on a memory plan. Every write marks its bytes, every read must find the
/// marks of what it wants, so buffers whose lives meet cannot overlap.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/engine/gradient_plan.hpp>

namespace tandem::test {

inline constexpr std::int64_t line = 64;  // what buffers are aligned to

/// A region of memory; each line of it remembers who wrote it last.
class MarkedMemory {
 public:
  explicit MarkedMemory(std::int64_t bytes) : mark_(static_cast<std::size_t>(bytes / line), -1) {}

  void write(std::int64_t offset, std::int64_t bytes, int mark) {
    for_lines(offset, bytes, [&](int& m) { m = mark; });
  }
  void read(std::int64_t offset, std::int64_t bytes, int mark) {
    for_lines(offset, bytes, [&](int& m) { ok = ok && m == mark; });
  }
  bool ok = true;

 private:
  template <class F>
  void for_lines(std::int64_t offset, std::int64_t bytes, F const& f) {
    std::int64_t const end = (offset + bytes + line - 1) / line;
    ok = ok && offset >= 0 && offset % line == 0 && end <= std::ssize(mark_);
    for (std::int64_t i = offset / line; ok && i < end; ++i) {
      f(mark_[static_cast<std::size_t>(i)]);
    }
  }
  std::vector<int> mark_;
};

/// Marks: a node's value n, what it saved n + N, its gradient n + 2 N, an edge's gradient e + 3 N.
template <GraphSize Size>
class Player {
 public:
  Player(Graph<Size> const& graph, std::vector<OpNeeds> const& needs, int batch)
      : graph_{graph},
        needs_{needs},
        batch_{batch},
        plan_{plan_memory(graph, needs,
                          {.batch = batch, .stages = {{.first = 0, .last = Size.nodes}}})},
        kept_{plan_.kept_bytes[0]},
        transient_{std::max(plan_.transient_bytes, plan_.gradient_bytes)} {}

  [[nodiscard]] bool plays() {
    for (int n = 1; n < Size.nodes; ++n) {
      forward(n);
    }
    value(Size.nodes - 1, &MarkedMemory::read);
    transient_.write(plan_.loss_gradient, bytes(Size.nodes - 1), gradient_mark(Size.nodes - 1));
    for (int n = Size.nodes - 1; n > 0; --n) {
      if (graph_.node[n].needs_gradient) {
        backward(n);
      }
    }
    return kept_.ok && transient_.ok;
  }

  [[nodiscard]] MemoryPlan const& plan() const { return plan_; }

 private:
  using Access = void (MarkedMemory::*)(std::int64_t, std::int64_t, int);
  [[nodiscard]] static auto at(int i) { return static_cast<std::size_t>(i); }
  // Of the whole memory that node n's output is a slice of.
  [[nodiscard]] std::int64_t bytes(int n) const {
    Node const& root = graph_.node[root_of(graph_, n)];
    int const wider = root.width > 0 ? root.width : root.out[0];
    return root.out.elements() / root.out[0] * wider * batch_ * 4;
  }
  [[nodiscard]] std::int64_t slice(int n) const { return first_channel_of(graph_, n) * 4; }
  [[nodiscard]] static bool passes(Node const& node) {
    return node.kind == NodeKind::add || node.view || node.placed;
  }

  void value(int n, Access access) {
    int const root = plan_.root[at(n)];
    if (root != 0) {  // the input is the caller's memory
      ((plan_.region[at(root)] == MemoryRegion::kept ? kept_ : transient_).*access)(
          plan_.value[at(root)], bytes(n), root);
    }
  }
  void gradient(std::int64_t offset, int n, int mark, Access access) {
    (transient_.*access)(offset - slice(n), bytes(n), mark);
  }
  void saved(int n, Access access) {
    if (needs_[at(n)].saved_bytes > 0) {
      (kept_.*access)(plan_.saved[at(n)], needs_[at(n)].saved_bytes, n + Size.nodes);
    }
  }
  void inputs(int n) {
    for (int e = graph_.node[n].first_edge, end = e + graph_.node[n].edges; e < end; ++e) {
      value(graph_.source[e], &MarkedMemory::read);
    }
  }

  void forward(int n) {
    if (!graph_.node[n].computes()) {
      return;
    }
    inputs(n);
    value(n, &MarkedMemory::write);
    saved(n, &MarkedMemory::write);
    if (!needs_[at(n)].in_place) {
      inputs(n);  // y overlaps no x
    }
  }

  // A gradient has one mark, however many names: a sum's inputs have its own gradient.
  [[nodiscard]] int edge_mark(int edge) const {
    int n = 0;
    while (edge < graph_.node[n].first_edge ||
           edge >= graph_.node[n].first_edge + graph_.node[n].edges) {
      ++n;
    }
    if (passes(graph_.node[n])) {
      return gradient_mark(n);
    }
    Node const& source = graph_.node[graph_.source[edge]];
    int const leader = source.merged ? source.home : graph_.source[edge];
    return graph_.node[leader].width > 0 ? leader + 2 * Size.nodes : edge + 3 * Size.nodes;
  }
  [[nodiscard]] std::vector<int> users(int n) const {
    std::vector<int> list;
    for (int m = 1; m < Size.nodes; ++m) {
      Node const& node = graph_.node[m];
      for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
        if (graph_.source[e] == n) {
          list.push_back(e);
        }
      }
    }
    return list;
  }
  [[nodiscard]] int gradient_mark(int n) const {
    std::vector<int> const list = users(n);
    return list.size() == 1 ? edge_mark(list.front()) : n + 2 * Size.nodes;
  }

  void backward(int n) {
    Node const& node = graph_.node[n];
    OpNeeds const& need = needs_[at(n)];
    std::vector<int> const list = users(n);
    for (int const e : list) {
      gradient(plan_.edge_gradient[at(e)], n, edge_mark(e), &MarkedMemory::read);
    }
    if (list.size() > 1) {
      gradient(plan_.node_gradient[at(n)], n, gradient_mark(n), &MarkedMemory::write);
      for (int const e : list) {  // the sum overlaps no summand
        gradient(plan_.edge_gradient[at(e)], n, edge_mark(e), &MarkedMemory::read);
      }
    }
    auto const read = [&] {
      gradient(plan_.node_gradient[at(n)], n, gradient_mark(n), &MarkedMemory::read);
      if (need.input) {
        inputs(n);
      }
      if (need.output) {
        value(n, &MarkedMemory::read);
      }
      saved(n, &MarkedMemory::read);
    };
    read();
    for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
      int const source = graph_.source[e];
      bool const wanted = graph_.node[source].needs_gradient;
      transient_.ok = transient_.ok && (plan_.edge_gradient[at(e)] >= 0) == wanted;
      if (wanted && !passes(node)) {
        gradient(plan_.edge_gradient[at(e)], source, edge_mark(e), &MarkedMemory::write);
      }
    }
    if (!need.in_place) {
      read();  // the weight gradient comes after the input gradient
    }
  }

  Graph<Size> const& graph_;
  std::vector<OpNeeds> const& needs_;
  std::int64_t batch_;
  MemoryPlan plan_;
  MarkedMemory kept_;
  MarkedMemory transient_;
};

}  // namespace tandem::test
