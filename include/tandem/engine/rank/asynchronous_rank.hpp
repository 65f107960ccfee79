// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AsynchronousRank: one device's program in an asynchronous pipeline: round after round, without
/// a barrier between steps. All memory is allocated by the constructor; a round allocates nothing.

#include <atomic>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/memory/mirror.hpp>
#include <tandem/engine/rank/asynchronous_passes.hpp>
#include <tandem/engine/rank/asynchronous_tick.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/engine/step/version_update.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/runtime/concepts.hpp>

namespace tandem {

/// Between streams place 0 has the weights. At the beginning of one every place gets them; during
/// it version v of the weights, after v updates, is in the place of v.
/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
  requires ComputeBackend<Backend> && HasVerbs<Backend> &&
      Carries<Communicator, Backend, typename Program::Program>
class AsynchronousRank final
    : public StreamedRank<typename Backend::Master, typename LossType::Target>,
      public AsynchronousPasses<Program, Backend, LossType, MetricType, Communicator> {
  using Base = AsynchronousPasses<Program, Backend, LossType, MetricType, Communicator>;

 public:
  using typename Base::Batch;
  using typename Base::P;
  using typename Base::Step;
  using typename Base::Whole;
  using Stream = StepStream<P, typename LossType::Target>;
  using Base::places;
  using Base::rule;
  using Base::stage;

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  template <class Connect>
  AsynchronousRank(RankOptions const& options, Connect const& connect)
      : Base{options, connect},
        update_{options.optimizer, parameter_runs(Program::graph, Program::layout.offset,
                                                  options.groups, Whole::map.parts())},
        mirror_{states_of(options.optimizer)},
        states_{states_of(options.optimizer)} {}

  void run_stream(Stream& stream) override {
    fill_places();
    std::int64_t steps = 0;
    for (; await(stream, steps); ++steps) {
      this->begin(this->step_of(steps), stream.state(steps), stream.batch(steps), watch_.waiter());
      for (int i = 0; i < rule.microbatches; ++i) {
        round(stream, steps * rule.microbatches + i, endless);
      }
    }
    std::int64_t const all = steps * rule.microbatches;
    for (std::int64_t g = all; g < all + rule.delay(places.stage); ++g) {
      round(stream, g, all);
    }
    rest();
  }

  StepResult forward(StepState const& state, Batch const& batch) override {
    Step step = this->step_of(0);
    step.training = false;
    this->begin(step, state, batch, watch_.waiter());
    sums_.clear(device_);
    for (int m = 0; m < rule.microbatches; ++m) {
      if (step.microbatches[m].size > 0) {
        evaluate(step, m);
      }
    }
    if constexpr (Whole::ranks > 1) {
      at({.kind = ActionKind::begin_loss, .stage = static_cast<std::int16_t>(stage.id)});
      gradients_.reduce_sums(device_, sums_.all());
      at({.kind = ActionKind::await_loss, .stage = static_cast<std::int16_t>(stage.id)});
      gradients_.await_sums(device_);
    }
    links_.await_all(device_);
    StepResult result;
    sums_.finish(device_, batch.size, &result);
    return result;
  }

  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = memory_.report();
    report.feed = this->feed_bytes();
    report.wire = gradients_.wire_bytes();
    report.messages = links_.bytes();
    return report;
  }
  std::vector<NamedParameter<P>> parameters() override {
    return named_parameters<Program>(mirror_, states_);
  }
  void download() override { mirror_.download(device_, memory_); }
  void upload() override {
    mirror_.upload(device_, memory_);
    this->pack_place(0);
  }
  void share_with(DeviceSpec const& other) override { device_.share_with(other); }
  void report_progress_to(std::atomic<std::uint64_t>* board) override {
    progress_ = board != nullptr ? board : &nowhere_;
  }
  void watch_with(Watch watch) override { watch_ = watch; }
  void settle() override {
    device_.settle(device_.communication);
    links_.settle(device_);
  }

 private:
  using Base::device_;
  using Base::gradients_;
  using Base::links_;
  using Base::memory_;
  using Base::sums_;

  static constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

  void at(Action action) { progress_->store(pack(action), std::memory_order_relaxed); }

  // Not late, however long the program takes.
  bool await(Stream& stream, std::int64_t step) {
    progress_->store(awaiting_a_step, std::memory_order_relaxed);
    bool const more = stream.await(step);
    progress_->store(at_no_action, std::memory_order_relaxed);
    return more;
  }

  void round(Stream& stream, std::int64_t g, std::int64_t all) {
    each_action(rule, places.stage, g, all, [&](Action action, std::int64_t microbatch) {
      at(action);
      switch (action.kind) {
        case ActionKind::forward:
          forward(stream, microbatch);
          break;
        case ActionKind::backward:
          this->pass_backward(microbatch);
          break;
        case ActionKind::update:
          update(stream, microbatch / rule.microbatches);
          break;
        default:
          this->run_message(action, microbatch);
      }
    });
  }

  void forward(Stream& stream, std::int64_t g) {
    Step const step = this->step_at(g);
    if constexpr (places.predicts()) {
      predict(*step.feed.state(), g);
    }
    int const t = this->table_of(g);
    int const m = this->in_step(g);
    this->pass_forward(step, m, memory_.table(t), t);
    if constexpr (stage.has_result) {
      if (m + 1 == rule.microbatches) {
        sums_.finish(device_, step.feed.batch().size, step.feed.result());
        stream.finish(*step.feed.result());
      }
    }
  }

  // As many updates on as there will be when the backward pass comes: fewer when a stream begins.
  void predict(StepState const& state, std::int64_t g) {
    std::int64_t const delay = rule.delay(places.stage);
    int const ahead = static_cast<int>(g < delay ? g : delay);
    update_.predict(device_, memory_, state, ahead, places.of_version(updates_),
                    places.prediction());
    this->pack_place(places.prediction());
  }

  void update(Stream& stream, std::int64_t step) {
    if (stream.updates(step)) {
      int const to = places.of_version(updates_ + 1);
      update_.run(device_, memory_, *this->step_of(step).feed.state(), places.of_version(updates_),
                  to);
      this->pack_place(to);
      ++updates_;
    }
    stream.release(step);
  }

  void fill_places() {
    updates_ = 0;
    for (int place = 1; place < places.count(); ++place) {
      memory_.copy_version(device_, 0, place);
      this->pack_place(place);
    }
  }
  void rest() {
    if (int const place = places.of_version(updates_); place != 0) {
      memory_.copy_version(device_, place, 0);
      this->pack_place(0);
    }
  }

  // All microbatches of an evaluation have one table.
  void evaluate(Step const& step, int m) {
    int const t = this->table_at_rest();
    auto const& table = memory_.backward_table(t);
    std::int64_t const size = step.microbatches[m].size;
    Action action{.stage = static_cast<std::int16_t>(stage.id), .index = m};
    auto const message = [&](ActionKind kind) {
      action.kind = kind;
      at(action);
      this->run_message(action, size, table, step.training);
    };
    if constexpr (places.stage > 0) {
      message(ActionKind::receive_forward);
    }
    action.kind = ActionKind::forward;
    at(action);
    this->pass_forward(step, m, table, t);
    if constexpr (places.stage + 1 < Whole::devices) {
      message(ActionKind::send_forward);
    }
  }

  VersionUpdate<Backend> update_;
  ParameterMirror<Program, Backend> mirror_;
  std::int64_t updates_ = 0;  // of this stream
  std::atomic<std::uint64_t> nowhere_{};
  std::atomic<std::uint64_t>* progress_ = &nowhere_;
  Watch watch_{};
  int states_;
};

}  // namespace tandem
