// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A slow simulation of action tables with mailboxes and named tensors, to judge verify() by.
/// It shares no code with it, and its rules are written down a second time.

#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace reference {

using tandem::Action;
using tandem::ActionKind;
using tandem::ActionRows;
using tandem::StageMapView;

/// One compute action, or one of the messages of an action.
struct Step {
  Action action;
  int edge = -1;
};

class Simulator {
 public:
  Simulator(ActionRows const& rows, StageMapView const& map, int microbatches, int depth)
      : map_{map}, microbatches_{microbatches}, depth_{depth} {
    step_.resize(rows.size());
    at_.resize(rows.size());
    for (std::size_t d = 0; d < rows.size(); ++d) {
      for (Action const& action : rows[d]) {
        accept(static_cast<int>(d), action);
      }
    }
  }

  /// Whether all rows come to their end and every microbatch went through every stage.
  bool runs() {
    while (valid_ && sweep()) {
    }
    for (std::size_t d = 0; d < at_.size(); ++d) {
      valid_ = valid_ && at_[d] == step_[d].size();
    }
    for (auto const& [link, box] : box_) {
      valid_ = valid_ && box.empty();
    }
    int const share = microbatches_ / map_.copies;
    for (int s = 0; s < map_.stages; ++s) {
      int const begin = s / (map_.stages / map_.copies) * share;
      for (int m = begin; m < begin + share; ++m) {
        bool const whole = has(ActionKind::backward, s, m);
        bool const parts =
            has(ActionKind::input_gradient, s, m) && has(ActionKind::weight_gradient, s, m);
        valid_ = valid_ && has(ActionKind::forward, s, m) && whole != parts;
      }
    }
    return valid_;
  }

 private:
  using Box = std::pair<int, bool>;  // link, forward

  static bool is(Action const& a, ActionKind one, ActionKind other) {
    return a.kind == one || a.kind == other;
  }
  static bool is_forward_message(Action const& a) {
    return is(a, ActionKind::send_forward, ActionKind::receive_forward);
  }
  static bool is_push(Action const& a) {
    return is(a, ActionKind::send_forward, ActionKind::send_backward);
  }
  static bool is_message(Action const& a) {
    return is_push(a) || is(a, ActionKind::receive_forward, ActionKind::receive_backward);
  }
  bool has(ActionKind kind, int stage, int microbatch) const {
    return done_.count({kind, stage, microbatch}) > 0;
  }

  // What can be said of an action before anything runs.
  void accept(int device, Action const& a) {
    bool const known = a.stage >= 0 && a.stage < map_.stages && a.version == 0 && a.index >= 0 &&
                       a.index < microbatches_ &&
                       static_cast<int>(a.kind) <= static_cast<int>(ActionKind::receive_backward);
    if (!known || map_.device[a.stage] != device ||
        a.index * map_.copies / microbatches_ != a.stage * map_.copies / map_.stages) {
      valid_ = false;
      return;
    }
    keep_order(a.kind, a);
    if (a.kind == ActionKind::backward) {  // it counts as both of its parts
      keep_order(ActionKind::input_gradient, a);
      keep_order(ActionKind::weight_gradient, a);
    }
    auto& row = step_[static_cast<std::size_t>(device)];
    if (!is_message(a)) {
      row.push_back({a});
      return;
    }
    bool const at_lower_end = is_forward_message(a) == is_push(a);
    std::size_t const before = row.size();
    for (int e = 0; e < map_.edges; ++e) {
      int const end = at_lower_end ? map_.edge[e].from : map_.edge[e].to;
      if (end == a.stage && map_.device[map_.edge[e].from] != map_.device[map_.edge[e].to]) {
        row.push_back({a, e});
      }
    }
    valid_ = valid_ && row.size() > before;
  }

  void keep_order(ActionKind kind, Action const& a) {
    for (Action const& earlier : accepted_) {
      valid_ =
          valid_ && (earlier.kind != kind || earlier.stage != a.stage || earlier.index < a.index);
    }
    accepted_.push_back(a);
    accepted_.back().kind = kind;
  }

  // Every device tries one step.
  bool sweep() {
    bool moved = false;
    for (std::size_t d = 0; d < step_.size() && valid_; ++d) {
      if (at_[d] < step_[d].size() && attempt(d, step_[d][at_[d]])) {
        ++at_[d];
        moved = true;
      }
    }
    return moved;
  }

  bool attempt(std::size_t d, Step const& step) {
    Action const a = step.action;
    if (!is_message(a)) {
      compute(static_cast<int>(d), a);
      return true;
    }
    bool const forward = is_forward_message(a);
    auto& box = box_[{map_.edge[step.edge].link, forward}];
    if (is_push(a)) {
      valid_ = valid_ && made_.count({step.edge, forward, a.index}) > 0;
      if (depth_ == 0) {
        return meet(step, forward);
      }
      if (static_cast<int>(box.size()) >= depth_) {
        return false;
      }
      box.emplace_back(step.edge, a.index);
      return true;
    }
    if (box.empty()) {
      return false;
    }
    valid_ = valid_ && box.front() == std::pair{step.edge, a.index};
    box.pop_front();
    here_.insert({static_cast<int>(d), step.edge, forward, a.index});
    return true;
  }

  // Rendezvous: both sides leave together, or none does.
  bool meet(Step const& push, bool forward) {
    auto const edge = map_.edge[push.edge];
    auto const peer = static_cast<std::size_t>(map_.device[forward ? edge.to : edge.from]);
    if (at_[peer] == step_[peer].size()) {
      return false;
    }
    Step const& pop = step_[peer][at_[peer]];
    if (!is_message(pop.action) || is_push(pop.action) ||
        is_forward_message(pop.action) != forward || map_.edge[pop.edge].link != edge.link) {
      return false;
    }
    valid_ = valid_ && pop.edge == push.edge && pop.action.index == push.action.index;
    here_.insert({static_cast<int>(peer), push.edge, forward, push.action.index});
    ++at_[peer];
    return true;
  }

  void compute(int device, Action const& a) {
    valid_ = valid_ && done_.insert({a.kind, a.stage, a.index}).second;
    bool const forward = a.kind == ActionKind::forward;
    if (a.kind == ActionKind::weight_gradient) {
      valid_ = valid_ && has(ActionKind::input_gradient, a.stage, a.index);
      return;
    }
    valid_ = valid_ && (forward || has(ActionKind::forward, a.stage, a.index));
    for (int e = 0; e < map_.edges; ++e) {
      auto const edge = map_.edge[e];
      if ((forward ? edge.to : edge.from) == a.stage) {
        valid_ = valid_ && here_.count({device, e, forward, a.index}) > 0;
      }
      if ((forward ? edge.from : edge.to) == a.stage) {
        made_.insert({e, forward, a.index});
        if (map_.device[edge.from] == map_.device[edge.to]) {
          here_.insert({device, e, forward, a.index});
        }
      }
    }
  }

  StageMapView map_;
  int microbatches_;
  int depth_;
  bool valid_ = true;
  std::vector<std::vector<Step>> step_;
  std::vector<std::size_t> at_;
  std::vector<Action> accepted_;
  std::set<std::tuple<ActionKind, int, int>> done_;
  std::set<std::tuple<int, bool, int>> made_;       // edge, forward, microbatch
  std::set<std::tuple<int, int, bool, int>> here_;  // device, edge, forward, microbatch
  std::map<Box, std::deque<std::pair<int, int>>> box_;
};

inline bool runs(ActionRows const& rows, StageMapView const& map, int microbatches, int depth) {
  return Simulator{rows, map, microbatches, depth}.runs();
}

}  // namespace reference
