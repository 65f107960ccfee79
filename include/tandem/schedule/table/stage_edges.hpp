// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StageEdges: the edges of each stage as lists, those that cross to another device apart.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem::detail {

/// Each list is in ascending order of edges and ends with -1: the first of a stage, then next of
/// each edge. Messages of one action are sent and received in this order.
class StageEdges {
 public:
  constexpr explicit StageEdges(StageMapView const& map)
      : first_{4 * map.stages, -1},
        next_{2 * map.edges},
        crossing_in{first_.data()},
        crossing_out{crossing_in + map.stages},
        local_in{crossing_out + map.stages},
        local_out{local_in + map.stages},
        next_in{next_.data()},
        next_out{next_in + map.edges} {
    for (int e = map.edges - 1; e >= 0; --e) {
      StageEdge const edge = map.edge[e];
      int* const in = map.crosses(e) ? crossing_in : local_in;
      int* const out = map.crosses(e) ? crossing_out : local_out;
      next_in[e] = in[edge.to];
      in[edge.to] = e;
      next_out[e] = out[edge.from];
      out[edge.from] = e;
    }
  }

  /// Calls f(edge, forward) for each message of an action, in the order in which they are moved.
  template <class F>
  constexpr void each_message(Action const& action, F const& f) const {
    for (int e = first(action); e >= 0; e = next(action.kind, e)) {
      f(e, goes_forward(action.kind));
    }
  }
  [[nodiscard]] constexpr int first(Action const& message) const {
    return (leads_in(message.kind) ? crossing_in : crossing_out)[message.stage];
  }
  [[nodiscard]] constexpr int next(ActionKind message, int edge) const {
    return (leads_in(message) ? next_in : next_out)[edge];
  }

 private:
  // The edges of an action's messages lead into its stage, or else out of it.
  static constexpr bool leads_in(ActionKind kind) {
    return kind == ActionKind::receive_forward || kind == ActionKind::send_backward;
  }

  Scratch<int> first_;
  Scratch<int> next_;

 public:
  int* const crossing_in;
  int* const crossing_out;
  int* const local_in;
  int* const local_out;
  int* const next_in;
  int* const next_out;
};

}  // namespace tandem::detail
