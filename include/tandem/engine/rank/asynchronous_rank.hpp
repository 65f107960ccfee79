// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AsynchronousRank: one device's program in an asynchronous pipeline: round after round, without
/// a barrier between steps. All memory is allocated by the constructor; a round allocates nothing.
/// each_action: what it does in a round.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/microbatch_passes.hpp>
#include <tandem/engine/rank/rank_body.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/engine/step/version_update.hpp>
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

/// Between streams place 0 has the weights. At the beginning of one every place gets them; during
/// it version v of the weights, after v updates, is in the place of v.
/// @tparam Core       RankCore
/// @tparam BatchType  StepBatch
template <class Core, class BatchType>
class AsynchronousRank final
    : private detail::HeldParts<RankParts<Core, typename BatchType::TargetType>>,
      public RankBody<RankInterface<BatchType>, Core> {
  using Target = typename BatchType::TargetType;
  using Parts = RankParts<Core, Target>;
  using Base = RankBody<RankInterface<BatchType>, Core>;
  using Program = RankProgram<typename Core::Backend, Target>;
  using Backend = typename Core::Backend;
  using Slot = StepSlot<Parts, BatchType>;
  using Passes = MicrobatchPasses<Parts, Slot>;
  using Table = typename Parts::Table;
  using Stream = StepStream<BatchType>;
  using detail::HeldParts<Parts>::held;

 public:
  using typename Base::Batch;

  /// @param program  outlives this
  AsynchronousRank(Program const& program, RankPlan plan, RankOptions const& options,
                   RankEnds<typename Core::Communicator> const& ends)
      : detail::HeldParts<Parts>{{program, options, std::move(plan), ends}},
        Base{held, options},
        places_{program.tables.places},
        rule_{places_.rule},
        stage_{program.tables.stages.front()},
        update_{options.optimizer,
                parameter_runs(program.tables.graph, program.tables.layout.offset, options.groups,
                               program.tables.map.parts(), options.clip_value)} {
    held.memory.show(held.needs, held.plan, &places_);
    for (int step = 0; step <= rule_.late_steps(places_.stage); ++step) {
      slots_.emplace_back(held, options);
    }
  }

  void run_stream(Stream& stream) override {
    fill_places();
    std::int64_t steps = 0;
    for (; await(stream, steps); ++steps) {
      begin(slot_of(steps), stream.state(steps), stream.batch(steps), true);
      for (int i = 0; i < rule_.microbatches; ++i) {
        round(stream, steps * rule_.microbatches + i, endless);
      }
    }
    std::int64_t const all = steps * rule_.microbatches;
    for (std::int64_t g = all; g < all + rule_.delay(places_.stage); ++g) {
      round(stream, g, all);
    }
    rest();
  }

  StepResult forward(StepState const& state, Batch const& batch) override {
    Slot& slot = slot_of(0);
    begin(slot, state, batch, false);
    parts_.carry(slot.microbatches, batch.position, batch.parents);
    parts_.sums.clear(parts_.device);
    for (int m = 0; m < rule_.microbatches; ++m) {
      if (slot.microbatches[m].size > 0) {
        evaluate(slot, m);
      }
    }
    if (held.tables.mesh.size() > 1) {
      at({.kind = ActionKind::begin_loss, .stage = static_cast<std::int16_t>(stage_.id)});
      parts_.gradients.reduce_sums(parts_.device, parts_.sums.spread(parts_.device));
      at({.kind = ActionKind::await_loss, .stage = static_cast<std::int16_t>(stage_.id)});
      parts_.gradients.await_sums(parts_.device);
    }
    parts_.await_links();
    StepResult result;
    finish(slot, batch.size, result);
    return result;
  }

  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = parts_.report();
    for (Slot const& slot : slots_) {
      report.feed += slot.feed.bytes();
    }
    return report;
  }
  void set_missed_steps(std::span<std::int64_t const> missed) override {
    update_.set_missed_steps(missed);
  }
  void upload() override {
    mirror_.upload(parts_);
    pack_place(0);
  }

 private:
  using Base::mirror_;
  using Base::parts_;
  using Base::progress_;
  using Base::watch_;

  static constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

  void at(Action action) { progress_->store(pack(action), std::memory_order_relaxed); }

  // As many steps have a slot of their own as have microbatches here at once.
  [[nodiscard]] Slot& slot_of(std::int64_t step) {
    return slots_[static_cast<std::size_t>(step) % slots_.size()];
  }
  // Microbatches are numbered through from the beginning of a stream.
  [[nodiscard]] Slot& slot_at(std::int64_t g) { return slot_of(g / rule_.microbatches); }
  [[nodiscard]] int in_step(std::int64_t g) const {
    return static_cast<int>(g % rule_.microbatches);
  }
  [[nodiscard]] int table_of(std::int64_t g) const {
    return static_cast<int>(g % places_.tables());
  }

  void begin(Slot& slot, StepState const& state, Batch const& batch, bool training) {
    slot.begin(held, state, batch, training, watch_.waiter());
    slot.load(held);
  }

  // Not late, however long the program takes.
  bool await(Stream& stream, std::int64_t step) {
    progress_->store(awaiting_a_step, std::memory_order_relaxed);
    bool const more = stream.await(step);
    progress_->store(at_no_action, std::memory_order_relaxed);
    return more;
  }

  void round(Stream& stream, std::int64_t g, std::int64_t all) {
    each_action(rule_, places_.stage, g, all, [&](Action action, std::int64_t microbatch) {
      at(action);
      switch (action.kind) {
        case ActionKind::forward:
          forward(stream, microbatch);
          break;
        case ActionKind::backward:
          backward(microbatch);
          break;
        case ActionKind::update:
          update(stream, microbatch / rule_.microbatches);
          break;
        default:
          message(action, microbatch);
      }
    });
  }

  void forward(Stream& stream, std::int64_t g) {
    Slot& slot = slot_at(g);
    if (places_.predicts()) {
      predict(*slot.feed.state(), g);
    }
    int const t = table_of(g);
    int const m = in_step(g);
    Passes::forward(held, slot, stage_, m, parts_.memory.table(t), t);
    if (stage_.has_result && m + 1 == rule_.microbatches) {
      parts_.sums.spread(parts_.device);  // the losses of all: no other rank has any
      finish(slot, slot.key.samples, *slot.feed.result());
      stream.finish(*slot.feed.result());
    }
  }

  // Where no loss of this rank is to blame for a sum that is not finite, the first is named.
  void finish(Slot& slot, int samples, StepResult& result) {
    parts_.sums.finish(parts_.device, slot.feed.state(), samples, &result);
    result.non_finite = result.non_finite < rule_.microbatches ? result.non_finite : 0;
  }

  void backward(std::int64_t g) {
    Slot& slot = slot_at(g);
    Passes::backward(held, slot, stage_, BackwardPart::whole, in_step(g),
                     parts_.memory.backward_table(table_of(g)));
  }

  void message(Action action, std::int64_t g) {
    Slot& slot = slot_at(g);
    message(action, slot, in_step(g), parts_.memory.table(table_of(g)));
  }
  void message(Action action, Slot& slot, int m, Table const& table) {
    parts_.links->run(parts_.device, parts_.memory, table, action, slot.microbatches[m],
                      slot.key.training);
  }

  // As many updates on as there will be when the backward pass comes: fewer when a stream begins.
  void predict(StepState const& state, std::int64_t g) {
    std::int64_t const delay = rule_.delay(places_.stage);
    int const ahead = static_cast<int>(g < delay ? g : delay);
    update_.predict(parts_.device, parts_.memory, state, ahead, places_.of_version(updates_),
                    places_.prediction());
    pack_place(places_.prediction());
  }

  void update(Stream& stream, std::int64_t step) {
    if (stream.updates(step)) {
      parts_.begin_gradients();
      parts_.join_gradients();
      StepState const& state = *slot_of(step).feed.state();
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

  void fill_places() {
    updates_ = 0;
    for (int place = 1; place < places_.count(); ++place) {
      parts_.memory.copy_version(parts_.device, 0, place);
      pack_place(place);
    }
  }
  void rest() {
    if (int const place = places_.of_version(updates_); place != 0) {
      parts_.memory.copy_version(parts_.device, place, 0);
      pack_place(0);
    }
  }

  // After the weights in @p place have changed: by a table whose forward pass, or backward pass,
  // reads them.
  void pack_place(int place) {
    for (int t = 0; t < places_.tables(); ++t) {
      if (places_.forward(t) == place) {
        parts_.pack(parts_.memory.table(t), stage_);
        return;
      }
      if (places_.backward(t) == place) {
        parts_.pack(parts_.memory.backward_table(t), stage_);
        return;
      }
    }
  }

  // The first table whose B reads the weights of place 0: what evaluation computes with.
  [[nodiscard]] int table_at_rest() const {
    int t = 0;
    while (places_.backward(t) != 0) {
      ++t;
    }
    return t;
  }

  // All microbatches of an evaluation have one table.
  void evaluate(Slot& slot, int m) {
    int const t = table_at_rest();
    Table const& table = parts_.memory.backward_table(t);
    Action action{.stage = static_cast<std::int16_t>(stage_.id), .index = m};
    auto const begins = [&](ActionKind kind) {
      action.kind = kind;
      at(action);
    };
    if (places_.stage > 0) {
      begins(ActionKind::receive_forward);
      message(action, slot, m, table);
    }
    begins(ActionKind::forward);
    Passes::forward(held, slot, stage_, m, table, t);
    if (places_.stage + 1 < held.tables.devices) {
      begins(ActionKind::send_forward);
      message(action, slot, m, table);
    }
  }

  WeightPlaces const& places_;
  Asynchrony const& rule_;
  LocalStage const& stage_;
  std::deque<Slot> slots_;  // a step's stays where it is
  VersionUpdate<Backend> update_;
  std::int64_t updates_ = 0;  // of this stream
};

}  // namespace tandem
