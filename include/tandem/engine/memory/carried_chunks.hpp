// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CarriedChunks: what a rank's ops hand from chunk to chunk of time of a microbatch, and the
/// gradients of that, which go back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Of each node once, since a stage passes all chunks of a microbatch one after another: forward
/// from the first, which begins with nothing, backward from the last.
template <class Backend>
class CarriedChunks {
  using Device = typename Backend::Device;

 public:
  /// @param needs    of each node's op
  /// @param samples  of the largest microbatch
  TANDEM_COLD CarriedChunks(Device& device, GraphView graph, std::vector<OpNeeds> const& needs,
                            std::int64_t samples)
      : graph_{graph},
        of_node_{places(graph, needs, samples)},
        memory_{device, static_cast<std::size_t>(of_node_.back().state)} {
    for (int n = 0; n < graph.nodes; ++n) {
      next_.resize(std::max(next_.size(), 2 * static_cast<std::size_t>(graph.node[n].stage) + 2));
    }
  }

  /// Points the operands of stage @p stage to what a chunk begins with, and where it leaves what
  /// its rows have got to; those of Stateful layers to what CarriedStates has said already, but
  /// that a chunk behind the first goes on with what the one before has left. What looks at earlier
  /// rows finds those of the chunks before.
  /// @param operands  operands(n, 0) of node n, operands(n, 1) for the chunk before
  template <class OperandsOf>
  void point(int stage, bool first, OperandsOf const& operands) const {
    for (int n = 0; n < graph_.nodes; ++n) {
      Place const& own = of_node_[static_cast<std::size_t>(n)];
      if (graph_.node[n].stage != stage || !own.hands_on) {
        continue;
      }
      auto& of = operands(n, 0);
      of.apart = first ? 0 : of.x[0] - operands(n, 1).x[0];
      if (!graph_.node[n].carried.any()) {
        of.carry = of.carried_on = memory_.data() + own.state;
      } else if (!first) {
        of.carry = of.carried_on;
      }
      of.carry_gradient = memory_.data() + own.gradient;
    }
  }

  /// Before a pass of stage @p stage over rows [first, last) of @p all goes back.
  /// @param weights  it makes the gradients of weights alone
  /// @throws ContractError  the chunk behind it has not gone back just before
  void go_back(int stage, bool weights, int first, int last, int all) {
    int& next = next_[2 * static_cast<std::size_t>(stage) + (weights ? 1 : 0)];
    if (last != all && last != next) {
      throw ContractError{"Chunks<K>: stage " + std::to_string(stage) + " goes back through rows " +
                          std::to_string(first) + " to " + std::to_string(last) +
                          " of a microbatch before the rows behind them, whose gradient they need"};
    }
    next = first;
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.bytes()); }

 private:
  struct Place {
    std::int64_t state = 0;
    std::int64_t gradient = 0;
    bool hands_on = false;
  };

  // Of each node, and the end.
  TANDEM_COLD static std::vector<Place> places(GraphView graph, std::vector<OpNeeds> const& needs,
                                               std::int64_t samples) {
    std::vector<Place> list;
    std::int64_t offset = 0;
    for (int n = 0; n < graph.nodes; ++n) {
      OpNeeds const& own = needs[static_cast<std::size_t>(n)];
      bool const kept = graph.node[n].carried.any();
      std::int64_t const state = kept ? 0 : detail::aligned(samples * own.carried_bytes);
      list.push_back({offset, offset + state, own.carried_bytes + own.carried_gradient_bytes > 0});
      offset += state + detail::aligned(samples * own.carried_gradient_bytes);
    }
    list.push_back({offset, offset, false});
    return list;
  }

  GraphView graph_;
  std::vector<Place> of_node_;
  typename Backend::Buffer memory_;
  std::vector<int> next_;  // of a stage: where the rows end that go back next, of both kinds
};

/// Where microbatches come whole.
struct NoCarriedChunks {
  NoCarriedChunks(auto const&... /*arguments*/) {}
  [[nodiscard]] static std::int64_t bytes() { return 0; }
};

}  // namespace tandem
