// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify() of tables with updates: those of asynchronous pipelines, whose passes name the version
/// of the weights that they read, and steps of two models, whose weights are averaged.

#include <cstdint>

#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem {

namespace detail {

/// The rules for U, X and versions. Asynchronous where `asynchrony` is on; else of one step.
template <class Table>
class Updates {
 public:
  static constexpr Flaw foreign = Flaw::foreign_update;

  constexpr Updates(TableState<Table>& state, Messages<Table>& messages,
                    Asynchrony const& asynchrony, Averaging const& averaging)
      : at_{state},
        messages_{messages},
        asynchrony_{asynchrony},
        averaging_{averaging},
        period_{asynchrony.on() ? asynchrony.microbatches : state.share},
        done_{2 * state.map.stages},
        updated_{done_.data()},
        exchanged_{updated_ + state.map.stages} {}

  constexpr bool admits(Action const& action) const {
    if (action.kind == ActionKind::update || action.kind == ActionKind::exchange) {
      bool const exchanges = averaging_.keeps_two() && at_.map.copies == 2;
      return action.version == 0 && action.index == 0 &&
             (action.kind == ActionKind::update || exchanges);
    }
    bool const reads = action.kind == ActionKind::forward || action.kind == ActionKind::backward;
    return action.kind <= ActionKind::receive_backward &&
           (action.version == 0 || (asynchrony_.on() && reads));
  }

  constexpr Step run(int d, Action const& action) {
    return action.kind == ActionKind::update ? update(d, action) : exchange(d, action);
  }

  /// A pass that is in its place: are these its weights, and are they there?
  constexpr Step read_weights(int d, Action const& action) {
    bool const forward = action.kind == ActionKind::forward;
    if (!asynchrony_.on() || (!forward && action.kind != ActionKind::backward)) {
      return Step::done;
    }
    int const s = action.stage;
    std::int64_t const had = updated_[s];
    if (!forward && had < action.index / period_) {
      return lacks_action(d, action, {ActionKind::update, 0, action.stage, 0});
    }
    std::int64_t const version = forward ? asynchrony_.forward_version(s, action.index)
                                         : asynchrony_.backward_version(s, action.index);
    std::int64_t const named = version > 0 ? version : 0;
    if (action.version != named) {
      at_.verdict.count = static_cast<int>(named);
      return at_.fail(Flaw::wrong_version, d, action);
    }
    std::int64_t const in_slot = had - (had - version) % asynchrony_.versions(s);
    if (version <= had && in_slot <= named) {
      return Step::done;
    }
    at_.verdict.count = static_cast<int>(had);
    return at_.fail(version > had ? Flaw::version_to_come : Flaw::version_gone, d, action);
  }

  /// What the action of a device that waits is waiting for.
  constexpr Action awaited(int d) const {
    Action const action = at_.action_of(d);
    return action.kind == ActionKind::exchange
               ? Action{ActionKind::update, 0,
                        static_cast<std::int16_t>(at_.map.twin(action.stage)), 0}
               : messages_.awaited(d);
  }

  /// All rows have ended, and all passes stand there: do all updates and exchanges?
  constexpr Step finish() {
    for (int s = 0; s < at_.map.stages; ++s) {
      auto const stage = static_cast<std::int16_t>(s);
      Action const average{ActionKind::exchange, 0, stage, 0};
      if (updated_[s] * period_ < at_.retired[s] - at_.first_microbatch(s)) {
        return at_.fail(Flaw::missing, at_.map.device[s], {ActionKind::update, 0, stage, 0});
      }
      if (admits(average) && exchanged_[s] == 0) {
        return at_.fail(Flaw::missing, at_.map.device[s], average);
      }
    }
    for (int d = 0; averaging_.keeps_two() && d < at_.map.devices; ++d) {
      if (compare_exchanges(d) == Step::failed) {
        return Step::failed;
      }
    }
    return Step::done;
  }

 private:
  constexpr Step update(int d, Action const& action) {
    int const s = action.stage;
    int const last = at_.first_microbatch(s) + (updated_[s] + 1) * period_ - 1;
    if (at_.retired[s] <= last) {
      Action needed{ActionKind::backward, 0, action.stage, last};
      Action split{ActionKind::weight_gradient, 0, action.stage, last};
      bool const there = at_.to_come(d, needed);
      if (!there && updated_[s] > 0) {
        return at_.fail(Flaw::doubled, d, action);
      }
      return lacks_action(d, action, !there && at_.to_come(d, split) ? split : needed);
    }
    Action const average{ActionKind::exchange, 0, action.stage, 0};
    if (admits(average) && averaging_.overlapped && exchanged_[s] == 0) {
      return lacks_action(d, action, average);
    }
    ++updated_[s];
    if (at_.map.copies == 2) {
      messages_.wake(at_.map.device[at_.map.twin(s)], awaits_update(s));
    }
    return Step::done;
  }

