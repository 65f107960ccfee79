// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AsynchronousRun: a rank of an asynchronous pipeline at work on a stream of steps, round after
/// round, without a barrier between steps. each_action: what it does in a round.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/engine/step/version_update.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

/// f(action) for each action of round @p g, in order: F(g), then B of the microbatch that is
/// delay(stage) earlier, with the messages around both, then the update if that B ends its step.
/// Rounds from @p all on, the number of microbatches, have no F: they drain the stage.
///
/// An index is a microbatch's number in the stream, and a version that of its weights, as far as
/// their types reach. asynchronous_table() has the same rows as a table.
template <class F>
constexpr void each_action(Asynchrony const& rule, int stage, std::int64_t g, std::int64_t all,
                           F const& f) {
  auto const act = [&](ActionKind kind, std::int64_t index, std::int64_t version = 0) {
    f(Action{.kind = kind,
             .version = static_cast<std::uint8_t>(version > 0 ? version : 0),
             .stage = static_cast<std::int16_t>(stage),
             .index = static_cast<std::int32_t>(index)},
      index);
  };
  bool const first = stage == 0;
  bool const last = stage + 1 == rule.devices;
  if (g < all) {
    if (!first) {
      act(ActionKind::receive_forward, g);
    }
    act(ActionKind::forward, g, rule.forward_version(stage, g));
    if (!last) {
      act(ActionKind::send_forward, g);
    }
  }
  std::int64_t const late = g - rule.delay(stage);
  if (late < 0 || late >= all) {
    return;
  }
  if (!last) {
    act(ActionKind::receive_backward, late);
  }
  act(ActionKind::backward, late, rule.backward_version(stage, late));
  if (!first) {
    act(ActionKind::send_backward, late);
  }
  if ((late + 1) % rule.microbatches == 0) {
    f(Action{.kind = ActionKind::update, .stage = static_cast<std::int16_t>(stage)}, late);
  }
}

/// Between streams every place has the weights; during one version v of them, after v updates, is
/// in the place of v. A rank of a synchronous strategy has none of this. The Rank that has it does
/// each action.
/// @tparam Parts  RankParts
/// @tparam Slot   StepSlot
template <class Parts, class Slot>
class AsynchronousRun {
 public:
  using Stream = StepStream<typename Slot::Batch>;

  TANDEM_COLD AsynchronousRun(Parts& parts, RankOptions const& options)
      : parts_{parts},
        places_{parts.tables.places},
        rule_{places_.rule},
        update_{options.optimizer,
                parameter_runs(parts.tables.graph, parts.tables.layout.offset, options.groups,
                               parts.tables.map.parts(), options.clip_value)} {
    for (int step = 0; step < rule_.late_steps(places_.stage); ++step) {
      slots_.emplace_back(parts, options);
    }
  }

  /// Trains on the steps of @p stream until there are no more.
  template <class Rank>
  void run(Stream& stream, Rank& rank) {
    updates_ = 0;
    std::int64_t steps = 0;
    for (; rank.idly([&] { return stream.await(steps); }); ++steps) {
      Slot& slot = slot_of(steps, rank);
      slot.begin(parts_, stream.state(steps), stream.batch(steps), true, rank.watch_.waiter());
      slot.load(parts_);
      for (int i = 0; i < rule_.microbatches; ++i) {
        round(stream, steps * rule_.microbatches + i, endless, rank);
      }
    }
    std::int64_t const all = steps * rule_.microbatches;
    for (std::int64_t g = all; g < all + rule_.delay(places_.stage); ++g) {
      round(stream, g, all, rank);
    }
    fill(places_.of_version(updates_));
  }

  /// Every place gets the weights in place @p from: what an evaluation reads, and the next stream.
  void fill(int from) {
    for (int place = 0; place < places_.count(); ++place) {
      if (place != from) {
        parts_.memory.copy_version(parts_.device, from, place);
      }
      pack_place(place);
    }
  }

  void set_missed_steps(std::span<std::int64_t const> missed) { update_.set_missed_steps(missed); }

