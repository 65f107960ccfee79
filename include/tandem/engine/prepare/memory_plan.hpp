// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MemoryPlan: where each activation and each gradient of a device's nodes stands, for one size of
/// microbatch; made before the first step and never changed.
///
/// Regions. *kept*, of each stage, holds what backward reads, once for each live microbatch.
/// *recomputed* holds what backward reads and computes again first, of one run of nodes at a time.
/// *transient* holds what lives within one pass; buffers whose lives do not meet share memory
/// (first fit); branches that run at the same time share none. *gradient* holds the gradients of
/// one backward pass likewise, behind those that are sent; it is the memory of *transient*, too,
/// where no value of that is computed again.

#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// What a plan must know of a stage: nodes [first, last), and how many of its microbatches are live
/// at once, from the arrival of their input to the end of their backward pass.
struct StageLife {
  int first = 0;
  int last = 0;
  int live = 1;
  int deferred = 0;          ///< of these: whose gradients are held at once, where passes are apart
  int first_microbatch = 0;  ///< of the replica's
};

/// Where a buffer is. Gradients are all in the gradient region.
enum class MemoryRegion : std::uint8_t { none, kept, recomputed, transient };

/// Before an action of a stage writes where a message is sent from, that one must have left.
struct SendWait {
  ActionKind before{};    ///< receive_forward, forward or backward; the last is I as well
  int stage = 0;          ///< whose action
  int node = 0;           ///< a `send`: its value; a `receive`: its gradient
  bool answered = false;  ///< in training a gradient that has come back says that it left

  friend bool operator==(SendWait const&, SendWait const&) = default;
};

/// Offsets in bytes within a region, in *kept* within a live microbatch of the stage; -1 where
/// there is no such buffer.
struct MemoryPlan {
  static constexpr std::int64_t none = -1;

  std::vector<int> root;                    ///< of a node: whose memory its output is
  std::vector<std::int64_t> slice;          ///< of a node: where in that memory, in bytes
  std::vector<MemoryRegion> region;         ///< of a root
  std::vector<std::int64_t> value;          ///< of a root
  std::vector<int> stage;                   ///< of a root: whose *kept* region has it
  std::vector<std::int64_t> saved;          ///< of a node, see saved_region()
  std::vector<std::int64_t> node_gradient;  ///< of a node
  std::vector<std::int64_t> edge_gradient;  ///< of an edge
  std::vector<std::int64_t> outgoing;       ///< of a received node: its gradient, to be sent
  std::vector<std::int64_t> bytes;          ///< of a node's output
  std::int64_t loss_gradient = none;        ///< where the loss writes
  std::vector<std::int64_t> kept_bytes;     ///< of a stage, for each live microbatch
  std::int64_t recomputed_bytes = 0;
  std::int64_t transient_bytes = 0;
  bool between_gradients = false;   ///< *transient* is written again while gradients live
  std::int64_t outgoing_bytes = 0;  ///< at the beginning of the gradient region, for each chunk
  std::int64_t gradient_bytes = 0;  ///< of one backward pass, behind them
  std::int64_t logical_bytes = 0;   ///< all outputs and gradients, had each a memory of its own
  std::vector<SendWait> waits;      ///< what is sent from memory that is written again
};

/// What is planned for.
struct PlanTask {
  int batch = 1;  ///< samples of the largest microbatch
  std::int64_t element_bytes = 4;
  int microbatches = 1;  ///< of the replica, each counted once for each of its chunks
  int chunks = 1;        ///< of time: each has a place of its own for the gradients that it sends
  std::vector<StageLife> stages{};
  int const* segment = nullptr;  ///< of each node: its run of nodes that is computed again, or -1
  bool apart = false;  ///< gradients of several readers are sent one by one, not their sum
  Branches const* branches = nullptr;  ///< that run at the same time; null: none do
};

namespace detail {

/// Where what the op of @p node saves stands: where nothing goes back, no longer than its pass.
constexpr MemoryRegion saved_region(Node const& node, int segment) {
  return segment >= 0          ? MemoryRegion::recomputed
         : node.needs_gradient ? MemoryRegion::kept
                               : MemoryRegion::transient;
}

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

#include <algorithm>

#include <tandem/strategy/memory/buffer_sizes.hpp>
#include <tandem/strategy/memory/first_fit.hpp>

namespace tandem::detail {

/// Places values, and what ops save.
class ValuePlanner {
 public:
  ValuePlanner(GraphView graph, std::vector<OpNeeds> const& needs, PlanTask const& task,
               MemoryPlan& plan)
      : graph_{graph},
        needs_{needs},
        task_{task},
        sizes_{graph, task.batch, task.element_bytes},
        plan_{plan} {}

