// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A slow judge of whole steps, for verify() of them: what a row must have as a list of names, what
/// must stand before what as pairs, and a run of the ranks of all replicas with blocking
/// collectives. It shares no code with verify(), and its rules are written down a second time.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>

#include "reference_simulator.hpp"

namespace reference {

using tandem::StepRules;

class StepJudge {
 public:
  StepJudge(ActionRows const& rows, StageMapView const& map, int microbatches,
            StepRules const& rules, int depth)
      : rows_{rows}, map_{map}, microbatches_{microbatches}, rules_{rules}, depth_{depth} {
    two_ = rules.averaging.keeps_two();
    parts_ = map.stages / map.copies;
    sums_ = rules.replicas > 1 || (map.copies > 1 && !two_);
    for (int d = 0; d < map.devices; ++d) {
      std::vector<int> bucket;
      for (int part = parts_ - 1; part >= 0; --part) {
        for (int copy = map.copies - 1; copy >= 0; --copy) {
          if (map.device[copy * parts_ + part] == d) {
            bucket.push_back(copy * parts_ + part);
          }
        }
      }
      if (rules.buckets != nullptr) {
        bucket.assign(rules.buckets[d].begin(), rules.buckets[d].end());
      }
      bucket_.push_back(bucket);
    }
  }

  bool runs() {
    ActionRows passes(rows_.size());
    for (std::size_t d = 0; d < rows_.size(); ++d) {
      for (Action const& a : rows_[d]) {
        if (static_cast<int>(a.kind) <= static_cast<int>(ActionKind::receive_backward)) {
          passes[d].push_back(a);
        }
      }
    }
    if (!reference::runs(passes, map_, microbatches_, depth_)) {
      return false;
    }
    early_ = true;
    for (std::size_t d = 0; d < rows_.size(); ++d) {
      std::vector<std::pair<int, int>> ends;  // position, part
      for (int s : stages_of(d)) {
        ends.emplace_back(last_pass(d, s), s % parts_);
      }
      std::sort(ends.begin(), ends.end());
      early_ = early_ && std::is_sorted(ends.rbegin(), ends.rend(),
                                        [](auto a, auto b) { return a.second < b.second; });
    }
    if (map_.copies == 2 && !two_ && early_) {  // would that block for ever?
      early_ = StepJudge{passes, map_, microbatches_, rules_, 1}.comes_to_its_end();
    }
    for (std::size_t d = 0; d < rows_.size(); ++d) {
      if (!has_its_tail(d) || !is_in_order(d)) {
        return false;
      }
    }
    return comes_to_its_end();
  }

 private:
  static bool is_pass(Action const& a) {
    return static_cast<int>(a.kind) <= static_cast<int>(ActionKind::weight_gradient);
  }
  std::vector<int> stages_of(std::size_t d) const {
    std::vector<int> stages;
    for (int s = 0; s < map_.stages; ++s) {
      if (map_.device[s] == static_cast<int>(d)) {
        stages.push_back(s);
      }
    }
    return stages;
  }
  int last_pass(std::size_t d, int stage) const {  // stage -1: of any
    int last = -1;
    for (std::size_t i = 0; i < rows_[d].size(); ++i) {
      Action const& a = rows_[d][i];
      last = is_pass(a) && (stage < 0 || a.stage == stage) ? static_cast<int>(i) : last;
    }
    return last;
  }
  // Both copies of a part are on it, and sum their gradients.
  bool has_both(std::size_t d) const {
    std::set<int> parts;
    bool both = false;
    for (int s : stages_of(d)) {
      both = !parts.insert(s % parts_).second || both;
    }
    return both && map_.copies == 2 && !two_;
  }
  bool is_early(std::size_t d) const { return map_.copies == 1 || (early_ && !has_both(d)); }

