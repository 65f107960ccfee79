// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program: a loop over its row of actions, step by step, or round after round
/// of an AsynchronousRun. All memory is allocated by the constructor, but for the boxes of
/// messages, each made when it is first used; a step allocates nothing. Libraries do as they like:
/// each run of a oneDNN primitive makes some small objects (193 a step of SmallCnn), and so may
/// OpenMP.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/links/no_part.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/memory/rank_mirror.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/ahead_run.hpp>
#include <tandem/engine/rank/asynchronous_run.hpp>
#include <tandem/engine/rank/microbatch_passes.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/engine/rank/updates.hpp>
#include <tandem/engine/step/runner.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// @tparam Core       RankCore
/// @tparam BatchType  StepBatch
template <class Core, class BatchType>
class Rank final : public RankInterface<BatchType> {
  using Base = RankInterface<BatchType>;
  using Target = typename BatchType::TargetType;
  using Parts = RankParts<Core, Target>;
  using Slot = StepSlot<Parts, BatchType>;
  using Passes = MicrobatchPasses<Parts, Slot>;
  using Program = RankProgram<typename Core::Backend, Target>;
  static constexpr bool can_go_ahead = Core::way.ahead && Assumes<Update<typename Core::Backend>>;
  // What is queued in a round is done before the next one is begun.
  static constexpr bool has_rounds = Core::way.asynchronous && Slot::FeedType::steps_in_flight == 1;
  using Rounds =
      typename std::conditional_t<has_rounds, std::type_identity<AsynchronousRun<Parts, Slot>>,
                                  std::type_identity<NoPart>>::type;

 public:
  using Backend = typename Core::Backend;
  using typename Base::Batch;
  using typename Base::P;

  /// @param program  outlives this
  TANDEM_COLD Rank(Program const& program, RankPlan plan, RankOptions const& options,
                   RankEnds<typename Core::Communicator> const& ends);
  TANDEM_COLD ~Rank() override;

  [[nodiscard]] RankPlan const& plan() const { return parts_.plan; }
  /// What each node's op asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return parts_.needs; }
  /// For measurements of what it has allocated.
  [[nodiscard]] auto& device() { return parts_.device; }

  /// One training step on @p batch. The result is the same on every rank.
  StepResult train(StepState const& state, Batch const& batch) {
    queue_training(state, batch);
    return collect();
  }

  void queue_training(StepState const& state, Batch const& batch) override {
    begin(state, batch, true);
    runner_.run(parts_.device, slot_.key, [this] { training_step(); });
    slot_.feed.end(parts_.device);
  }

  StepResult collect() override {
    StepResult result = slot_.feed.collect(parts_.device, watch_.waiter());
    bool const voted = std::exchange(votes_, false);
    if (result.failed()) {
      while (slot_.feed.waiting() > 0) {
        slot_.feed.collect(parts_.device, watch_.waiter());
      }
      updates_.forgive(parts_);
      if (parts_.states && slot_.key.training) {
        parts_.states->undo(parts_.device);
      }
      if (result.non_finite >= 0 && !voted) {  // who says no does not matter, and wants no memory
        blame(result, result.non_finite);
      }
    }
    return result;
  }

  void run_stream(StepStream<Batch>& stream) override {
    if (rounds_) {
      rounds_->run(stream, *this);
    } else if constexpr (can_go_ahead) {
      ahead_.run(stream, *this);
    }
  }

  TANDEM_COLD void queue_traced(StepState const& state, Batch const& batch) override {
    begin(state, batch, true);
    parts_.tracer.begin(parts_.device);
    training_step();
    parts_.arrive();
    parts_.tracer.end();
    slot_.feed.end(parts_.device);
  }
  std::vector<TraceEvent> traced() override { return parts_.tracer.events(parts_.device, rank_); }

