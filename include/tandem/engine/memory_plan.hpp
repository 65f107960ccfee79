// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MemoryPlan: where each activation and each gradient of a stage's nodes stands, for one size of
/// microbatch; made before the first step and never changed.
///
/// Two regions. *kept* holds what backward reads, once for each live microbatch. *transient* holds
/// what lives within one pass; buffers whose lives do not meet share memory (first fit).

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/engine/first_fit.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Offsets in bytes; -1 where there is no such buffer.
struct MemoryPlan {
  static constexpr std::int64_t none = -1;

  std::vector<int> root;                    ///< of a node: whose memory its output is
  std::vector<std::int64_t> slice;          ///< of a node: where in that memory, in bytes
  std::vector<bool> kept;                   ///< of a root: in the kept region
  std::vector<std::int64_t> value;          ///< of a root
  std::vector<std::int64_t> saved;          ///< of a node, in the kept region
  std::vector<std::int64_t> node_gradient;  ///< of a node, in the transient region
  std::vector<std::int64_t> edge_gradient;  ///< of an edge, likewise
  std::int64_t loss_gradient = none;        ///< where the loss writes
  std::int64_t kept_bytes = 0;              ///< for each live microbatch
  std::int64_t transient_bytes = 0;
  std::int64_t logical_bytes = 0;  ///< all outputs and gradients, had each a memory of its own
};

/// Plans for microbatches of at most @p batch samples.
template <GraphSize Size>
class MemoryPlanner {
 public:
  MemoryPlanner(Graph<Size> const& graph, std::vector<OpNeeds> const& needs, int batch,
                std::int64_t element_bytes)
      : graph_{graph}, needs_{needs}, batch_{batch}, element_bytes_{element_bytes} {}

  [[nodiscard]] MemoryPlan plan() {
    find_roots();
    find_kept();
    place_values();
    place_gradients();
    return plan_;
  }

 private:
  [[nodiscard]] OpNeeds const& needs(int node) const {
    return needs_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] std::int64_t bytes(int node) const {
    return detail::aligned(graph_.node[node].out.elements() * batch_ * element_bytes_);
  }
  // Of a root, which may be wider than what it is named after.
  [[nodiscard]] std::int64_t stored_bytes(int node) const {
    Node const& n = graph_.node[node];
    std::int64_t const wider = n.width > 0 ? n.width : 1;
    std::int64_t const own = n.width > 0 ? n.out[0] : 1;
    return detail::aligned(n.out.elements() / own * wider * batch_ * element_bytes_);
  }

  void find_roots() {
    for (int n = 0; n < Size.nodes; ++n) {
      plan_.root.push_back(root_of(graph_, n));
      plan_.slice.push_back(first_channel_of(graph_, n) * element_bytes_);
    }
    for (int n = 1; n < Size.nodes; ++n) {
      int const over = overwritten_by(n);
      if (over >= 0) {
        std::replace(plan_.root.begin(), plan_.root.end(), n, root(over));
      }
    }
  }
  [[nodiscard]] int root(int node) const { return plan_.root[static_cast<std::size_t>(node)]; }

  // The input whose memory takes the output of node n as well, or -1: nobody needs the input later.
  [[nodiscard]] int overwritten_by(int n) const {
    Node const& node = graph_.node[n];
    for (int e = node.first_edge; needs(n).in_place && e < node.first_edge + node.edges; ++e) {
      int const source = graph_.source[e];
      if (root(n) == n && root(source) != 0 && bytes(source) == bytes(n) &&
          stored_bytes(root(source)) == bytes(n) && is_over(root(source), n)) {
        return source;
      }
    }
    return -1;
  }