  bool has_its_tail(std::size_t d) const {
    auto const name = [](int stage, std::string const& word) {
      return std::to_string(stage) + word;
    };
    std::vector<int> const stages = stages_of(d);
    std::vector<std::string> due;
    for (std::size_t k = 0; sums_ && k < bucket_[d].size(); ++k) {
      due.push_back(name(bucket_[d][k], "REDUCE_GRAD" + std::to_string(k)));
    }
    if (rules_.replicas * map_.devices > 1) {
      due.push_back(name(stages[0], "BEGIN_LOSS"));
      due.push_back(name(stages[0], "AWAIT_LOSS"));
    }
    if (!two_) {
      due.push_back(name(stages[0], "U"));
      if (map_.devices > 1) {
        due.push_back(name(stages[0], "REDUCE_NORM"));
      }
    }
    for (std::size_t i = 0; two_ && i < stages.size(); ++i) {
      due.push_back(name(stages[i], "U"));
      due.push_back(name(stages[i], "X"));
    }
    std::vector<std::string> found;
    for (Action const& a : rows_[d]) {
      if (static_cast<int>(a.kind) > static_cast<int>(ActionKind::receive_backward)) {
        if (a.index != 0 && a.kind != ActionKind::reduce_gradient) {
          return false;
        }
        found.push_back(to_string(a));
      }
    }
    std::sort(due.begin(), due.end());
    std::sort(found.begin(), found.end());
    return due == found;
  }

  int position(std::size_t d, ActionKind kind, int stage = -1) const {
    for (std::size_t i = 0; i < rows_[d].size(); ++i) {
      Action const& a = rows_[d][i];
      if (a.kind == kind && (stage < 0 || a.stage == stage)) {
        return static_cast<int>(i);
      }
    }
    return -1;  // before everything, as what there is none of
  }
  int last_forward(std::size_t d) const {
    int last = -1;
    for (std::size_t i = 0; i < rows_[d].size(); ++i) {
      last = rows_[d][i].kind == ActionKind::forward ? static_cast<int>(i) : last;
    }
    return last;
  }

  bool is_in_order(std::size_t d) const {
    bool good = true;
    auto const before = [&good](int a, int b) { good = good && (b < 0 || a < b); };
    int const begin = position(d, ActionKind::begin_loss);
    int const await = position(d, ActionKind::await_loss);
    int const norm = position(d, ActionKind::reduce_norm);
    before(last_forward(d), begin);
    before(begin, await);
    before(last_pass(d, -1), norm);
    int previous = -1;
    for (int i = 0, k = 0; i < static_cast<int>(rows_[d].size()); ++i) {
      Action const& a = rows_[d][static_cast<std::size_t>(i)];
      if (a.kind != ActionKind::reduce_gradient) {
        continue;
      }
      good = good && a.index == k++;
      before(previous, i);
      previous = i;
      before(last_pass(d, is_early(d) ? static_cast<int>(a.stage) : -1), i);
      before(i, norm);
      before(i, position(d, ActionKind::update, two_ ? static_cast<int>(a.stage) : -1));
    }
    if (!two_) {
      int const update = position(d, ActionKind::update);
      before(norm, update);
      before(await, update);
      before(last_pass(d, -1), update);
      return good;
    }
    for (int s : stages_of(d)) {
      int const update = position(d, ActionKind::update, s);
      int const exchange = position(d, ActionKind::exchange, s);
      before(last_pass(d, s), update);
      before(last_pass(d, s), exchange);
      before(await, update);
      before(await, exchange);
      if (rules_.averaging.overlapped) {
        before(exchange, update);
        continue;
      }
      before(update, exchange);
      int const twin = (s + parts_) % map_.stages;
      if (map_.device[twin] == static_cast<int>(d)) {
        before(position(d, ActionKind::update, twin), exchange);
      }
    }
    return good;
  }

  /// A message or a collective: what, of which part or edge, which one of it, forward.
  struct Event {
    enum Kind { push, pop, meet } kind;
    std::tuple<int, int, int, int> what;  // of a message: replica, link, direction
  };
  enum Collective { losses, norms, gradients, averages };

  // Of which ranks a collective is.
  std::set<int> group(std::tuple<int, int, int, int> const& what) const {
    auto const [kind, part, nth, replica] = what;
    std::set<int> ranks;
    for (int r = 0; r < rules_.replicas; ++r) {
      for (int s = 0; s < map_.stages; ++s) {
        bool const of_part = kind == losses || kind == norms || s % parts_ == part;
        bool const copies = map_.copies > 1 && !two_;
        bool const of_stage = kind != gradients || copies || s == nth / 1000;
        if (of_part && of_stage && (kind != averages || r == replica)) {
          ranks.insert(r * map_.devices + map_.device[s]);
        }
      }
    }
    return ranks;
  }

