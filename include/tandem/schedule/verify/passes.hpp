// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Passes: the rules of verify() for a device's passes, which wait for nothing: what a pass needs
/// was done before in its own row, or the row is wrong.

#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/verify/table_state.hpp>

namespace tandem::detail {

template <class Table>
class Passes {
 public:
  constexpr explicit Passes(TableState<Table>& state) : at_{state} {}

  constexpr Step forward(int d, Action const& action) {
    int const s = action.stage;
    if (at_.forwarded[s] != action.index) {
      return at_.not_its_turn(d, action, at_.forwarded[s], ActionKind::forward);
    }
    if (at_.edges.crossing_in[s] >= 0 &&
        at_.moved(ActionKind::receive_forward, s) <= action.index) {
      return at_.lacks(d, action, ActionKind::receive_forward, s);
    }
    for (int e = at_.edges.local_in[s]; e >= 0; e = at_.edges.next_in[e]) {
      if (at_.forwarded[at_.map.edge[e].from] <= action.index) {
        return at_.lacks(d, action, ActionKind::forward, at_.map.edge[e].from);
      }
    }
    ++at_.forwarded[s];
    return Step::done;
  }

  /// B, or I.
  constexpr Step backward(int d, Action const& action) {
    int const s = action.stage;
    if (at_.backed[s] != action.index) {
      return at_.not_its_turn(d, action, at_.backed[s], action.kind);
    }
    if (action.kind == ActionKind::backward && at_.retired[s] != action.index) {
      return at_.not_its_turn(d, action, at_.retired[s], ActionKind::weight_gradient);
    }
    if (int const last = last_of_microbatch(action.index); at_.forwarded[s] <= last) {
      return at_.lacks(d, action, ActionKind::forward, s, last);
    }
    if (at_.edges.crossing_out[s] >= 0 &&
        at_.moved(ActionKind::receive_backward, s) <= action.index) {
      return at_.lacks(d, action, ActionKind::receive_backward, s);
    }
    for (int e = at_.edges.local_out[s]; e >= 0; e = at_.edges.next_out[e]) {
      if (at_.backed[at_.map.edge[e].to] <= action.index) {
        return at_.lacks(d, action, ActionKind::backward, at_.map.edge[e].to);
      }
    }
    ++at_.backed[s];
    if (action.kind == ActionKind::backward) {
      ++at_.retired[s];
    }
    return Step::done;
  }

  constexpr Step weight_gradient(int d, Action const& action) {
    int const s = action.stage;
    if (at_.retired[s] != action.index) {
      return at_.not_its_turn(d, action, at_.retired[s], ActionKind::weight_gradient);
    }
    if (at_.backed[s] <= action.index) {
      return at_.lacks(d, action, ActionKind::input_gradient, s);
    }
    ++at_.retired[s];
    return Step::done;
  }

  /// All rows have ended: were all microbatches passed through all stages?
  constexpr Step finish() {
    for (int s = 0; s < at_.map.stages; ++s) {
      int const end = at_.first_microbatch(s) + at_.share;
      auto const stage = static_cast<std::int16_t>(s);
      int const d = at_.map.device[s];
      if (at_.forwarded[s] < end) {
        return at_.fail(Flaw::missing, d, {ActionKind::forward, 0, stage, at_.forwarded[s]});
      }
      if (at_.backed[s] < end) {
        return at_.fail(Flaw::missing, d, {ActionKind::backward, 0, stage, at_.backed[s]});
      }
      if (at_.retired[s] < end) {
        return at_.fail(Flaw::missing, d, {ActionKind::weight_gradient, 0, stage, at_.retired[s]});
      }
    }
    return Step::done;
  }

 private:
  // Backward begins with the chunk that forward ends with.
  constexpr int last_of_microbatch(int index) const {
    return at_.chunks == 1 ? index : (index / at_.chunks + 1) * at_.chunks - 1;
  }

  TableState<Table>& at_;
};

}  // namespace tandem::detail
