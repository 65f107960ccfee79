// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepEffects: what each action of a step needs, sends and receives, and which collectives it
/// begins and awaits. Stated here once: verify() and verify_queues() prove steps by it, simulate()
/// and pictures time them by it.
///
/// A sum of losses, or of norms, is one of all devices. That of a bucket of gradients is one of the
/// devices that have a copy of its part: it begins where a device ends the stage, or else, for all
/// its stages, the last part first, where it awaits its first bucket. An average of weights is one
/// of the two devices that have the two copies: it begins where they update them, or, overlapped,
/// with the row, in one order on all devices. Replicas run the same rows: where one of them comes,
/// all do.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>

namespace tandem::detail {

enum class EffectKind : std::uint8_t {
  work,     ///< a pass or an update, in memory of the device alone
  send,     ///< waits for a place in its channel
  receive,  ///< waits for the message
  begin,    ///< of a collective, which goes on beside the row
  await,    ///< waits until all members have begun it, and its result is there
};

struct Effect {
  EffectKind kind = EffectKind::work;
  int place = 0;        ///< of its action in the row
  int meets = -1;       ///< the channel of a message, or the collective
  int edge = -1;        ///< of a message
  bool behind = false;  ///< a collective that begins when the action has ended
};

/// Calls f(action, i) for each action that the device's row must have besides passes and messages,
/// the i-th of them.
template <class F>
constexpr void each_of_tail(StageMapView const& map, StepRules const& rules, int device,
                            F const& f) {
  auto call = [&f, i = 0](ActionKind kind, int stage, int index = 0) mutable {
    f(Action{.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index}, i++);
  };
  int const first = first_stage(map, device);
  if (rules.sums_gradients(map)) {
    rules.each_bucket(map, device, [&call](int stage, int bucket) {
      call(ActionKind::reduce_gradient, stage, bucket);
    });
  }
  if (rules.sums_losses(map)) {
    call(ActionKind::begin_loss, first);
    call(ActionKind::await_loss, first);
  }
  if (rules.sums_norm(map)) {
    call(ActionKind::reduce_norm, first);
  }
  if (!rules.keeps_two()) {
    call(ActionKind::update, first);
    return;
  }
  for (int s = 0; s < map.stages; ++s) {
    if (map.device[s] == device) {
      call(ActionKind::update, s);
      call(ActionKind::exchange, s);
    }
  }
}

/// Calls f(needed, place, i) for each action of the same row that must stand before @p action, one
/// of the tail: for a pass, which has a place in the row, or for the i-th of each_of_tail(), whose
/// place is -1.
/// @param early  begins_gradients_early() of the device
template <class F>
constexpr void each_needed(Action const& action, ActionSpan row, RowEnds const& ends,
                           StageMapView const& map, StepRules const& rules, int device, bool early,
                           F const& f) {
  bool const two = rules.keeps_two();
  int const s = action.stage;
  auto const pass = [&](int place) {
    if (place >= 0) {
      f(row[place], place, -1);
    }
  };
  auto const tail = [&](ActionKind kind, int stage = -1) {
    each_of_tail(map, rules, device, [&](Action const& other, int i) {
      if (other.kind == kind && (stage < 0 || other.stage == stage)) {
        f(other, -1, i);
      }
    });
  };
  switch (action.kind) {
    case ActionKind::reduce_gradient:
      pass(early ? ends.last(s) : ends.last());
      break;
    case ActionKind::begin_loss:
      pass(ends.last_forward());
      break;
    case ActionKind::await_loss:
      tail(ActionKind::begin_loss);
      break;
    case ActionKind::reduce_norm:
      pass(ends.last());
      tail(ActionKind::reduce_gradient);
      break;
    case ActionKind::update:
      pass(two ? ends.last(s) : ends.last());
      tail(ActionKind::reduce_gradient, two ? s : -1);
      tail(ActionKind::await_loss);
      tail(ActionKind::reduce_norm);
      if (rules.averaging.overlapped) {
        tail(ActionKind::exchange, s);
      }
      break;
    default:
      pass(ends.last(s));
      tail(ActionKind::await_loss);
      if (!rules.averaging.overlapped) {
        tail(ActionKind::update, s);
        tail(ActionKind::update, map.twin(s));
      }
  }
}

/// The row up to an action of a stage, or a microbatch, that there is not.
constexpr ActionSpan known_part(ActionSpan row, StageMapView const& map) {
  int size = 0;
  while (size < row.size && row[size].stage >= 0 && row[size].stage < map.stages &&
         row[size].index >= 0) {
    ++size;
  }
  return {row.data, size};
}

/// The effects of all rows, each in the order of its row. What averages and sums there are is read
/// from the rows.
class StepEffects {
 public:
  /// Cost: linear in the actions.
  /// @param table          outlives this
  /// @param reduces_early  of row_order() of the table
  template <class Table>
  constexpr StepEffects(Table const& table, StageMapView const& map, bool reduces_early)
      : map_{map},
        edges_{map},
        actions_{map.devices},
        buckets_{map.stages},
        effect_{look_at(table)},
        next_{effect_.data()},
        members_{collectives()},
        first_{std::int64_t{map.devices} + 1},
        sends_{map.channels()} {
    for (int d = 0; d < map.devices; ++d) {
      list(ActionSpan{row_of(table, d).data, actions_[d]}, d, reduces_early);
      *next_++ = Effect{EffectKind::work, -1};
      first_[d + 1] = next_ - effect_.data();
    }
  }