  void sum_stage(std::size_t d, int stage, std::vector<Event>& events) const {
    int nth = 0;
    bool const copies = map_.copies > 1 && !two_;
    for (int bucket : bucket_[d]) {
      if (bucket == stage && sums_) {
        events.push_back(
            {Event::meet, {gradients, stage % parts_, nth++ + (copies ? 0 : 1000 * stage), 0}});
      }
    }
  }

  std::vector<Event> events_of(std::size_t d, int replica) const {
    std::vector<Event> events;
    for (std::size_t i = 0; i < rows_[d].size(); ++i) {
      Action const& a = rows_[d][i];
      bool const send = a.kind == ActionKind::send_forward || a.kind == ActionKind::send_backward;
      bool const receive =
          a.kind == ActionKind::receive_forward || a.kind == ActionKind::receive_backward;
      bool const forward =
          a.kind == ActionKind::send_forward || a.kind == ActionKind::receive_forward;
      for (int e = 0; e < map_.edges && (send || receive); ++e) {
        auto const edge = map_.edge[e];
        if (map_.device[edge.from] != map_.device[edge.to] &&
            (send == forward ? edge.from : edge.to) == a.stage) {
          events.push_back(
              {send ? Event::push : Event::pop, {replica, edge.link, forward ? 1 : 0, 0}});
        }
      }
      if (is_pass(a) && is_early(d) && last_pass(d, a.stage) == static_cast<int>(i)) {
        sum_stage(d, a.stage, events);
      }
      if (a.kind == ActionKind::reduce_gradient && a.index == 0 && !is_early(d)) {
        std::set<int> parts;
        for (int part = parts_ - 1; part >= 0; --part) {
          for (int s : stages_of(d)) {
            bool const again = !two_ && s % parts_ == part && !parts.insert(part).second;
            if (s % parts_ == part && !again) {
              sum_stage(d, s, events);
            }
          }
        }
      }
      if (a.kind == ActionKind::begin_loss) {
        events.push_back({Event::meet, {losses, 0, 0, 0}});
      }
      if (a.kind == ActionKind::reduce_norm) {
        events.push_back({Event::meet, {norms, 0, 0, 0}});
      }
      if (a.kind == ActionKind::update && two_ && !rules_.averaging.overlapped) {
        events.push_back({Event::meet, {averages, a.stage % parts_, 0, replica}});
      }
    }
    return events;
  }

  bool comes_to_its_end() const {
    std::vector<std::vector<Event>> events;
    for (int r = 0; r < rules_.replicas; ++r) {
      for (std::size_t d = 0; d < rows_.size(); ++d) {
        events.push_back(events_of(d, r));
      }
    }
    std::vector<std::size_t> at(events.size());
    std::vector<bool> offered(events.size());
    std::map<std::tuple<int, int, int, int>, std::pair<int, int>> box;  // sent, taken
    std::map<std::tuple<int, int, int, int>, std::set<int>> there;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < events.size(); ++r) {
        if (at[r] == events[r].size()) {
          continue;
        }
        Event const& event = events[r][at[r]];
        auto& [sent, taken] = box[event.what];
        bool done = false;
        if (event.kind == Event::push && !offered[r]) {
          if (depth_ == 0 || sent - taken < depth_) {
            ++sent;
            moved = true;
            offered[r] = depth_ == 0;
            done = depth_ > 0;
          }
        } else if (event.kind == Event::push) {
          done = sent == taken;
          offered[r] = !done;
        } else if (event.kind == Event::pop) {
          done = sent > taken;
          taken += done ? 1 : 0;
        } else {
          moved = there[event.what].insert(static_cast<int>(r)).second || moved;
          done = there[event.what] == group(event.what);
        }
        at[r] += done ? 1 : 0;
        moved = moved || done;
      }
    }
    for (std::size_t r = 0; r < events.size(); ++r) {
      if (at[r] < events[r].size()) {
        return false;
      }
    }
    return true;
  }
  ActionRows const& rows_;
  StageMapView map_;
  int microbatches_;
  StepRules const& rules_;
  int depth_;
  bool two_ = false;
  bool sums_ = false;
  bool early_ = true;
  int parts_ = 1;
  std::vector<std::vector<int>> bucket_;  // of each device: the stages of its buckets
};

inline bool runs(ActionRows const& rows, StageMapView const& map, int microbatches,
                 StepRules const& rules, int depth) {
  return StepJudge{rows, map, microbatches, rules, depth}.runs();
}

}  // namespace reference