  constexpr Step exchange(int d, Action const& action) {
    int const s = action.stage;
    if (exchanged_[s] > 0) {
      return at_.fail(Flaw::doubled, d, action);
    }
    for (int const needed : {s, at_.map.twin(s)}) {
      if (averaging_.overlapped || updated_[needed] > 0) {
        continue;
      }
      if (at_.map.device[needed] != d) {
        return messages_.wait(d, awaits_update(needed));
      }
      return lacks_action(d, action, {ActionKind::update, 0, static_cast<std::int16_t>(needed), 0});
    }
    ++exchanged_[s];
    return Step::done;
  }

  // In place of a channel.
  constexpr int awaits_update(int stage) const { return 2 * at_.map.links + stage; }

  constexpr Step lacks_action(int d, Action const& action, Action needed) {
    return at_.to_come(d, needed) ? at_.fail(Flaw::before_its_input, d, action, needed)
                                  : at_.fail(Flaw::missing, d, needed, action);
  }

  // The index-th exchange of a device with another one; `end` if there is none.
  constexpr Action exchange_with(int d, int other, int index) const {
    for (Action const& action : row_of(at_.table, d)) {
      if (action.kind == ActionKind::exchange &&
          at_.map.device[at_.map.twin(action.stage)] == other && index-- == 0) {
        return action;
      }
    }
    return {.kind = ActionKind::end};
  }

  // Two devices await each other's stages one by one, so in one order.
  constexpr Step compare_exchanges(int d) {
    for (int other = d + 1; other < at_.map.devices; ++other) {
      for (int i = 0;; ++i) {
        Action const here = exchange_with(d, other, i);
        Action const there = exchange_with(other, d, i);
        if (here.kind == ActionKind::end) {
          break;
        }
        if (at_.map.twin(here.stage) != there.stage) {
          at_.verdict.other_rank = other;
          return at_.fail(Flaw::exchanged_otherwise, d, here, there);
        }
      }
    }
    return Step::done;
  }

  TableState<Table>& at_;
  Messages<Table>& messages_;
  Asynchrony asynchrony_;
  Averaging averaging_;
  int period_;  // microbatches of a step, of one copy
  Scratch<int> done_;
  int* updated_;    // updates of each stage
  int* exchanged_;  // … and exchanges
};

}  // namespace detail

/// verify() of an unrolled asynchronous table: besides, whether an update stands once behind the
/// last backward of each step, and whether each pass reads the version of the weights that
/// @p asynchrony gives it, while its stage has that version.
///
/// @param microbatches  of all steps in the table
/// @throws ContractError  microbatches is no multiple of those of a step, or depth < 0
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         Asynchrony const& asynchrony, int depth = 1) {
  expects(asynchrony.on() && asynchrony.microbatches >= 1 && microbatches >= 1 &&
              microbatches % asynchrony.microbatches == 0 && depth >= 0,
          "verify(table, map, microbatches, asynchrony, depth): give the microbatches of whole "
          "steps, and depth 0 or more");
  if (!is_sound(map) || map.devices != devices_of(table) || map.copies != 1) {
    return {.flaw = Flaw::unsound_map, .rank = devices_of(table), .count = map.devices};
  }
  return detail::Verification<Table, detail::Updates<Table>>{table, map,        microbatches, 1,
                                                             depth, asynchrony, Averaging{}}
      .run();
}

/// verify() of a step with its updates: besides, whether each stage has one update, behind its last
/// backward; and where @p averaging keeps two models one exchange, behind the update or, if
/// overlapped, before it, in one order on both devices that have the two copies.
/// @throws ContractError  microbatches < 1 or depth < 0
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         Averaging const& averaging, int depth = 1) {
  expects(microbatches >= 1 && depth >= 0,
          "verify(table, map, microbatches, averaging, depth): give 1 microbatch or more, depth 0 "
          "or more");
  if (!is_sound(map) || map.devices != devices_of(table)) {
    return {.flaw = Flaw::unsound_map, .rank = devices_of(table), .count = map.devices};
  }
  if (microbatches % map.copies != 0) {
    return {.flaw = Flaw::uneven_copies, .first = microbatches, .count = map.copies};
  }
  return detail::Verification<Table, detail::Updates<Table>>{table, map,          microbatches, 1,
                                                             depth, Asynchrony{}, averaging}
      .run();
}

}  // namespace tandem