  /// How much of a device's row is known_part().
  [[nodiscard]] constexpr int actions(int device) const { return actions_[device]; }
  /// Behind a device's effects stands one of no action, whose place is -1.
  [[nodiscard]] constexpr int size(int device) const {
    return static_cast<int>(first_[device + 1] - first_[device]) - 1;
  }
  [[nodiscard]] constexpr Effect const* of(int device) const {
    return effect_.data() + first_[device];
  }
  /// The i-th effect of a device.
  [[nodiscard]] constexpr Effect const& at(int device, int i) const { return of(device)[i]; }

  [[nodiscard]] constexpr std::int64_t collectives() const {
    return 2 + map_.parts() + std::int64_t{map_.stages} * most_buckets_;
  }
  /// How many devices begin one.
  [[nodiscard]] constexpr int members(int collective) const { return members_[collective]; }
  /// How many messages a channel has.
  [[nodiscard]] constexpr int sends(int channel) const { return sends_[channel]; }
  /// Whether one is a sum of losses or norms, of which each device has one.
  [[nodiscard]] static constexpr bool is_of_all(int collective) { return collective <= norms; }
  /// Whether one is an average of weights.
  [[nodiscard]] constexpr bool averages(int collective) const {
    return !is_of_all(collective) && collective < 2 + map_.parts();
  }

 private:
  // Collectives: losses, norms, the average of each part, then the buckets of each part; of two
  // models, which sum none over copies, those of each stage.
  static constexpr int losses = 0;
  static constexpr int norms = 1;
  [[nodiscard]] constexpr int average(int stage) const { return 2 + stage % map_.parts(); }
  [[nodiscard]] constexpr int gradients(int stage, int bucket) const {
    int const group = keeps_two_ ? stage : stage % map_.parts();
    return 2 + map_.parts() + group * most_buckets_ + bucket;
  }

  // Calls f(stage) for those of a device, the last part first, of a part until f says no.
  template <class F>
  constexpr void each_own(int d, F const& f) const {
    for (int p = map_.parts() - 1; p >= 0; --p) {
      bool goes_on = true;
      for (int s = p; s < map_.stages && goes_on; s += map_.parts()) {
        goes_on = map_.device[s] != d || f(s);
      }
    }
  }

