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
  int place = 0;   ///< of its action in the row
  int meets = -1;  ///< the channel of a message, or the collective
  int edge = -1;   ///< of a message
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

/// The effects of all rows, each in the order of its row.
template <class Table>
class StepEffects {
 public:
  /// @param table          passes and messages pass verify(); it outlives this, as do the others
  /// @param reduces_early  of row_order() of the table
  constexpr StepEffects(Table const& table, StageMapView const& map, StepRules const& rules,
                        bool reduces_early)
      : map_{map},
        rules_{rules},
        edges_{map},
        most_buckets_{most_buckets()},
        members_{collectives()},
        first_{std::int64_t{map.devices} + 1},
        effect_{count(table, reduces_early)} {
    Effect* next = effect_.data();
    for (int d = 0; d < map.devices; ++d) {
      list(row_of(table, d), d, reduces_early, [&](Effect const& effect) {
        if (effect.kind == EffectKind::begin) {
          ++members_[effect.meets];
        }
        *next++ = effect;
      });
    }
  }

  [[nodiscard]] constexpr int size(int device) const {
    return static_cast<int>(first_[device + 1] - first_[device]);
  }
  /// The i-th effect of a device.
  [[nodiscard]] constexpr Effect const& at(int device, int i) const {
    return effect_[first_[device] + i];
  }

  [[nodiscard]] constexpr std::int64_t collectives() const {
    return 2 + map_.parts() + std::int64_t{map_.stages} * most_buckets_;
  }
  /// How many devices begin one.
  [[nodiscard]] constexpr int members(int collective) const { return members_[collective]; }

 private:
  // Collectives: losses, norms, the average of each part, then the buckets of each part; of two
  // models, which sum none over copies, those of each stage.
  static constexpr int losses = 0;
  static constexpr int norms = 1;
  [[nodiscard]] constexpr int average(int stage) const { return 2 + stage % map_.parts(); }
  [[nodiscard]] constexpr int gradients(int stage, int bucket) const {
    int const group = rules_.keeps_two() ? stage : stage % map_.parts();
    return 2 + map_.parts() + group * most_buckets_ + bucket;
  }

  constexpr int most_buckets() const {
    Scratch<int> buckets{map_.stages};
    int most = 1;
    for (int d = 0; d < map_.devices; ++d) {
      rules_.each_bucket(
          map_, d, [&](int stage, int) { most = ++buckets[stage] > most ? buckets[stage] : most; });
    }
    return most;
  }

  template <class Table2>
  constexpr std::int64_t count(Table2 const& table, bool reduces_early) {
    std::int64_t all = 0;
    for (int d = 0; d < map_.devices; ++d) {
      list(row_of(table, d), d, reduces_early, [&all](Effect const&) { ++all; });
      first_[d + 1] = all;
    }
    return all;
  }

  template <class Sink>
  constexpr void list(ActionSpan row, int d, bool reduces_early, Sink const& sink) const {
    RowEnds const ends{row, map_};
    bool const early = begins_gradients_early(map_, rules_, reduces_early, d);
    int i = 0;
    auto const add = [&](EffectKind kind, int meets = -1, int edge = -1) {
      sink(Effect{kind, i, meets, edge});
    };
    auto const begin_buckets = [&](int stage) {
      int of_stage = 0;
      rules_.each_bucket(map_, d, [&](int s, int) {
        if (s == stage) {
          add(EffectKind::begin, gradients(stage, of_stage++));
        }
      });
    };
    auto const bucket = [&](int index) {  // its collective
      int collective = -1;
      Scratch<int> of_stage{map_.stages};
      rules_.each_bucket(map_, d, [&](int s, int b) {
        collective = b == index ? gradients(s, of_stage[s]) : collective;
        ++of_stage[s];
      });
      return collective;
    };
    // Two copies on one device are averaged by it alone.
    auto const averages = [&](int s) { return map_.device[map_.twin(s)] != d; };
    bool const overlapped = rules_.averaging.overlapped;
    each_own(d, [&](int s) {
      if (overlapped && averages(s)) {
        add(EffectKind::begin, average(s));
      }
      return true;
    });
    for (; i < row.size; ++i) {
      Action const& action = row[i];
      switch (action.kind) {
        case ActionKind::send_forward:
        case ActionKind::receive_forward:
        case ActionKind::send_backward:
        case ActionKind::receive_backward:
          edges_.each_message(action, [&](int edge, bool forward) {
            add(is_send(action.kind) ? EffectKind::send : EffectKind::receive,
                map_.channel(edge, forward), edge);
          });
          break;
        case ActionKind::reduce_gradient:
          if (!early && action.index == 0) {
            each_own(d, [&](int s) {
              begin_buckets(s);
              return rules_.keeps_two();  // else of two copies here the first has their sum
            });
          }
          add(EffectKind::await, bucket(action.index));
          break;
        case ActionKind::begin_loss:
          add(EffectKind::begin, losses);
          break;
        case ActionKind::await_loss:
          add(EffectKind::await, losses);
          break;
        case ActionKind::reduce_norm:
          add(EffectKind::begin, norms);
          add(EffectKind::await, norms);
          break;
        case ActionKind::exchange:
          if (averages(action.stage)) {
            add(EffectKind::await, average(action.stage));
          }
          break;
        default:
          add(EffectKind::work);
          if (action.kind == ActionKind::update) {
            if (rules_.keeps_two() && !overlapped && averages(action.stage)) {
              add(EffectKind::begin, average(action.stage));
            }
          } else if (early && rules_.sums_gradients(map_) && ends.last(action.stage) == i) {
            begin_buckets(action.stage);
          }
      }
    }
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

  StageMapView map_;
  StepRules const& rules_;
  StageEdges edges_;
  int most_buckets_;
  Scratch<int> members_;
  Scratch<std::int64_t> first_;  // effect of each device
  Scratch<Effect> effect_;
};

}  // namespace tandem::detail
