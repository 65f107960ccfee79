// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GradientArena: where the gradients of a device's activations stand during a backward pass. The
/// engine's plan, and what device_memory counts where the compiler or a planner asks.
///
/// Gradients whose lives do not meet share memory (first fit); nodes that pass theirs on share it
/// with their inputs; what is sent has memory of its own, before all others. Where branches run at
/// the same time, all that their region has lives as long as the region.

#include <algorithm>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/memory/buffer_sizes.hpp>
#include <tandem/strategy/memory/first_fit.hpp>

namespace tandem {

/// What gradients are placed for.
struct GradientTask {
  std::int64_t batch = 1;  ///< samples of the largest microbatch
  std::int64_t element_bytes = 4;
  bool const* in_place = nullptr;  ///< of each node: its op's dx may be dy
  bool deferred = false;           ///< weight gradients are computed when the pass is over
  bool apart = false;  ///< gradients of several readers are sent one by one, not their sum
  int chunks = 1;      ///< of time, each with a place of its own for what is sent
  Branches const* branches = nullptr;  ///< that run at the same time; null: none do
};

/// Offsets in bytes, -1 where there is no such gradient.
struct GradientArena {
  static constexpr std::int64_t none = -1;

  detail::Scratch<std::int64_t> node;      ///< of a node's output
  detail::Scratch<std::int64_t> edge;      ///< of what an edge carries
  detail::Scratch<std::int64_t> outgoing;  ///< of a received node, to be sent
  std::int64_t loss = none;                ///< where the loss writes
  std::int64_t outgoing_bytes = 0;         ///< at the beginning, for each chunk
  std::int64_t bytes = 0;                  ///< of one backward pass, behind them

  constexpr GradientArena(GraphView graph, GradientTask const& task);
};

namespace detail {

/// Places the gradients of a graph. Linear in it, but for what lives at once.
class GradientPlanner {
 public:
  constexpr GradientPlanner(GraphView graph, GradientTask const& task, GradientArena& arena)
      : graph_{graph},
        task_{task},
        sizes_{graph, task.batch, task.element_bytes},
        arena_{arena},
        gradients_{graph.nodes + graph.edges + 1},
        own_{graph.nodes} {}

  // In backward, node n has time `nodes - n`; a buffer lives until its last reader's time.
  TANDEM_COLD constexpr void place() {
    count_readers();
    place_outgoing();
    find_deaths();
    for (int n = graph_.nodes - 1; n >= 0; --n) {
      bool const ends = n + 1 == graph_.nodes || graph_.node[n].stage != graph_.node[n + 1].stage;
      if (sends_several_ && ends) {
        place_arrivals(n);
      }
      bool const sent = graph_.node[n].kind == NodeKind::send;
      if (graph_.node[n].needs_gradient && !(sends_several_ && sent) && !is_begun(n)) {
        place_node_gradient(n);
        place_edge_gradients(n, n);
        int const before = graph_.node[n].edges == 1 ? graph_.source[graph_.node[n].first_edge] : n;
        if (is_begun(before)) {
          place_node_gradient(before);
          place_edge_gradients(before, n);
        }
      }
    }
    arena_.bytes = gradients_.peak();
  }

 private:
  // Of a node, as the pass comes to it.
  struct Own {
    std::int64_t gradient = GradientArena::none;  // from the last reader, the first to be gone back
    std::int64_t wide = GradientArena::none;      // of the first of merged nodes
    int readers = 0;
    int summands = 0;  // gradients that readers give it
    int last_reader = -1;
    int givers = 0;     // readers that have given a gradient
    int death = 0;      // of its gradient, through nodes that pass it on
    bool alone = true;  // nobody else has its gradient's memory
  };

  constexpr void count_readers() {
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      sends_several_ = sends_several_ || (node.kind == NodeKind::send && node.named);
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        Own& own = own_[graph_.source[e]];
        ++own.readers;
        own.summands += node.needs_gradient && !node.fusion.merged ? 1 : 0;
      }
    }
  }

  // Whether its only reader begins what node n gives its input: while that one's weight gradient is
  // computed, the ranks add it up.
  [[nodiscard]] constexpr bool is_begun(int n) const {
    Node const& node = graph_.node[n];
    return node.kind == NodeKind::enter && node.needs_gradient && own_[n].summands == 1;
  }

