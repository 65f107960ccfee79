// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program, a loop over its row of actions. All memory is allocated by the
/// constructor, but for the boxes of messages, each made when it is first used; a step allocates
/// nothing, looks up nothing and calls nothing virtually. Libraries do as they like: each run of a
/// oneDNN primitive makes some small objects (193 a step of SmallCnn), and so may OpenMP.

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/links/model_exchange.hpp>
#include <tandem/engine/memory/check/plays_rows.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/microbatch_passes.hpp>
#include <tandem/engine/rank/rank_body.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/walk.hpp>
#include <tandem/engine/step/runner.hpp>
#include <tandem/engine/step/update.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/runtime/concepts.hpp>

namespace tandem {

/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
  requires ComputeBackend<Backend> && HasVerbs<Backend> &&
      Carries<Communicator, Backend, typename Program::Program>
class Rank final
    : public RankBody<SteppedRank<typename Backend::Master, typename LossType::Target>,
                      RankParts<Program, Backend, LossType, MetricType, Communicator>> {
  using Parts = RankParts<Program, Backend, LossType, MetricType, Communicator>;
  using Base = RankBody<SteppedRank<typename Backend::Master, typename LossType::Target>, Parts>;

 public:
  using typename Base::Batch;
  using typename Base::Slot;
  using typename Base::Whole;
  static constexpr bool keeps_two = Whole::averaging.keeps_two();
  /// Whether a walk over the actions may be recorded once and replayed.
  static constexpr bool recordable = Whole::ranks == 1 || is_capturable<Communicator>;

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  template <class Connect>
  Rank(RankOptions const& options, Connect const& connect)
      : Base{options, make_rank_plan<Program>(options.rows, options.microbatches), connect},
        slot_{parts_, options},
        update_{parts_.device,
                parts_.memory,
                options.optimizer,
                parameter_runs(Program::graph, Program::layout.offset, options.groups,
                               Whole::map.parts()),
                Whole::devices == 1 || Whole::mesh.leads(options.rank, Axis::data),
                Whole::network.parameters},
        exchange_{parts_.device, options.rank, connect, states_of(options.optimizer),
                  parts_.tracer},
        runner_{recordable && options.record},
        rank_{options.rank},
        debug_{!options.record} {
    TANDEM_ASSERT(plays_rows(parts_.memory.check(this->needs()), parts_.plan));
    parts_.device.finish();
  }

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
    StepResult const result = slot_.feed.collect(parts_.device, watch_.waiter());
    if (result.non_finite >= 0) {
      while (slot_.feed.waiting() > 0) {
        slot_.feed.collect(parts_.device, watch_.waiter());
      }
      update_.forgive(parts_.device);
    }
    return result;
  }

  void queue_traced(StepState const& state, Batch const& batch) override {
    begin(state, batch, true);
    parts_.tracer.begin(parts_.device);
    training_step();
    parts_.tracer.end();
    slot_.feed.end(parts_.device);
  }
  std::vector<TraceEvent> traced() override { return parts_.tracer.events(parts_.device, rank_); }