  void place() {
    find_roots();
    find_regions();
    place_values();
  }

 private:
  [[nodiscard]] OpNeeds const& needs(int node) const {
    return needs_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int root(int node) const { return plan_.root[static_cast<std::size_t>(node)]; }
  [[nodiscard]] MemoryRegion& region(int node) {
    return plan_.region[static_cast<std::size_t>(root(node))];
  }
  [[nodiscard]] bool is_input(int node) const { return graph_.node[node].kind == NodeKind::input; }
  template <class F>
  void each_source(int n, F const& f) const {
    Node const& node = graph_.node[n];
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      f(graph_.source[e]);
    }
  }

  TANDEM_COLD void find_roots() {
    for (int n = 0; n < graph_.nodes; ++n) {
      plan_.bytes.push_back(sizes_.bytes(n));
      plan_.root.push_back(root_of(graph_, n));
      plan_.slice.push_back(first_channel_of(graph_, n) * task_.element_bytes);
    }
    for (int n = 0; n < graph_.nodes; ++n) {
      int const over = overwritten_by(n);
      if (over >= 0) {
        std::replace(plan_.root.begin(), plan_.root.end(), n, root(over));
      }
    }
  }

  // The input whose memory takes the output of node n as well, or -1: nobody needs the input later.
  [[nodiscard]] int overwritten_by(int n) const {
    int over = -1;
    each_source(n, [&](int source) {
      if (over < 0 && needs(n).in_place && root(n) == n && !is_input(root(source)) &&
          sizes_.bytes(source) == sizes_.bytes(n) &&
          sizes_.stored_bytes(root(source)) == sizes_.bytes(n) && is_over(root(source), n)) {
        over = source;
      }
    });
    return over;
  }

  // Whether memory that is of root @p r is read by nobody but node @p n from then on.
  [[nodiscard]] TANDEM_COLD bool is_over(int r, int n) const {
    if (crosses(r, n)) {
      return false;
    }
    for (int m = 0; m < graph_.nodes; ++m) {
      Node const& node = graph_.node[m];
      if (root(m) == r && (m > n || (node.needs_gradient && needs(m).output))) {
        return false;
      }
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        bool const later = node.kind == NodeKind::send || (node.needs_gradient && needs(m).input);
        bool const meanwhile = task_.branches != nullptr && task_.branches->apart(m, n);
        if (root(graph_.source[e]) == r && root(m) != r && m != n &&
            (m > n || later || meanwhile)) {
          return false;
        }
      }
    }
    return true;
  }

  // Whether node @p n reads what another stage, or another run that is computed again, has made.
  [[nodiscard]] bool crosses(int source, int n) const {
    return graph_.node[source].stage != graph_.node[n].stage || segment(source) != segment(n) ||
           (segment(n) >= 0 && graph_.node[source].kind == NodeKind::receive);
  }
  [[nodiscard]] int segment(int node) const {
    return task_.segment != nullptr ? task_.segment[node] : -1;
  }

  TANDEM_COLD void find_regions() {
    plan_.region.assign(static_cast<std::size_t>(graph_.nodes), MemoryRegion::transient);
    for (int n = 0; n < graph_.nodes; ++n) {  // what backward reads
      Node const& node = graph_.node[n];
      MemoryRegion const wanted = segment(n) >= 0 ? MemoryRegion::recomputed : MemoryRegion::kept;
      if (node.needs_gradient && needs(n).output) {
        region(n) = wanted;
      }
      each_source(n, [&](int source) {
        if (node.needs_gradient && needs(n).input) {
          region(source) = wanted;
        }
      });
    }
    for (int n = 0; n < graph_.nodes; ++n) {  // what must outlive its pass
      Node const& node = graph_.node[n];
      if (node.kind == NodeKind::receive || n == graph_.result) {  // the loss reads it again
        region(n) = MemoryRegion::kept;
      }
      each_source(n, [&](int source) {
        if (node.kind == NodeKind::send || crosses(root(source), n)) {
          region(source) = MemoryRegion::kept;
        }
      });
    }
    for (int n = 0; n < graph_.nodes; ++n) {
      if (is_input(root(n))) {
        region(n) = MemoryRegion::none;
      }
    }
  }