  // Whether memory that is of root @p r is read by nobody but node @p n from then on.
  [[nodiscard]] bool is_over(int r, int n) const {
    for (int m = 1; m < Size.nodes; ++m) {
      Node const& node = graph_.node[m];
      if (root(m) == r && (m > n || (node.needs_gradient && needs(m).output))) {
        return false;
      }
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        bool const backward = node.needs_gradient && needs(m).input;
        if (root(graph_.source[e]) == r && root(m) != r && m != n && (m > n || backward)) {
          return false;
        }
      }
    }
    return true;
  }

  void find_kept() {
    plan_.kept.assign(Size.nodes, false);
    auto const keep = [&](int node) { plan_.kept[static_cast<std::size_t>(root(node))] = true; };
    for (int n = 0; n < Size.nodes; ++n) {
      Node const& node = graph_.node[n];
      OpNeeds const& need = needs_[static_cast<std::size_t>(n)];
      if (node.needs_gradient && need.output) {
        keep(n);
      }
      for (int e = 0; node.needs_gradient && need.input && e < node.edges; ++e) {
        keep(graph_.source[node.first_edge + e]);
      }
    }
    keep(Size.nodes - 1);  // the loss reads it again in backward
  }

  void place_values() {
    std::vector<int> last(Size.nodes, 0);  // of a root: when it is read or written last in forward
    for (int n = 0; n < Size.nodes; ++n) {
      auto const used = [&](int node) { last[static_cast<std::size_t>(root(node))] = n; };
      used(n);
      for (int e = 0; e < graph_.node[n].edges; ++e) {
        used(graph_.source[graph_.node[n].first_edge + e]);
      }
    }
    plan_.value.assign(Size.nodes, MemoryPlan::none);
    plan_.saved.assign(Size.nodes, MemoryPlan::none);
    detail::FirstFit transient;
    for (int n = 1; n < Size.nodes; ++n) {
      auto const r = static_cast<std::size_t>(root(n));
      if (r != 0 && plan_.value[r] == MemoryPlan::none) {  // whoever writes there first
        std::int64_t const size = stored_bytes(root(n));
        plan_.value[r] = plan_.kept[r] ? keep_bytes(size) : transient.place(size, n, last[r]);
      }
      if (needs(n).saved_bytes > 0) {
        plan_.saved[static_cast<std::size_t>(n)] =
            keep_bytes(detail::aligned(needs(n).saved_bytes));
      }
      Node const& node = graph_.node[n];
      bool const written = !node.view || node.layer == LayerKind::relu;
      plan_.logical_bytes += written ? bytes(n) * (node.needs_gradient ? 2 : 1) : 0;
    }
    plan_.transient_bytes = transient.peak();
  }

  std::int64_t keep_bytes(std::int64_t size) {
    std::int64_t const offset = plan_.kept_bytes;
    plan_.kept_bytes += size;
    return offset;
  }

  // In backward, node n has time `nodes - n`; a buffer lives until its last reader's time.
  void place_gradients() {
    plan_.node_gradient.assign(Size.nodes, MemoryPlan::none);
    plan_.edge_gradient.assign(static_cast<std::size_t>(Size.edges), MemoryPlan::none);
    wide_gradient_.assign(Size.nodes, MemoryPlan::none);
    dies_.resize(Size.nodes);  // of a node's gradient, through nodes that pass it on
    own_.assign(Size.nodes, true);
    for (int n = 0; n < Size.nodes; ++n) {
      Node const& node = graph_.node[n];
      int& death = dies_[static_cast<std::size_t>(n)];
      death = time(node.merged ? node.home : n);
      for (int e = 0; passes_on(n) && e < node.edges; ++e) {
        int const source = graph_.source[node.first_edge + e];
        death = std::max(death, dies_[static_cast<std::size_t>(source)]);
      }
    }
    for (int n = Size.nodes - 1; n > 0; --n) {
      if (graph_.node[n].needs_gradient) {
        place_node_gradient(n);
        place_edge_gradients(n);
      }
    }
    plan_.transient_bytes = std::max(plan_.transient_bytes, gradients_.peak());
  }

  // The gradient of its only reader's input, or a sum of several in memory of its own.
  void place_node_gradient(int n) {
    auto const i = static_cast<std::size_t>(n);
    int users = 0;
    std::int64_t only = MemoryPlan::none;
    for (int m = n + 1; m < Size.nodes; ++m) {
      for (int e = graph_.node[m].first_edge, end = e + graph_.node[m].edges; e < end; ++e) {
        if (graph_.source[e] == n && plan_.edge_gradient[static_cast<std::size_t>(e)] >= 0) {
          ++users;
          only = plan_.edge_gradient[static_cast<std::size_t>(e)];
          own_[i] = graph_.node[m].kind != NodeKind::add &&
                    (own_[static_cast<std::size_t>(m)] || !passes_on(m));
        }
      }
    }
    if (n == Size.nodes - 1) {
      only = plan_.loss_gradient = gradients_.place(bytes(n), time(n), dies_[i]);
      users = 1;
    }
    if (users != 1) {
      own_[i] = true;
      only = gradients_.place(bytes(n), time(n), dies_[i]);
    }
    plan_.node_gradient[i] = only;
  }

  void place_edge_gradients(int n) {
    Node const& node = graph_.node[n];
    std::int64_t channel = 0;
    for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
      int const source = graph_.source[e];
      std::int64_t const offset = node.placed ? channel * element_bytes_ : 0;
      channel += graph_.node[source].out[0];
      if (graph_.node[source].needs_gradient) {
        plan_.edge_gradient[static_cast<std::size_t>(e)] =
            passes_on(n) ? plan_.node_gradient[static_cast<std::size_t>(n)] + offset
                         : place_edge_gradient(n, source);
      }
    }
  }

  // What node @p n writes as the gradient of @p source, perhaps a slice of a wide one.
  std::int64_t place_edge_gradient(int n, int source) {
    Node const& node = graph_.node[source];
    int const leader = node.merged ? node.home : source;
    if (graph_.node[leader].width == 0) {
      return gradients_.place(bytes(source), time(n), dies_[static_cast<std::size_t>(source)]);
    }
    std::int64_t& wide = wide_gradient_[static_cast<std::size_t>(leader)];
    if (wide == MemoryPlan::none) {
      wide =
          gradients_.place(stored_bytes(leader), time(n), dies_[static_cast<std::size_t>(leader)]);
    }
    return wide + node.first_channel * element_bytes_;
  }

  [[nodiscard]] static int time(int node) { return Size.nodes - node; }
  // The gradient of its output and those of its inputs are in the same memory.
  [[nodiscard]] bool passes_on(int n) const {
    Node const& node = graph_.node[n];
    return node.kind == NodeKind::add || node.view || node.placed ||
           (needs(n).in_place && own_[static_cast<std::size_t>(n)]);
  }

  Graph<Size> const& graph_;
  std::vector<OpNeeds> const& needs_;
  std::int64_t batch_;
  std::int64_t element_bytes_;
  MemoryPlan plan_;
  detail::FirstFit gradients_;
  std::vector<std::int64_t> wide_gradient_;  // of the first of merged nodes
  std::vector<int> dies_;
  std::vector<bool> own_;  // of a node: nobody else has its gradient's memory
};

}  // namespace tandem