  /// What steps have of the device's memory, but for the first one's slot.
  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (Slot const& slot : slots_) {
      sum += slot.feed.bytes();
    }
    return sum;
  }

 private:
  static constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

  // As many steps have a slot of their own as have microbatches here at once: the rank's, and more.
  template <class Rank>
  [[nodiscard]] Slot& slot_of(std::int64_t step, Rank& rank) {
    std::size_t const i = static_cast<std::size_t>(step) % (slots_.size() + 1);
    return i == 0 ? rank.slot_ : slots_[i - 1];
  }

  // Microbatches are numbered through from the beginning of a stream.
  template <class Rank>
  void round(Stream& stream, std::int64_t g, std::int64_t all, Rank& rank) {
    each_action(rule_, places_.stage, g, all, [&](Action action, std::int64_t microbatch) {
      act(stream, action, microbatch, rank);
    });
  }
  template <class Rank>
  TANDEM_NOINLINE void act(Stream& stream, Action action, std::int64_t g, Rank& rank) {
    std::int64_t const step = g / rule_.microbatches;
    int const m = static_cast<int>(g % rule_.microbatches);
    Slot& slot = slot_of(step, rank);
    rank.at(action);
    if (action.kind == ActionKind::update) {
      update(stream, step, *slot.state);
      return;
    }
    bool const is_forward = action.kind == ActionKind::forward;
    if (is_forward && places_.predicts()) {
      predict(*slot.state, g);
    }
    rank.act(action, slot, m, static_cast<int>(g % places_.tables()));
    if (is_forward && stage().has_result && m + 1 == rule_.microbatches) {
      finish(stream, slot);
    }
  }

  // The losses of all: no other rank has any. Where none of them is to blame for a sum that is not
  // finite, the first is named.
  void finish(Stream& stream, Slot& slot) {
    parts_.sums.spread(parts_.device);
    StepResult& result = *slot.result;
    parts_.sums.finish(parts_.device, slot.state, slot.key.samples, &result);
    result.non_finite = result.non_finite < rule_.microbatches ? result.non_finite : 0;
    stream.finish(result);
  }

  // As many updates on as there will be when the backward pass comes: fewer when a stream begins.
  void predict(StepState const& state, std::int64_t g) {
    std::int64_t const delay = rule_.delay(places_.stage);
    int const ahead = static_cast<int>(g < delay ? g : delay);
    update_.predict(parts_.device, parts_.memory, state, ahead, places_.of_version(updates_),
                    places_.prediction());
    pack_place(places_.prediction());
  }

  void update(Stream& stream, std::int64_t step, StepState const& state) {
    if (stream.updates(step)) {
      parts_.begin_gradients();
      parts_.join_gradients();
      int const bad = update_.first_bad(parts_.device, parts_.memory);
      if (bad < 0) {
        int const to = places_.of_version(updates_ + 1);
        update_.run(parts_.device, parts_.memory, state, places_.of_version(updates_), to);
        pack_place(to);
        ++updates_;
      } else {
        stream.stop(step, {state.step, bad});
      }
    }
    stream.release(step);
  }

  // After the weights in @p place have changed: by a table whose forward pass, or backward pass,
  // reads them.
  void pack_place(int place) {
    for (int t = 0; t < places_.tables(); ++t) {
      if (places_.forward(t) == place) {
        parts_.pack(parts_.memory.table(t), stage());
        return;
      }
      if (places_.backward(t) == place) {
        parts_.pack(parts_.memory.backward_table(t), stage());
        return;
      }
    }
  }

  [[nodiscard]] LocalStage const& stage() const { return parts_.tables.stages.front(); }

  Parts& parts_;
  WeightPlaces const& places_;
  Asynchrony const& rule_;
  std::deque<Slot> slots_;  // a step's stays where it is
  VersionUpdate<typename Parts::Backend> update_;
  std::int64_t updates_ = 0;  // of this stream
};

}  // namespace tandem