  // Notes what the rows have in common. @returns as many effects as there are, or some more: an
  // action that is no message has two, besides the sums and averages that it begins
  template <class Table>
  constexpr std::int64_t look_at(Table const& table) {
    Scratch<bool> updated{map_.stages};
    std::int64_t most = 0;
    for (int d = 0; d < map_.devices; ++d) {
      ActionSpan const row = known_part(row_of(table, d), map_);
      actions_[d] = row.size;
      for (Action const& action : row) {
        most += 2;
        if (action.kind <= ActionKind::weight_gradient) {
          continue;
        }
        if (is_message(action.kind)) {
          most -= 2;
          for (int e = edges_.first(action); e >= 0; e = edges_.next(action.kind, e)) {
            ++most;
          }
        } else if (action.kind == ActionKind::update) {
          updated[action.stage] = true;
        } else if (action.kind == ActionKind::exchange) {
          keeps_two_ = true;
          overlapped_ = overlapped_ || !updated[action.stage];
        } else if (action.kind == ActionKind::reduce_gradient) {
          int const own = ++buckets_[action.stage];
          most_buckets_ = own > most_buckets_ ? own : most_buckets_;
        }
      }
    }
    return most + std::int64_t{2} * map_.stages * (1 + most_buckets_) + map_.devices;
  }

  constexpr void begin(int collective, int place, bool behind) {
    ++members_[collective];
    *next_++ = Effect{EffectKind::begin, place, collective, -1, behind};
  }
  constexpr void begin_buckets(int stage, int place, bool behind) {
    for (int bucket = 0; bucket < buckets_[stage]; ++bucket) {
      begin(gradients(stage, bucket), place, behind);
    }
  }
  // Two copies on one device are averaged by it alone.
  [[nodiscard]] constexpr bool is_averaged(int stage) const {
    return keeps_two_ && map_.device[map_.twin(stage)] != map_.device[stage];
  }

  constexpr void list(ActionSpan row, int d, bool reduces_early) {
    RowEnds const ends{row, map_};
    bool const early = begins_gradients_early(map_, keeps_two_, reduces_early, d);
    Scratch<int> reduced{map_.stages};
    int reductions = 0;
    each_own(d, [this](int s) {
      if (overlapped_ && is_averaged(s)) {
        begin(average(s), 0, false);
      }
      return true;
    });
    for (int i = 0; i < row.size; ++i) {
      Action const& action = row.data[i];
      if (action.kind <= ActionKind::weight_gradient) {
        *next_++ = Effect{EffectKind::work, i};
        if (early && ends.last(action.stage) == i) {
          begin_buckets(action.stage, i, true);
        }
        continue;
      }
      if (is_message(action.kind)) {
        EffectKind const kind = is_send(action.kind) ? EffectKind::send : EffectKind::receive;
        for (int e = edges_.first(action); e >= 0; e = edges_.next(action.kind, e)) {
          int const channel = map_.channel(e, goes_forward(action.kind));
          sends_[channel] += kind == EffectKind::send ? 1 : 0;
          *next_++ = Effect{kind, i, channel, e};
        }
        continue;
      }
      if (action.kind == ActionKind::reduce_gradient && !early && reductions == 0) {
        each_own(d, [this, i](int s) {
          begin_buckets(s, i, false);
          return keeps_two_;  // else of two copies here the first has their sum
        });
      }
      switch (action.kind) {
        case ActionKind::reduce_gradient:
          ++reductions;
          *next_++ = Effect{EffectKind::await, i, gradients(action.stage, reduced[action.stage]++)};
          break;
        case ActionKind::begin_loss:
          begin(losses, i, true);
          break;
        case ActionKind::await_loss:
          *next_++ = Effect{EffectKind::await, i, losses};
          break;
        case ActionKind::reduce_norm:
          begin(norms, i, false);
          *next_++ = Effect{EffectKind::await, i, norms};
          break;
        case ActionKind::exchange:
          if (is_averaged(action.stage)) {
            *next_++ = Effect{EffectKind::await, i, average(action.stage)};
          }
          break;
        default:
          *next_++ = Effect{EffectKind::work, i};
          if (!overlapped_ && is_averaged(action.stage)) {
            begin(average(action.stage), i, true);
          }
      }
    }
  }

  StageMapView map_;
  StageEdges edges_;
  bool keeps_two_ = false;
  bool overlapped_ = false;
  Scratch<int> actions_;  // of each device
  Scratch<int> buckets_;  // of each stage
  int most_buckets_ = 0;
  Scratch<Effect> effect_;
  Effect* next_;
  Scratch<int> members_;
  Scratch<std::int64_t> first_;  // effect of each device
  Scratch<int> sends_;           // of each channel
};

}  // namespace tandem::detail
