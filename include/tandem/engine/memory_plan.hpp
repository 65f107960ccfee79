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

#include <tandem/graph/graph.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Offsets in bytes; -1 where there is no such buffer.
struct MemoryPlan {
  static constexpr std::int64_t none = -1;

  std::vector<int> root;                    ///< of a node: whose memory its output is (views)
  std::vector<bool> kept;                   ///< of a root: in the kept region
  std::vector<std::int64_t> value;          ///< of a root
  std::vector<std::int64_t> saved;          ///< of a node, in the kept region
  std::vector<std::int64_t> node_gradient;  ///< of a node, in the transient region
  std::vector<std::int64_t> edge_gradient;  ///< of an edge, likewise
  std::int64_t loss_gradient = none;        ///< where the loss writes
  std::int64_t kept_bytes = 0;              ///< for each live microbatch
  std::int64_t transient_bytes = 0;
};

namespace detail {

/// Buffers placed by first fit in the order of their births.
class FirstFit {
 public:
  // Memory from time @p birth to time @p death, both inclusive; births never decrease.
  template <class = void>  // compiled where it is called, not by every include
  std::int64_t place(std::int64_t bytes, int birth, int death) {
    std::erase_if(live_, [&](Block const& block) { return block.death < birth; });
    std::int64_t offset = 0;
    auto at = live_.begin();
    for (; at != live_.end() && at->offset - offset < bytes; ++at) {
      offset = at->offset + at->bytes;
    }
    live_.insert(at, {offset, bytes, death});
    peak_ = std::max(peak_, offset + bytes);
    return offset;
  }

  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  struct Block {
    std::int64_t offset;
    std::int64_t bytes;
    int death;
  };
  std::vector<Block> live_;  // by offset
  std::int64_t peak_ = 0;
};

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace detail

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
  [[nodiscard]] std::int64_t bytes(int node) const {
    return detail::aligned(graph_.node[node].out.elements() * batch_ * element_bytes_);
  }

  void find_roots() {
    plan_.root.resize(Size.nodes);
    for (int n = 0; n < Size.nodes; ++n) {
      Node const& node = graph_.node[n];
      auto const source = static_cast<std::size_t>(graph_.source[node.first_edge]);
      plan_.root[static_cast<std::size_t>(n)] = node.view ? plan_.root[source] : n;
    }
  }
  [[nodiscard]] int root(int node) const { return plan_.root[static_cast<std::size_t>(node)]; }

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
    std::vector<int> last(Size.nodes, 0);  // of a root: when it is read last in forward
    for (int n = 0; n < Size.nodes; ++n) {
      for (int e = 0; e < graph_.node[n].edges; ++e) {
        last[static_cast<std::size_t>(root(graph_.source[graph_.node[n].first_edge + e]))] = n;
      }
    }
    plan_.value.assign(Size.nodes, MemoryPlan::none);
    plan_.saved.assign(Size.nodes, MemoryPlan::none);
    detail::FirstFit transient;
    for (int n = 1; n < Size.nodes; ++n) {
      auto const i = static_cast<std::size_t>(n);
      if (root(n) == n) {
        plan_.value[i] = plan_.kept[i] ? keep_bytes(bytes(n))
                                       : transient.place(bytes(n), n, std::max(n, last[i]));
      }
      if (needs_[i].saved_bytes > 0) {
        plan_.saved[i] = keep_bytes(detail::aligned(needs_[i].saved_bytes));
      }
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
    std::vector<int> dies(Size.nodes);  // of a node's gradient, through joins that pass it on
    for (int n = 0; n < Size.nodes; ++n) {
      Node const& node = graph_.node[n];
      int& death = dies[static_cast<std::size_t>(n)];
      death = time(n);
      for (int e = 0; passes_on(node) && e < node.edges; ++e) {
        death = std::max(death, dies[static_cast<std::size_t>(graph_.source[node.first_edge + e])]);
      }
    }
    detail::FirstFit transient;
    for (int n = Size.nodes - 1; n > 0; --n) {
      if (graph_.node[n].needs_gradient) {
        place_gradients_of(n, dies, transient);
      }
    }
    plan_.transient_bytes = std::max(plan_.transient_bytes, transient.peak());
  }

  void place_gradients_of(int n, std::vector<int> const& dies, detail::FirstFit& transient) {
    Node const& node = graph_.node[n];
    auto const i = static_cast<std::size_t>(n);
    int users = 0;
    std::int64_t only = MemoryPlan::none;
    for (int e = 0; e < Size.edges; ++e) {
      if (graph_.source[e] == n && plan_.edge_gradient[static_cast<std::size_t>(e)] >= 0) {
        ++users;
        only = plan_.edge_gradient[static_cast<std::size_t>(e)];
      }
    }
    if (n == Size.nodes - 1) {
      only = plan_.loss_gradient = transient.place(bytes(n), time(n), dies[i]);
      users = 1;
    }
    plan_.node_gradient[i] = users == 1 ? only : transient.place(bytes(n), time(n), dies[i]);
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      int const source = graph_.source[e];
      if (graph_.node[source].needs_gradient) {
        plan_.edge_gradient[static_cast<std::size_t>(e)] =
            passes_on(node)
                ? plan_.node_gradient[i]
                : transient.place(bytes(source), time(n), dies[static_cast<std::size_t>(source)]);
      }
    }
  }

  [[nodiscard]] static int time(int node) { return Size.nodes - node; }
  // The gradient of its output is that of its inputs, in the same memory.
  [[nodiscard]] static bool passes_on(Node const& node) {
    return node.kind == NodeKind::add || node.view;
  }

  Graph<Size> const& graph_;
  std::vector<OpNeeds> const& needs_;
  std::int64_t batch_;
  std::int64_t element_bytes_;
  MemoryPlan plan_;
};

}  // namespace tandem