  StepResult forward(StepState const& state, Batch const& batch) override {
    begin(state, batch, false);
    runner_.run(parts_.device, slot_.key, [this] {
      slot_.load(parts_);
      run(parts_.plan.forward.data());
      parts_.links.await_all(parts_.device);
      parts_.sums.finish(parts_.device, slot_.key.samples, slot_.feed.result());
    });
    slot_.feed.end(parts_.device);
    return collect();
  }
  void vote(bool yes) override {  // a step without samples, its losses the votes
    begin({}, {}, false);
    parts_.sums.vote(parts_.device, yes);
    parts_.gradients.reduce_sums(parts_.device, parts_.sums.all(), {"votes"});
    parts_.gradients.await_sums(parts_.device);
    parts_.sums.finish(parts_.device, 1, slot_.feed.result());
    slot_.feed.end(parts_.device);
  }
  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = parts_.report();
    report.feed = slot_.feed.bytes();
    report.exchange = exchange_.bytes();
    report.tables += update_.bytes();
    return report;
  }
  void upload() override {
    mirror_.upload(parts_.device, parts_.memory);
    refresh_all();
  }
  void stand_in(WhichModel which) override {
    exchange_.stand_in(parts_.device, parts_.memory, which);
    refresh_all();
  }
  void restore() override {
    exchange_.restore(parts_.device, parts_.memory);
    refresh_all();
  }
  [[nodiscard]] bool untouched() const override { return !touched_; }

 private:
  using Base::mirror_;
  using Base::parts_;
  using Base::progress_;
  using Base::watch_;

  template <class R>
  friend bool act(Action, R&);

  void begin(StepState const& state, Batch const& batch, bool training) {
    touched_ = training && Base::FeedType::steps_in_flight > 1;  // what is queued is not looked at
    slot_.begin(parts_, state, batch, training, watch_.waiter());
  }

  // The weights as products read them.
  void refresh_all() {
    update_.refresh(parts_.device);
    pack_stages(parts_);
  }

  void training_step() {
    slot_.load(parts_);
    if constexpr (keeps_two) {
      finished_ = false;
      if (slot_.key.exchanges && Whole::averaging.overlapped) {
        touched_ = true;
        exchange_.begin_all(parts_.device, parts_.memory);
      }
    }
    run(parts_.plan.training.data());
    if constexpr (keeps_two) {
      parts_.links.await_all(parts_.device);
    }
  }

  void run(Action const* row) {
    if (Whole::ranks > 1 || !slot_.key.targets) {  // else each forward pass writes its own
      parts_.sums.clear(parts_.device);
    }
    if (parts_.tracer.on() || debug_) {
      run_watched(row);
      return;
    }
    walk(row, *progress_, *this);
  }

  TANDEM_NOINLINE void run_watched(Action const* row) {
    walk_each(row, *progress_, [this](Action action) {
      auto const act = [&] { tandem::act(action, *this); };
      if (parts_.tracer.on()) {
        parts_.tracer.action(parts_.device, action, act);
      } else {
        parts_.device.debug(to_string(action), watch_.waiter(), act);
      }
    });
  }

  void run_forward(Action action) {
    int const m = action.index;
    auto const& table = parts_.memory.table(m);
    if (Microbatch const& own = slot_.microbatches[m]; own.size > 0) {
      at_stage<Program>(action.stage, [&](auto s) {
        MicrobatchPasses<Parts, s>::forward(parts_, slot_, m, table, m);
      });
    } else {
      if (Program::has_result) {
        parts_.sums.clear(parts_.device, slot_.microbatches.global(m));
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
        parts_.gradients.reduce_sums(parts_.device, parts_.sums.all());
        break;
      case ActionKind::await_loss:
        parts_.gradients.await_sums(parts_.device);
        break;
      case ActionKind::reduce_norm:
        if (slot_.key.clips) {
          parts_.gradients.reduce_sums(parts_.device,
                                       update_.sum_squares(parts_.device, parts_.memory), {"norm"});
          parts_.gradients.await_sums(parts_.device);
        }
        break;
      case ActionKind::update:
        if (Whole::devices == 1 && slot_.key.clips) {
          update_.sum_squares(parts_.device, parts_.memory);
        }
        if constexpr (keeps_two) {
          update_model(action.stage);
        } else {
          parts_.links.await_all(parts_.device);
          update_.finish(parts_.device, parts_.memory, slot_.feed.state(), parts_.sums, slot_.key,
                         slot_.feed.result());
          touched_ = true;
          update_.apply(parts_.device, parts_.memory, slot_.feed.state());
          pack_stages(parts_);
        }
        break;
      case ActionKind::exchange:
        if constexpr (keeps_two) {
          average(action.stage);
        }
        break;
      case ActionKind::end:
        return false;
      default:
        if (std::int64_t const size = slot_.microbatches[action.index].size; size > 0) {
          parts_.links.run(parts_.device, parts_.memory, parts_.memory.table(action.index), action,
                           size, slot_.key.training);
        }
    }
    return true;
  }

  // One stage of one of two models, on its own gradient; one whose model has no samples stays.
  void update_model(int stage) {
    finish_once();
    int const first =
        StageMapView{Whole::map}.first_microbatch(stage, parts_.plan.batching.microbatches);
    if (slot_.microbatches.total_of_copy(slot_.microbatches[first]) > 0) {
      update_.apply(parts_.device, parts_.memory, slot_.feed.state(), stage);
    }
    if (slot_.key.exchanges && !Whole::averaging.overlapped) {
      exchange_.begin(parts_.device, parts_.memory, local_stage(Program::stages, stage));
    } else {
      pack_stage(parts_, stage);
    }
  }
  void average(int stage) {
    finish_once();
    if (slot_.key.exchanges) {
      exchange_.await(parts_.device, parts_.memory, local_stage(Program::stages, stage),
                      update_.stopped());
      if (!Whole::averaging.overlapped) {
        update_.refresh(parts_.device);
        pack_stage(parts_, stage);
      }
    }
  }
  void finish_once() {
    touched_ = true;
    if (!std::exchange(finished_, true)) {
      update_.finish(parts_.device, parts_.memory, slot_.feed.state(), parts_.sums, slot_.key,
                     slot_.feed.result());
    }
  }

  Slot slot_;
  Update<Backend> update_;
  ModelExchange<Program, Backend, Communicator> exchange_;
  bool finished_ = false;  // the step's result
  bool touched_ = false;   // it may have changed parameters
  StepRunner<Backend> runner_;
  int rank_;
  bool debug_;
};

}  // namespace tandem