  // What is sent while the next passes compute has memory that nothing else uses.
  constexpr void place_outgoing() {
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      if (node.kind == NodeKind::receive && node.needs_gradient) {
        arena_.outgoing[n] = arena_.outgoing_bytes;
        arena_.outgoing_bytes +=
            sizes_.bytes(n) * (task_.apart && !node.named ? own_[n].readers : 1);
      }
    }
  }

  constexpr void find_deaths() {
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      int death = task_.deferred ? std::numeric_limits<int>::max()
                                 : time(node.fusion.merged ? node.fusion.home : n);
      if (passes_on(n)) {
        for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
          death = std::max(death, death_of_summand(graph_.source[e]));
        }
      }
      own_[n].death = death;
    }
  }

  // Until when what a reader gives node n is read: no longer than it takes to add several.
  [[nodiscard]] constexpr int death_of_summand(int n) const {
    return own_[n].summands > 1 && !task_.deferred ? time(n) : own_[n].death;
  }

  // The gradients of all that a stage, whose last node is @p last, has sent: they come before its
  // pass. Those of a stage that sends but its last value come in their turn.
  constexpr void place_arrivals(int last) {
    for (int n = last; n >= 0 && graph_.node[n].stage == graph_.node[last].stage; --n) {
      if (graph_.node[n].kind == NodeKind::send && graph_.node[n].needs_gradient) {
        place_edge_gradients(n, last);
      }
    }
  }

  // The gradient of its only reader's input, or a sum of several in memory of its own.
  TANDEM_COLD constexpr void place_node_gradient(int n) {
    if (graph_.node[n].kind == NodeKind::send) {
      return;
    }
    Own& own = own_[n];
    std::int64_t only = own.gradient;
    int givers = own.givers;
    if (n == graph_.result) {
      only = arena_.loss = place(sizes_.bytes(n), n, own_[n].death);
      givers = 1;
    }
    if (arena_.outgoing[n] >= 0) {
      only = arena_.outgoing[n];
    } else if (graph_.node[n].fusion.joined) {
      own.alone = true;
      only = arena_.edge[graph_.node[graph_.node[n].fusion.summed_by].first_edge];
    } else if (givers != 1) {
      own.alone = true;
      only = place(sizes_.bytes(n), n, own.death);
    }
    arena_.node[n] = only;
  }

  // @param writer  when node @p n writes them: in its turn, or in that of this node
  TANDEM_COLD constexpr void place_edge_gradients(int n, int writer) {
    Node const& node = graph_.node[n];
    bool const passes = passes_on(n);
    bool const alone = !node.passes_gradient() && (own_[n].alone || !passes);
    std::int64_t channel = 0;
    for (int e = node.first_edge; e < node.first_edge + node.edges && !node.fusion.merged; ++e) {
      int const source = graph_.source[e];
      std::int64_t const offset = node.fusion.placed ? channel * task_.element_bytes : 0;
      channel += graph_.node[source].out[0];
      if (graph_.node[source].needs_gradient) {
        arena_.edge[e] = passes ? arena_.node[n] + offset : place_edge_gradient(n, source, writer);
        Own& given = own_[source];
        ++given.givers;
        if (given.last_reader < 0 || given.last_reader == n) {
          given.last_reader = n;
          given.gradient = arena_.edge[e];
          given.alone = alone;
        }
      }
    }
  }

  // What node @p n writes as the gradient of @p source, perhaps a slice of a wide one.
  constexpr std::int64_t place_edge_gradient(int n, int source, int writer) {
    Node const& node = graph_.node[source];
    if (arena_.outgoing[source] >= 0 && own_[source].readers == 1) {
      return arena_.outgoing[source];
    }
    bool const sums = graph_.node[n].fusion.sums == source;  // the norm writes the sum of both
    if (node.fusion.joined && sums) {
      return place(sizes_.bytes(source), n, own_[source].death);
    }
    int const leader = node.fusion.merged ? node.fusion.home : source;
    if (graph_.node[leader].fusion.width == 0) {
      return place(sizes_.bytes(source), writer, death_of_summand(source));
    }
    std::int64_t& wide = own_[leader].wide;
    if (wide == GradientArena::none) {
      wide = place(sizes_.stored_bytes(leader), n, own_[leader].death);
    }
    return wide + node.fusion.first_channel * task_.element_bytes;
  }

  // Memory that is written when @p writer has its turn and read until time @p death.
  constexpr std::int64_t place(std::int64_t bytes, int writer, int death) {
    Branches const* const branches = task_.branches;
    int const birth = branches != nullptr ? branches->last[writer] : writer;
    if (branches != nullptr && death <= graph_.nodes) {
      death = time(branches->first[graph_.nodes - death]);
    }
    return arena_.outgoing_bytes + gradients_.place(bytes, time(birth), death);
  }

  [[nodiscard]] constexpr int time(int node) const { return graph_.nodes - node; }
  // The gradient of its output and those of its inputs are in the same memory.
  [[nodiscard]] constexpr bool passes_on(int n) const {
    Node const& node = graph_.node[n];
    return node.passes_gradient() || node.view || node.fusion.placed ||
           (task_.in_place[n] && own_[n].alone);
  }

  GraphView graph_;
  GradientTask const& task_;
  BufferSizes sizes_;
  GradientArena& arena_;
  FirstFit gradients_;
  bool sends_several_ = false;  // a named value leaves a stage, perhaps beside what it ends with
  Scratch<Own> own_;
};

}  // namespace detail

constexpr GradientArena::GradientArena(GraphView graph, GradientTask const& task)
    : node{graph.nodes, none}, edge{graph.edges, none}, outgoing{graph.nodes, none} {
  detail::GradientPlanner{graph, task, *this}.place();
}

}  // namespace tandem