  TANDEM_COLD void place_values() {
    std::vector<int> last(static_cast<std::size_t>(graph_.nodes),
                          0);  // of a root: when it is read or written last in forward
    for (int n = 0; n < graph_.nodes; ++n) {
      auto const used = [&](int node) { last[static_cast<std::size_t>(root(node))] = n; };
      used(n);
      each_source(n, used);
      if (graph_.node[n].fusion.sums >= 0) {
        each_source(graph_.node[n].fusion.sums, used);
      }
    }
    plan_.value.assign(static_cast<std::size_t>(graph_.nodes), MemoryPlan::none);
    plan_.saved.assign(static_cast<std::size_t>(graph_.nodes), MemoryPlan::none);
    plan_.stage.assign(static_cast<std::size_t>(graph_.nodes), 0);
    plan_.kept_bytes.assign(task_.stages.size(), 0);
    FirstFit transient{2 * graph_.nodes};  // a value and what is saved of each
    auto const place_transient = [&](std::int64_t size, int birth, int death) {
      Branches const* const at_once = task_.branches;
      return at_once == nullptr
                 ? transient.place(size, birth, death)
                 : transient.place(size, at_once->first[birth], at_once->last[death]);
    };
    for (std::size_t s = 0; s < task_.stages.size(); ++s) {
      std::int64_t recomputed = 0;
      for (int n = task_.stages[s].first; n < task_.stages[s].last; ++n) {
        recomputed = n > 0 && segment(n) != segment(n - 1) ? 0 : recomputed;
        auto const reserve = [&](MemoryRegion where, std::int64_t size) {
          std::int64_t& used = where == MemoryRegion::kept ? plan_.kept_bytes[s] : recomputed;
          std::int64_t const offset = used;
          used += size;
          plan_.recomputed_bytes = std::max(plan_.recomputed_bytes, recomputed);
          return offset;
        };
        auto const i = static_cast<std::size_t>(n);
        auto const r = static_cast<std::size_t>(root(n));
        MemoryRegion const where = plan_.region[r];
        if (where != MemoryRegion::none && plan_.value[r] == MemoryPlan::none &&
            graph_.node[n].kind != NodeKind::send) {  // whoever writes there first
          std::int64_t const size = sizes_.stored_bytes(root(n));
          plan_.stage[r] = static_cast<int>(s);
          plan_.value[r] = where == MemoryRegion::transient ? place_transient(size, n, last[r])
                                                            : reserve(where, size);
        }
        if (needs(n).saved_bytes > 0) {
          MemoryRegion const saved = saved_region(graph_.node[n], segment(n));
          std::int64_t const size = aligned(needs(n).saved_bytes);
          plan_.saved[i] =
              saved == MemoryRegion::transient ? place_transient(size, n, n) : reserve(saved, size);
        }
        Node const& node = graph_.node[n];
        bool const written = !node.is_end() && (!node.view || node.layer == LayerKind::relu);
        plan_.logical_bytes += written ? sizes_.bytes(n) * (node.needs_gradient ? 2 : 1) : 0;
      }
    }
    plan_.transient_bytes = transient.peak();
    plan_.between_gradients = writes_between_gradients();
  }

  // Whether a backward pass computes a transient value again: a run's output has its gradient then.
  // Backward need not read anything of such a run, so recomputed_bytes does not tell.
  [[nodiscard]] TANDEM_COLD bool writes_between_gradients() {
    for (StageLife const& stage : task_.stages) {
      bool again = false;
      bool goes_back = false;
      for (int n = stage.first; n < stage.last; ++n) {
        again = again || (segment(n) >= 0 && !graph_.node[n].is_end() &&
                          region(n) == MemoryRegion::transient);
        goes_back = goes_back || graph_.node[n].needs_gradient;
      }
      if (again && goes_back) {
        return true;
      }
    }
    return false;
  }

  GraphView graph_;
  std::vector<OpNeeds> const& needs_;
  PlanTask const& task_;
  BufferSizes sizes_;
  MemoryPlan& plan_;
};

}  // namespace tandem::detail

#endif
