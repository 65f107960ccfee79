// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program, a loop over its row of actions. All memory is allocated by the
/// constructor, but for the boxes of messages, each made when it is first used; a step allocates
/// nothing, looks up nothing and calls nothing virtually. Libraries do as they like: each run of a
/// oneDNN primitive makes some small objects (193 a step of SmallCnn), and so may OpenMP.

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/memory/check/plays_rows.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/ahead_run.hpp>
#include <tandem/engine/rank/microbatch_passes.hpp>
#include <tandem/engine/rank/rank_body.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/updates.hpp>
#include <tandem/engine/rank/walk.hpp>
#include <tandem/engine/step/runner.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/runtime/concepts.hpp>

namespace tandem {

/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
  requires ComputeBackend<Backend> && HasVerbs<Backend> &&
      Carries<Communicator, Backend, typename Program::Program>
class Rank final
    : public RankBody<RankInterface<StepBatchOf<Program, Backend, LossType>>,
                      RankParts<Program, Backend, LossType, MetricType, Communicator>> {
  using Parts = RankParts<Program, Backend, LossType, MetricType, Communicator>;
  using Base = RankBody<RankInterface<StepBatchOf<Program, Backend, LossType>>, Parts>;

 public:
  using typename Base::Batch;
  using typename Base::P;
  using typename Base::Slot;
  using typename Base::Whole;
  /// Whether a walk over the actions may be recorded once and replayed.
  static constexpr bool recordable = !Whole::several_ranks || is_capturable<Communicator>;
  /// Whether it goes on into the next step before an update is known to be right.
  static constexpr bool goes_ahead = Whole::post_validated && Slot::FeedType::steps_in_flight == 1;

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  template <class Connect>
  TANDEM_COLD Rank(RankOptions const& options, Connect const& connect)
      : Base{options, make_rank_plan<Program>(options.rows, options.microbatches, options.replicas),
             connect},
        slot_{parts_, options},
        updates_{parts_, options, connect},
        runner_{recordable && options.record.value_or(true)},
        rank_{options.rank},
        debug_{options.debug} {
    slot_.scaled = updates_.scaled();
    if constexpr (requires {
                    check_queues(std::type_identity<Whole>{}, options.rows, 1, parts_.device);
                  }) {
      check_queues(std::type_identity<Whole>{}, options.rows, parts_.plan.batching.replicas,
                   parts_.device);
    }
    TANDEM_ASSERT(plays_rows(parts_.memory.check(this->needs()), parts_.plan));
    parts_.device.finish();
  }
  TANDEM_COLD ~Rank() override = default;

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
      if constexpr (Whole::stateful) {
        if (slot_.key.training) {
          parts_.states.undo(parts_.device);
        }
      }
      if (result.non_finite >= 0 && !voted) {  // who says no does not matter, and wants no memory
        blame(result, result.non_finite);
      }
    }
    return result;
  }

  void run_stream(StepStream<Batch>& stream) override {
    if constexpr (goes_ahead) {
      ahead_.run(stream, *this);
    }
  }

  void queue_traced(StepState const& state, Batch const& batch) override {
    begin(state, batch, true);
    parts_.tracer.begin(parts_.device);
    training_step();
    parts_.shares.arrive(parts_.device);
    parts_.tracer.end();
    slot_.feed.end(parts_.device);
  }
  std::vector<TraceEvent> traced() override { return parts_.tracer.events(parts_.device, rank_); }

  StepResult forward(StepState const& state, Batch const& batch) override {
    begin(state, batch, false);
    parts_.carry(slot_, batch);
    runner_.run(parts_.device, slot_.key, [this] {
      slot_.load(parts_);
      parts_.shares.forget();
      run(parts_.plan.forward.data());
      parts_.links.await_all(parts_.device);
      parts_.sums.finish(parts_.device, slot_.feed.state(), slot_.key.samples, slot_.feed.result());
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
    parts_.sums.finish(parts_.device, slot_.feed.state(), 1, slot_.feed.result());
    slot_.feed.end(parts_.device);
  }
  TANDEM_COLD void add_up(std::span<double> numbers) override {
    StepSums<typename Parts::Backend> sums{parts_.device, 1, static_cast<int>(numbers.size())};
    begin({}, {}, false);
    sums.put(parts_.device, numbers);
    parts_.gradients.reduce_sums(parts_.device, sums.all(), {"counts"});
    parts_.gradients.await_sums(parts_.device);
    parts_.sums.clear(parts_.device);
    parts_.sums.spread(parts_.device);
    parts_.sums.finish(parts_.device, slot_.feed.state(), 1, slot_.feed.result());
    slot_.feed.end(parts_.device);
    collect();  // waits as a step does
    sums.get(parts_.device, numbers);
  }
  TANDEM_COLD void pass_on(std::span<double> numbers, int from, std::span<int const> to) override {
    if constexpr (Whole::several_ranks && SendsAndReceives<Communicator, double>) {
      StepSums<typename Parts::Backend> bytes{parts_.device, 1, static_cast<int>(numbers.size())};
      begin({}, {}, false);
      bytes.put(parts_.device, numbers);
      parts_.gradients.pass_on(parts_.device, bytes.all(), from, to);
      parts_.gradients.await_sums(parts_.device);
      parts_.sums.clear(parts_.device);
      parts_.sums.finish(parts_.device, slot_.feed.state(), 1, slot_.feed.result());
      slot_.feed.end(parts_.device);
      collect();
      bytes.get(parts_.device, numbers);
    }
  }
  void reset_states() override {
    if constexpr (Whole::stateful) {
      parts_.states.clear(parts_.device);
    }
  }
  TANDEM_COLD void get_states(int samples, std::vector<NamedState<P>>& all) override {
    if constexpr (Whole::stateful) {
      slot_.microbatches.split(samples);
      parts_.states.get(parts_.device, all, slot_.microbatches, Whole::map.parts());
    }
  }
  TANDEM_COLD void put_states(int samples, std::vector<NamedState<P>>& all) override {
    if constexpr (Whole::stateful) {
      slot_.microbatches.split(samples);
      parts_.states.put(parts_.device, all, slot_.microbatches, Whole::map.parts());
    }
  }
  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = parts_.report();
    report.feed = slot_.feed.bytes();
    report.exchange = updates_.exchange_bytes();
    report.tables += updates_.table_bytes();
    report.versions += updates_.undo_bytes();
    return report;
  }
  void gather_pieces() override {
    if constexpr (Whole::has_pieces) {
      mirror_.gather(parts_.device, parts_.memory, parts_.pieces());
    }
  }
  void upload() override {
    if constexpr (Whole::has_pieces) {
      mirror_.upload(parts_.device, parts_.memory, parts_.pieces());
    } else {
      mirror_.upload(parts_.device, parts_.memory);
    }
    updates_.refresh(parts_);
  }
  void stand_in(WhichModel which) override { updates_.stand_in(parts_, which); }
  void restore() override { updates_.restore(parts_); }
  void set_loss_scale(LossScale const& scale) override { updates_.set_loss_scale(parts_, scale); }
  void set_missed_steps(std::span<std::int64_t const> missed) override {
    updates_.set_missed_steps(parts_, missed);
  }
  [[nodiscard]] bool untouched() const override {
    return !slot_.touched && !ahead_.on();  // in which updates are not looked at
  }
  [[nodiscard]] bool arrived() const override { return parts_.shares.arrived(); }

 private:
  using Base::mirror_;
  using Base::parts_;
  using Base::progress_;
  using Base::watch_;

  template <class R>
  friend bool act(Action, R&);
  template <class B>
  friend class AheadRun;

  void begin(StepState const& state, Batch const& batch, bool training) {
    slot_.begin(parts_, state, batch, training, watch_.waiter());
    if constexpr (Whole::stateful) {
      if (!training && batch.begins) {
        parts_.states.begin_evaluation(parts_.device);
      }
    }
  }

  void training_step() {
    prepare();
    run(parts_.plan.training.data());
    updates_.end(parts_);
  }

  void prepare() {
    if constexpr (Whole::has_pieces) {
      mirror_.release();
    }
    if constexpr (Whole::sharded_state) {
      parts_.gradients.begin_step(slot_.key.clips);
    }
    slot_.load(parts_);
    parts_.shares.forget();
    if constexpr (Whole::stateful) {
      parts_.states.begin_step(parts_.device,
                               Slot::FeedType::steps_in_flight > 1 ? updates_.stopped() : nullptr);
    }
    parts_.partials.begin_step();
    parts_.ties.begin_step();
    updates_.begin(parts_, slot_);
  }

  // Names in @p result the first microbatch whose loss is not finite, of all ranks: each knows its
  // own, of which the number of its microbatches says that there is none. If no loss is to blame,
  // names the first parameter whose gradient is not finite; each rank knows that of its own.
  TANDEM_COLD void blame(StepResult& result, int own) {
    int const all = parts_.plan.batching.all_microbatches();
    int const loss = first_of_all(
        own < parts_.plan.batching.passes() ? slot_.microbatches.global(own) : all, all);
    int const none = Whole::network.parameters;
    int const bad = result.bad_gradient >= 0 ? result.bad_gradient / Whole::layer_slices : none;
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
      if constexpr (Whole::several_ranks) {
        add_up({&ranks, 1});
      }
      (ranks > 0.0 ? end : begin) = ranks > 0.0 ? middle : middle + 1;
    }
    return begin;
  }

  void run(Action const* row) {
    if (Whole::several_ranks || !slot_.key.targets) {  // else each forward pass writes its own
      parts_.sums.clear(parts_.device);
    }
    if (parts_.tracer.on() || debug_) {
      run_watched(row);
      return;
    }
    if constexpr (Parts::has_pairs) {
      if (parts_.pairs.on()) {
        walk_pairs(row);
        return;
      }
    }
    walk(row, *progress_, *this);
  }

  // The same order of actions, of which a pair's two are computed at the same time.
  void walk_pairs(Action const* next) requires(Parts::has_pairs) {
    auto const go = [this](Action const& action) {
      progress_->store(pack(action), std::memory_order_relaxed);
      return act(action, *this);
    };
    for (bool goes_on = true; goes_on; ++next) {
      if (Action const* const backward = paired_backward(next)) {
        // Either of the two may be the one that an earlier message is awaited by.
        parts_.links.await(parts_.device, next->kind, next->stage, true, 0);
        parts_.links.await(parts_.device, backward->kind, backward->stage, true, 0);
        typename Parts::Pairs::Pair pair{parts_.device};
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

  void act_watched(Action const& action) {
    if (debug_) {
      parts_.device.debug(to_string(action), watch_.waiter(), [&] { act(action, *this); });
    } else {
      act(action, *this);
    }
  }

  TANDEM_COLD void run_watched(Action const* row) {
    walk_each(row, *progress_, [this](Action action) {
      if (parts_.tracer.on()) {
        parts_.tracer.action(parts_.device, action, [&] { act(action, *this); });
      } else {
        act_watched(action);
      }
    });
  }

  // Not a lambda: the loop over the row should contain it, and a lambda cannot portably be inline.
  struct Forward {
    Parts& parts;
    StepSlot<Parts>& slot;
    int m;
    typename Parts::Table const& table;

    template <int S>
    TANDEM_INLINE void operator()(std::integral_constant<int, S> /*stage*/) const {
      MicrobatchPasses<Parts, S>::forward(parts, slot, m, table, m);
    }
  };

  TANDEM_INLINE void run_forward(Action action) {
    int const m = action.index;
    auto const& table = parts_.memory.table(m);
    if (Microbatch const& own = slot_.microbatches[m]; own.size > 0) {
      at_stage<Program>(action.stage, Forward{parts_, slot_, m, table});
    } else {
      if (Program::has_result) {
        parts_.sums.clear(parts_.device, m);
      }
      at_stage<Program>(action.stage, [&](auto s) {
        MicrobatchPasses<Parts, s>::forward_empty(parts_, slot_, own, table);
      });
    }
  }

  template <BackwardPart Which = BackwardPart::whole>
  void run_backward(Action action) {
    at_stage<Program>(action.stage, [&](auto s) {
      MicrobatchPasses<Parts, s>::template backward<Which>(
          parts_, slot_, slot_.microbatches[action.index], parts_.memory.table(action.index));
    });
  }

  // The halves are compiled only where rows have them.
  void run_half(Action /*action*/) {}
  void run_half(Action action) requires(Whole::splits_backward) {
    action.kind == ActionKind::input_gradient ? run_backward<BackwardPart::input_gradient>(action)
                                              : run_backward<BackwardPart::weight_gradient>(action);
  }

  // Whether the losses wait for the gradients, since a rank has others than the next one and its
  // row begins with the losses before these are summed.
  [[nodiscard]] bool losses_wait() const {
    return Whole::devices == 1 && updates_.joins_checks && updates_.checks(parts_, slot_);
  }

  // The losses of the first slice: those of the others are the same. A gradient that is not finite
  // leaves no sum finite, so that all ranks know of it.
  void begin_losses() {
    bool const is_bad = updates_.joins_checks && updates_.checks(parts_, slot_) &&
                        !updates_.check_gradients(parts_);
    bool const is_first = parts_.slices.slice().number == 0;
    std::span<double> const lanes =
        is_first ? parts_.sums.spread(parts_.device) : parts_.sums.nothing(parts_.device);
    if (is_bad) {
      lanes.front() = std::numeric_limits<double>::infinity();
    }
    parts_.gradients.reduce_sums(parts_.device, lanes);
    if constexpr (goes_ahead) {
      ahead_.note(parts_.sums);
    }
  }

  // Whether the row goes on.
  TANDEM_NOINLINE bool run_other(Action action) {
    switch (action.kind) {
      case ActionKind::input_gradient:
      case ActionKind::weight_gradient:
        run_half(action);
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
        if constexpr (goes_ahead) {
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
        if (Microbatch const& own = slot_.microbatches[action.index]; own.size > 0) {
          parts_.links.run(parts_.device, parts_.memory, parts_.memory.table(action.index), action,
                           own, slot_.key.training);
        }
    }
    return true;
  }

  Slot slot_;
  Updates<Parts> updates_;
  StepRunner<Backend> runner_;
  int rank_;
  bool debug_;
  bool votes_ = false;  // what is collected next is a vote
  std::conditional_t<goes_ahead, AheadRun<Batch>, NoAheadRun> ahead_{};
};

}  // namespace tandem