  StepResult forward(StepState const& state, Batch const& batch) override {
    begin(state, batch, false);
    parts_.carry(slot_.microbatches, batch.position, batch.parents);
    runner_.run(parts_.device, slot_.key, [this] {
      slot_.load(parts_);
      parts_.forget_parameters();
      run(parts_.plan.forward.data());
      parts_.await_links();
      parts_.sums.finish(parts_.device, slot_.state, slot_.key.samples, slot_.result);
    });
    slot_.feed.end(parts_.device);
    return collect();
  }
  void vote(bool yes) override {  // a step without samples, its losses the votes
    begin({}, {}, false);
    votes_ = true;
    parts_.sums.vote(parts_.device, yes);
    parts_.gradients.reduce_sums(parts_.device, parts_.sums.spread(parts_.device), {"votes"});
    parts_.gradients.await_sums(parts_.device);
    parts_.sums.finish(parts_.device, slot_.state, 1, slot_.result);
    slot_.feed.end(parts_.device);
  }
  TANDEM_COLD void add_up(std::span<double> numbers) override {
    StepSums<typename Core::Backend> sums{parts_.device, 1, static_cast<int>(numbers.size())};
    begin({}, {}, false);
    sums.put(parts_.device, numbers);
    parts_.gradients.reduce_sums(parts_.device, sums.all(), {"counts"});
    parts_.gradients.await_sums(parts_.device);
    parts_.sums.clear(parts_.device);
    parts_.sums.spread(parts_.device);
    parts_.sums.finish(parts_.device, slot_.state, 1, slot_.result);
    slot_.feed.end(parts_.device);
    collect();  // waits as a step does
    sums.get(parts_.device, numbers);
  }
  TANDEM_COLD void pass_on(std::span<double> numbers, int from, std::span<int const> to) override {
    if (parts_.pass_on == nullptr || !several_ranks()) {
      return;
    }
    StepSums<typename Core::Backend> bytes{parts_.device, 1, static_cast<int>(numbers.size())};
    begin({}, {}, false);
    bytes.put(parts_.device, numbers);
    parts_.gradients.pass_on(parts_.device, bytes.all(), from, to, parts_.pass_on);
    parts_.gradients.await_sums(parts_.device);
    parts_.sums.clear(parts_.device);
    parts_.sums.finish(parts_.device, slot_.state, 1, slot_.result);
    slot_.feed.end(parts_.device);
    collect();
    bytes.get(parts_.device, numbers);
  }
  void reset_states() override {
    if (parts_.states) {
      parts_.states->clear(parts_.device);
    }
  }
  TANDEM_COLD void get_states(int samples, std::vector<NamedState<P>>& all) override {
    if (parts_.states) {
      slot_.microbatches.split(samples);
      parts_.states->get(parts_.device, all, slot_.microbatches, parts_.tables.map.parts());
    }
  }
  TANDEM_COLD void put_states(int samples, std::vector<NamedState<P>>& all) override {
    if (parts_.states) {
      slot_.microbatches.split(samples);
      parts_.states->put(parts_.device, all, slot_.microbatches, parts_.tables.map.parts());
    }
  }
  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = parts_.report();
    report.feed = slot_.feed.bytes() + (rounds_ ? rounds_->bytes() : 0);
    report.exchange = updates_.exchange_bytes();
    report.tables += updates_.table_bytes();
    report.versions += updates_.undo_bytes();
    return report;
  }
  TANDEM_COLD std::vector<NamedParameter<P>> parameters() override {
    auto list = named_parameters(parts_.tables, mirror_, states_);
    for (std::size_t p = 0; p < list.size(); ++p) {
      if (averaged_[p]) {
        std::int64_t const at = parts_.tables.whole_layout.offset[p];
        list[p].average = {mirror_.state(states_) + at, list[p].value.size()};
      }
    }
    return list;
  }
  void download() override {
    parts_.arrive();
    mirror_.download(parts_);
  }
  void gather_pieces() override {
    parts_.arrive();
    parts_.device.finish();  // a step's parameters may still be on their way
    mirror_.gather(parts_);
  }
  void upload() override {
    mirror_.upload(parts_);
    updates_.refresh(parts_);
    if (rounds_) {
      rounds_->fill(0);
    }
  }
  TANDEM_COLD void stand_in(WhichModel which) override { updates_.stand_in(parts_, which); }
  TANDEM_COLD void restore() override { updates_.restore(parts_); }
  void set_loss_scale(LossScale const& scale) override { updates_.set_loss_scale(parts_, scale); }
  void set_missed_steps(std::span<std::int64_t const> missed) override {
    updates_.set_missed_steps(parts_, missed);
    if (rounds_) {
      rounds_->set_missed_steps(missed);
    }
  }
  void share_with(DeviceSpec const& other) override { parts_.device.share_with(other); }
  void report_progress_to(std::atomic<std::uint64_t>* board) override {
    progress_ = board != nullptr ? board : &nowhere_;
  }
  void watch_with(Watch watch) override { watch_ = watch; }
  [[nodiscard]] bool untouched() const override {
    return !slot_.touched && !ahead_.on() && !rounds_;  // in which updates are not looked at
  }
  [[nodiscard]] bool arrived() const override { return parts_.arrived(); }
  void settle() override { parts_.settle(); }

 private:
  template <class B>
  friend class AheadRun;
  template <class P, class S>
  friend class AsynchronousRun;

  // Does one action of a step's row. Forward and backward, which nearly all actions are, are told
  // apart here, others elsewhere. Whether the row goes on.
  TANDEM_INLINE bool act(Action const& action) {
    if (action.kind == ActionKind::forward) {
      run_forward(action, slot_, action.index, action.index);
    } else if (action.kind == ActionKind::backward) {
      run_backward(action, slot_, action.index, action.index);
    } else {
      return run_other(action);
    }
    return true;
  }
  // Does a pass or a message of an asynchronous pipeline: of microbatch m of a step that has a
  // slot, with table t.
  TANDEM_NOINLINE void act(Action const& action, Slot& slot, int m, int t) {
    if (action.kind == ActionKind::forward) {
      run_forward(action, slot, m, t);
    } else if (action.kind == ActionKind::backward) {
      run_backward(action, slot, m, t);
    } else {
      run_message(action, slot, m, t);
    }
  }

  TANDEM_INLINE void run_forward(Action const& action, Slot& slot, int m, int t) {
    auto const& table = parts_.memory.table(t);
    if (slot.at(m).own.size > 0) {
      Passes::forward(parts_, slot, stage_of(action), m, table, t);
    } else {
      Passes::forward_empty(parts_, slot, stage_of(action), m, table);
    }
  }
  TANDEM_INLINE void run_backward(Action const& action, Slot& slot, int m, int t,
                                  BackwardPart part = BackwardPart::whole) {
    Passes::backward(parts_, slot, stage_of(action), part, m, parts_.memory.backward_table(t));
  }
  void run_message(Action const& action, Slot& slot, int m, int t) {
    if (Microbatch const& own = slot.microbatches[m]; own.size > 0) {
      parts_.links->run(parts_.device, parts_.memory, parts_.memory.table(t), action, own,
                        slot.key.training);
    }
  }

  [[nodiscard]] LocalStage const& stage_of(Action const& action) const {
    return find_stage(parts_.tables.stages, action.stage);
  }

  // Whether the row goes on.
  TANDEM_NOINLINE bool run_other(Action action) {
    switch (action.kind) {
      case ActionKind::input_gradient:
      case ActionKind::weight_gradient:
        run_backward(action, slot_, action.index, action.index,
                     action.kind == ActionKind::input_gradient ? BackwardPart::input_gradient
                                                               : BackwardPart::weight_gradient);
        break;
      case ActionKind::reduce_gradient:
        parts_.gradients.await(parts_.device, parts_.memory, action.index);
        break;
      case ActionKind::begin_loss:
        if (!losses_wait()) {
          begin_losses();
        }
        break;
      case ActionKind::await_loss:
        if (losses_wait()) {
          begin_losses();
        }
        if (!ahead_.on()) {
          parts_.gradients.await_sums(parts_.device);
        }
        break;
      case ActionKind::reduce_norm:
        parts_.join_gradients();
        if (slot_.key.clips) {
          parts_.gradients.reduce_sums(parts_.device, updates_.sum_squares(parts_), {"norm"});
          if (!ahead_.on()) {
            parts_.gradients.await_sums(parts_.device);
          }
        }
        break;
      case ActionKind::update:
        parts_.join_gradients();
        if constexpr (can_go_ahead) {
          if (ahead_.on()) {
            ahead_.update(action, *this);
            break;
          }
        }
        updates_.run(parts_, slot_, action.stage);
        break;
      case ActionKind::exchange:
        updates_.exchange(parts_, slot_, action.stage);
        break;
      case ActionKind::end:
        return false;
      default:
        run_message(action, slot_, action.index, action.index);
    }
    return true;
  }

  void begin(StepState const& state, Batch const& batch, bool training) {
    slot_.begin(parts_, state, batch, training, watch_.waiter());
    if (parts_.states && !training && batch.begins) {
      parts_.states->begin_evaluation(parts_.device);
    }
  }

  void training_step() {
    prepare();
    run(parts_.plan.training.data());
    updates_.end(parts_);
  }

  void prepare() {
    mirror_.release();
    if (parts_.tables.sharded_state) {
      parts_.gradients.begin_step(slot_.key.clips);
    }
    slot_.load(parts_);
    parts_.forget_parameters();
    if (parts_.states) {
      parts_.states->begin_step(parts_.device, looks_back ? updates_.stopped() : nullptr);
    }
    parts_.begin_gradients();
    updates_.begin(parts_, slot_);
  }

  // Names in @p result the first microbatch whose loss is not finite, of all ranks: each knows its
  // own, of which the number of its microbatches says that there is none. If no loss is to blame,
  // names the first parameter whose gradient is not finite; each rank knows that of its own.
  TANDEM_COLD void blame(StepResult& result, int own) {
    int const all = parts_.plan.batching.all_microbatches();
    int const loss = first_of_all(
        own < parts_.plan.batching.passes() ? slot_.microbatches.global(own) : all, all);
    int const none = parts_.tables.network.parameters;
    int const bad =
        result.bad_gradient >= 0 ? result.bad_gradient / parts_.tables.layer_slices : none;
    int const gradient = loss < all ? none : first_of_all(bad, none);
    result.non_finite = loss < all ? loss : 0;
    result.bad_gradient = gradient < none ? gradient : -1;
  }

  // The least number that a rank has, at most @p all. By bisection, since ranks only add.
  int first_of_all(int first, int all) {
    int begin = 0;
    for (int end = all; begin < end;) {
      int const middle = begin + (end - begin) / 2;
      double ranks = first <= middle ? 1.0 : 0.0;
      if (several_ranks()) {
        add_up({&ranks, 1});
      }
      (ranks > 0.0 ? end : begin) = ranks > 0.0 ? middle : middle + 1;
    }
    return begin;
  }

  void run(Action const* row) {
    if (several_ranks() || !slot_.key.targets) {  // else each forward pass writes its own
      parts_.sums.clear(parts_.device);
    }
    if (parts_.tracer.on() || debug_) {
      run_watched(row);
      return;
    }
    if constexpr (HasSides<typename Core::Device>) {
      if (parts_.pairs.on()) {
        walk_pairs(row);
        return;
      }
    }
    walk(row, *progress_, *this);
  }

  static void walk(Action const* next, std::atomic<std::uint64_t>& progress, Rank& rank) {
    for (;; ++next) {
      progress.store(pack(*next), std::memory_order_relaxed);
      if (!rank.act(*next)) {
        return;
      }
    }
  }

  // Says which action it is at.
  void at(Action const& action) { progress_->store(pack(action), std::memory_order_relaxed); }

  // Waits for the program, which may take its time: the rank is not late.
  template <class F>
  bool idly(F const& f) {
    progress_->store(awaiting_a_step, std::memory_order_relaxed);
    bool const yes = f();
    progress_->store(at_no_action, std::memory_order_relaxed);
    return yes;
  }

  // The row in the same order, but a pair's two passes are computed at the same time.
  template <class Pairs = typename Core::Pairs>
  void walk_pairs(Action const* next) {
    auto const go = [this](Action const& action) {
      at(action);
      return act(action);
    };
    for (bool goes_on = true; goes_on; ++next) {
      if (Action const* const backward = paired_backward(next)) {
        // Either of the two may be the one that an earlier message is awaited by.
        parts_.await_links(next->kind, next->stage, true, 0);
        parts_.await_links(backward->kind, backward->stage, true, 0);
        typename Pairs::Pair pair{parts_.device};
        for (; next->kind != ActionKind::receive_backward && next != backward; ++next) {
          go(*next);
        }
        pair.begin_backward();
        for (; next != backward; ++next) {
          go(*next);
        }
        go(*backward);
        pair.join();
      } else {
        goes_on = go(*next);
      }
    }
  }

  // The same for debugging, and for traces.
  TANDEM_NOINLINE void act_watched(Action const& action) {
    if (debug_) {
      parts_.device.debug(to_string(action), watch_.waiter(), [&] { act_apart(action); });
    } else {
      act_apart(action);
    }
  }
  TANDEM_NOINLINE bool act_apart(Action const& action) { return act(action); }

  TANDEM_COLD void run_watched(Action const* row) {
    for (; row->kind != ActionKind::end; ++row) {
      at(*row);
      if (parts_.tracer.on()) {
        parts_.tracer.action(parts_.device, *row, [&] { act_apart(*row); });
      } else {
        act_watched(*row);
      }
    }
  }

  // Whether the losses wait for the gradients, since a rank has others than the next one and its
  // row begins with the losses before these are summed.
  [[nodiscard]] bool losses_wait() const {
    return parts_.tables.devices == 1 && updates_.joins_checks() && updates_.checks(parts_, slot_);
  }

  // The losses of the first slice: those of the others are the same.
  void begin_losses() {
    bool const is_first = parts_.slice().number == 0;
    std::span<double> const lanes =
        is_first ? parts_.sums.spread(parts_.device) : parts_.sums.nothing(parts_.device);
    if (updates_.joins_checks() && updates_.checks(parts_, slot_)) {
      updates_.check_gradients(parts_, lanes);
    }
    parts_.gradients.reduce_sums(parts_.device, lanes);
    if constexpr (can_go_ahead) {
      ahead_.note(parts_.sums);
    }
  }

  [[nodiscard]] bool several_ranks() const {
    return parts_.tables.any_replicas || parts_.tables.mesh.size() > 1;
  }

  // At whether the last step stopped: on the device, not here.
  static constexpr bool looks_back = Slot::FeedType::steps_in_flight > 1;

  Parts parts_;
  RankMirror<Core> mirror_;
  Slot slot_;
  Updates<Core> updates_;
  RankPart<Rounds> rounds_;  // of an asynchronous pipeline
  StepRunner<Backend> runner_;
  std::atomic<std::uint64_t> nowhere_{};
  std::atomic<std::uint64_t>* progress_ = &nowhere_;  // which action it is at
  Watch watch_{};
  int states_;  // of the optimizer
  std::vector<bool> averaged_;
  int rank_;
  bool debug_;
  bool votes_ = false;  // what is collected next is a vote
  std::conditional_t<can_go_ahead, AheadRun<Batch>, NoPart> ahead_{};
};

// Here, so that a unit for which both are compiled elsewhere does not look into them.
template <class Core, class BatchType>
Rank<Core, BatchType>::Rank(Program const& program, RankPlan plan, RankOptions const& options,
                            RankEnds<typename Core::Communicator> const& ends)
    : parts_{program, options, std::move(plan), ends},
      mirror_{parts_.tables, arrays_of(options)},
      slot_{parts_, options},
      updates_{parts_, options, ends, can_go_ahead && program.tables.post_validated},
      rounds_{make_part<Rounds>(program.tables.places.rule.on(), parts_, options)},
      runner_{(!several_ranks() ||
               is_capturable<typename Core::Communicator>)&&options.record.value_or(true)},
      states_{states_of(options.optimizer)},
      averaged_{averaged_parameters(parts_.tables.whole_graph, options.groups, options.average)},
      rank_{options.rank},
      debug_{options.debug} {
  slot_.scaled = updates_.scaled();
  parts_.memory.show(parts_.needs, parts_.plan);
  parts_.device.finish();
}

template <class Core, class BatchType>
Rank<Core, BatchType>::~Rank() = default;

}  // namespace tandem
