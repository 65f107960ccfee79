// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AsynchronousPasses: what the passes and messages of a rank of an asynchronous pipeline do, with
/// microbatches of several steps at work.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/engine/rank/rank_passes.hpp>
#include <tandem/schedule/rules/weight_places.hpp>

namespace tandem {

/// One stage, the only one of its device and the only one of its part. Microbatches are numbered
/// through from the beginning of a stream.
/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
class AsynchronousPasses : public RankPasses<Program, Backend, LossType, MetricType, Communicator> {
  using Base = RankPasses<Program, Backend, LossType, MetricType, Communicator>;

 public:
  using typename Base::Batch;
  using typename Base::FeedType;
  using typename Base::Memory;
  using typename Base::PassType;
  using typename Base::Table;
  using typename Base::Whole;
  static constexpr auto const& places = Program::places;
  static constexpr auto const& rule = Program::places.rule;
  static constexpr LocalStage stage = Program::stages.stage[0];

 protected:
  using Base::device_;
  using Base::feed_;
  using Base::links_;
  using Base::memory_;
  using Base::microbatches_;
  using Base::ops_;
  using Base::plan_;
  using Base::sums_;
  using Passes = typename Base::template Passes<0>;

  template <class Connect>
  AsynchronousPasses(RankOptions const& options, Connect const& connect) : Base{options, connect} {
    for (int step = 0; step < rule.late_steps(places.stage); ++step) {
      others_.push_back({FeedType{device_, this->feed_sizes(options)}, microbatches_});
    }
  }

  /// One step's data on this rank.
  struct Step {
    FeedType& feed;
    RankMicrobatches& microbatches;
    bool training = true;
  };
  /// As many steps have a place of their own as have microbatches here at once.
  [[nodiscard]] Step step_of(std::int64_t step) {
    auto const place = static_cast<std::size_t>(step) % (others_.size() + 1);
    if (place == 0) {
      return {feed_, microbatches_};
    }
    return {others_[place - 1].feed, others_[place - 1].microbatches};
  }

  template <class Wait>
  void begin(Step const& step, StepState const& state, Batch const& batch, Wait const& wait) {
    step.microbatches.split(batch.size);
    step.feed.begin(device_, state, batch, step.microbatches, wait);
    step.feed.load(device_, step.microbatches);
  }

  [[nodiscard]] static int table_of(std::int64_t g) {
    return static_cast<int>(g % places.tables());
  }
  static int in_step(std::int64_t g) { return static_cast<int>(g % rule.microbatches); }
  [[nodiscard]] Step step_at(std::int64_t g) { return step_of(g / rule.microbatches); }
  [[nodiscard]] std::int64_t size_of(std::int64_t g) {
    return step_at(g).microbatches[in_step(g)].size;
  }

  /// Microbatch @p m of a step, in the memory and with the weights of @p table, whose number is
  /// @p t.
  void pass_forward(Step const& step, int m, Table const& table, int t) {
    Microbatch const& own = step.microbatches[m];
    links_.await(device_, ActionKind::forward, stage.id, step.training);
    if constexpr (stage.has_input) {
      memory_.set_input(t, step.feed.input(own));
    }
    PassType const p = pass(step, own);
    Passes::forward(*this, p, table);
    if constexpr (stage.has_result) {
      Batch const& batch = step.feed.batch();
      if (batch.targets != nullptr) {
        ops_.loss.forward(p, table.output, step.feed.targets(own), sums_.loss(m));
        ops_.metric.count(p, table.output, step.feed.targets(own), sums_.metric(m));
      }
      if (batch.outputs != nullptr) {
        step.feed.store(device_, table.output, own);
      }
    }
  }

  void pass_backward(std::int64_t g) {
    Step const step = step_at(g);
    Microbatch const& own = step.microbatches[in_step(g)];
    Table const& table = memory_.backward_table(table_of(g));
    PassType const p = pass(step, own);
    links_.await(device_, ActionKind::backward, stage.id, true);
    if constexpr (stage.has_result && stage.needs_gradient) {
      ops_.loss.gradient(p, table.output, step.feed.targets(own), 1.0 / step.microbatches.total(),
                         table.loss_gradient);
    }
    if constexpr (stage.needs_gradient) {
      Passes::backward(*this, p, table, own.finishes);
    }
  }

  using Base::run_message;
  void run_message(Action action, std::int64_t g) {
    run_message(action, size_of(g), memory_.table(table_of(g)), step_at(g).training);
  }

  [[nodiscard]] std::int64_t feed_bytes() const {
    std::int64_t sum = feed_.bytes();
    for (Place const& place : others_) {
      sum += place.feed.bytes();
    }
    return sum;
  }

  /// After the weights in @p place have changed. @p t is a table whose forward pass, or backward
  /// pass, reads them.
  void pack_place(int place) {
    for (int t = 0; t < places.tables(); ++t) {
      if (places.forward(t) == place) {
        Passes::pack(*this, memory_.table(t));
        return;
      }
      if (places.backward(t) == place) {
        Passes::pack(*this, memory_.backward_table(t));
        return;
      }
    }
  }

  /// The first table whose B reads the weights of place 0: what evaluation computes with.
  static int table_at_rest() {
    int t = 0;
    while (places.backward(t) != 0) {
      ++t;
    }
    return t;
  }

 private:
  struct Place {
    FeedType feed;
    RankMicrobatches microbatches;
  };

  [[nodiscard]] PassType pass(Step const& step, Microbatch const& own) {
    return {.device = device_,
            .batch = own.size,
            .first_sample = own.first,
            .share = static_cast<double>(own.size) / step.microbatches.total(),
            .state = step.feed.state(),
            .training = step.training,
            .accumulate = own.adds};
  }

  std::vector<Place> others_;
};

}  // namespace tandem
