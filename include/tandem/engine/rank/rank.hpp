// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program, a loop over its row of actions. All memory is allocated by the
/// constructor, but for the boxes of messages, each made when it is first used; a step allocates
/// nothing, looks up nothing and calls nothing virtually. Libraries do as they like: each run of a
/// oneDNN primitive makes some small objects (193 a step of SmallCnn), and so may OpenMP.

#include <atomic>
#include <cstdint>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/links/model_exchange.hpp>
#include <tandem/engine/memory/mirror.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/rank/rank_passes.hpp>
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
class Rank final : public SteppedRank<typename Backend::Master, typename LossType::Target>,
                   public RankPasses<Program, Backend, LossType, MetricType, Communicator> {
  using Base = RankPasses<Program, Backend, LossType, MetricType, Communicator>;

 public:
  using typename Base::Batch;
  using typename Base::P;
  using typename Base::Whole;
  static constexpr bool keeps_two = Whole::averaging.keeps_two();
  /// Whether a walk over the actions may be recorded once and replayed.
  static constexpr bool recordable = Whole::ranks == 1 || is_capturable<Communicator>;

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  template <class Connect>
  Rank(RankOptions const& options, Connect const& connect)
      : Base{options, connect},
        update_{device_,
                memory_,
                options.optimizer,
                parameter_runs(Program::graph, Program::layout.offset, options.groups,
                               Whole::map.parts()),
                Whole::devices == 1 || Whole::mesh.leads(options.rank, Axis::data),
                Whole::network.parameters},
        exchange_{device_, options.rank, connect, states_of(options.optimizer), tracer_},
        mirror_{states_of(options.optimizer)},
        runner_{recordable && options.record},
        rank_{options.rank},
        states_{states_of(options.optimizer)},
        debug_{!options.record} {
    device_.finish();
  }

  /// One training step on @p batch. The result is the same on every rank.
  StepResult train(StepState const& state, Batch const& batch) {
    queue_training(state, batch);
    return collect();
  }

  void queue_training(StepState const& state, Batch const& batch) override {
    this->begin(state, batch, true, watch_.waiter());
    runner_.run(device_, key_, [this] { training_step(); });
    feed_.end(device_);
  }

  StepResult collect() override {
    StepResult const result = feed_.collect(device_, watch_.waiter());
    if (result.non_finite >= 0) {
      while (feed_.waiting() > 0) {
        feed_.collect(device_, watch_.waiter());
      }
      update_.forgive(device_);
    }
    return result;
  }

  void queue_traced(StepState const& state, Batch const& batch) override {
    this->begin(state, batch, true, watch_.waiter());
    tracer_.begin(device_);
    training_step();
    tracer_.end();
    feed_.end(device_);
  }
  std::vector<TraceEvent> traced() override { return tracer_.events(device_, rank_); }

  StepResult forward(StepState const& state, Batch const& batch) override {
    this->begin(state, batch, false, watch_.waiter());
    runner_.run(device_, key_, [this] {
      feed_.load(device_, microbatches_);
      run(plan_.forward.data());
      links_.await_all(device_);
      sums_.finish(device_, key_.samples, feed_.result());
    });
    feed_.end(device_);
    return collect();
  }
  void vote(bool yes) override { Base::vote(yes, watch_.waiter()); }
  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = memory_.report();
    report.feed = feed_.bytes();
    report.exchange = exchange_.bytes();
    report.wire = gradients_.wire_bytes();
    report.tables = update_.bytes() + sums_.bytes();
    report.messages = links_.bytes();
    return report;
  }
  std::vector<NamedParameter<P>> parameters() override {
    return named_parameters<Program>(mirror_, states_);
  }
  void download() override { mirror_.download(device_, memory_); }
  void upload() override {
    mirror_.upload(device_, memory_);
    refresh_all();
  }
  void stand_in(WhichModel which) override {
    exchange_.stand_in(device_, memory_, which);
    refresh_all();
  }
  void restore() override {
    exchange_.restore(device_, memory_);
    refresh_all();
  }
  void share_with(DeviceSpec const& other) override { device_.share_with(other); }
  void report_progress_to(std::atomic<std::uint64_t>* board) override {
    progress_ = board != nullptr ? board : &nowhere_;
  }
  void watch_with(Watch watch) override { watch_ = watch; }
  [[nodiscard]] bool untouched() const override { return !this->touched_; }
  void settle() override {
    device_.settle(device_.communication);
    links_.settle(device_);
  }

 private:
  using Base::device_;
  using Base::feed_;
  using Base::gradients_;
  using Base::key_;
  using Base::links_;
  using Base::memory_;
  using Base::microbatches_;
  using Base::plan_;
  using Base::sums_;
  using Base::tracer_;

  template <class R>
  friend bool act(Action, R&);

  // The weights as products read them.
  void refresh_all() {
    update_.refresh(device_);
    this->pack();
  }

  void training_step() {
    feed_.load(device_, microbatches_);
    if constexpr (keeps_two) {
      finished_ = false;
      if (key_.exchanges && Whole::averaging.overlapped) {
        this->touched_ = true;
        exchange_.begin_all(device_, memory_);
      }
    }
    run(plan_.training.data());
    if constexpr (keeps_two) {
      links_.await_all(device_);
    }
  }

  void run(Action const* row) {
    if (Whole::ranks > 1 || !key_.targets) {  // else each forward pass writes its own
      sums_.clear(device_);
    }
    if (tracer_.on() || debug_) {
      run_watched(row);
      return;
    }
    walk(row, *progress_, *this);
  }

  TANDEM_NOINLINE void run_watched(Action const* row) {
    walk_each(row, *progress_, [this](Action action) {
      auto const act = [&] { tandem::act(action, *this); };
      if (tracer_.on()) {
        tracer_.action(device_, action, act);
      } else {
        device_.debug(to_string(action), watch_.waiter(), act);
      }
    });
  }

  // Whether the row goes on.
  TANDEM_NOINLINE bool run_other(Action action) {
    switch (action.kind) {
      case ActionKind::input_gradient:
      case ActionKind::weight_gradient:
        if constexpr (Whole::splits_backward) {
          action.kind == ActionKind::input_gradient
              ? this->template run_backward<BackwardPart::input_gradient>(action)
              : this->template run_backward<BackwardPart::weight_gradient>(action);
        }
        break;
      case ActionKind::reduce_gradient:
        gradients_.await(device_, memory_, action.index);
        break;
      case ActionKind::begin_loss:
        gradients_.reduce_sums(device_, sums_.all());
        break;
      case ActionKind::await_loss:
        gradients_.await_sums(device_);
        break;
      case ActionKind::reduce_norm:
        if (key_.clips) {
          gradients_.reduce_sums(device_, update_.sum_squares(device_, memory_), {"norm"});
          gradients_.await_sums(device_);
        }
        break;
      case ActionKind::update:
        if (Whole::devices == 1 && key_.clips) {
          update_.sum_squares(device_, memory_);
        }
        if constexpr (keeps_two) {
          update_model(action.stage);
        } else {
          links_.await_all(device_);
          update_.finish(device_, memory_, feed_.state(), sums_, key_, feed_.result());
          this->touched_ = true;
          update_.apply(device_, memory_, feed_.state());
          this->pack();
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
        if (std::int64_t const size = microbatches_[action.index].size; size > 0) {
          this->run_message(action, size);
        }
    }
    return true;
  }

  // One stage of one of two models, on its own gradient; one whose model has no samples stays.
  void update_model(int stage) {
    finish_once();
    int const first = StageMapView{Whole::map}.first_microbatch(stage, plan_.batching.microbatches);
    if (microbatches_.total_of_copy(microbatches_[first]) > 0) {
      update_.apply(device_, memory_, feed_.state(), stage);
    }
    if (key_.exchanges && !Whole::averaging.overlapped) {
      exchange_.begin(device_, memory_, local_stage(Program::stages, stage));
    } else {
      this->pack(stage);
    }
  }
  void average(int stage) {
    finish_once();
    if (key_.exchanges) {
      exchange_.await(device_, memory_, local_stage(Program::stages, stage), update_.stopped());
      if (!Whole::averaging.overlapped) {
        update_.refresh(device_);
        this->pack(stage);
      }
    }
  }
  void finish_once() {
    this->touched_ = true;
    if (!std::exchange(finished_, true)) {
      update_.finish(device_, memory_, feed_.state(), sums_, key_, feed_.result());
    }
  }

  Update<Backend> update_;
  ModelExchange<Program, Backend, Communicator> exchange_;
  bool finished_ = false;  // the step's result
  ParameterMirror<Program, Backend> mirror_;
  StepRunner<Backend> runner_;
  std::atomic<std::uint64_t> nowhere_{};
  std::atomic<std::uint64_t>* progress_ = &nowhere_;
  Watch watch_{};
  int rank_;
  int states_;
  bool debug_;
};

}  // namespace tandem
