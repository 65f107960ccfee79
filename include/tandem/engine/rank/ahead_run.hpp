// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AheadRun: a rank of a PostValidated schedule at work on a stream of steps, up to the first
/// backward pass of the next one ahead of others.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/engine/rank/updates.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// All ranks decide alike, from sums that are the same on each: whether an update was as it should
/// be, whether the next one goes ahead, and where training ends. So they send each other the same
/// messages and meet in the same sums, however far apart they are.
///
/// Of the Rank that has it, it calls what a step consists of.
template <class Batch>
class AheadRun {
 public:
  using Stream = StepStream<Batch>;

  /// Whether it is at work.
  [[nodiscard]] bool on() const { return stream_ != nullptr; }

  /// Trains on the steps of @p stream until there are no more.
  template <class Rank>
  void run(Stream& stream, Rank& rank) {
    stream_ = &stream;
    is_ahead_ = dropped_ = false;
    trusted_ = true;
    for (step_ = 0; rank.idly([this] { return stream_->await(step_); }); ++step_) {
      bool trained = false;
      while (!dropped_ && !trained) {
        trained = train(rank);
      }
      if (!trained) {
        stream_->release(step_);
      }
    }
    stream_ = nullptr;
  }

  /// When the sums of a step's losses begin: the next step's may be there before they are known.
  template <class Sums>
  void note(Sums const& sums) {
    first_bad_ = sums.first_bad();
  }

  /// The step's update: at once, if the next step follows and the last one went as it is taken for
  /// granted; or else with the sums.
  template <class Rank>
  void update(Action action, Rank& rank) {
    if (trusted_ && rank.idly([this] { return stream_->follows(step_); })) {
      last_ = {.state = *rank.slot_.state,
               .key = rank.slot_.key,
               .number = step_,
               .first_bad = first_bad_};
      is_ahead_ = true;
      rank.updates_.run_ahead(rank.parts_, rank.slot_);
      return;
    }
    rank.parts_.gradients.await_sums(rank.parts_.device);
    rank.updates_.run(rank.parts_, rank.slot_, action.stage);
    trusted_ = rank.updates_.plain();
    report(rank, step_, *rank.slot_.result, first_bad_);
  }

 private:
  // One step; the one before may not be known to be right until its gradients are to be written
  // again. Whether it is done, or else must begin anew, or is dropped.
  template <class Rank>
  bool train(Rank& rank) {
    rank.begin(stream_->state(step_), stream_->batch(step_), true);
    rank.prepare();
    rank.parts_.sums.clear(rank.parts_.device);
    for (Action const* next = rank.parts_.plan.training.data();; ++next) {
      if (next->kind == ActionKind::end) {
        return true;
      }
      if (is_ahead_ && !leaves_gradients(*next) && !confirm(rank)) {
        pass_by(rank, next);
        report(rank, last_.number, result_, last_.first_bad);
        return false;
      }
      rank.at(*next);
      rank.act_watched(*next);
    }
  }

  // Whether the last step's gradients, and its sums, are as they were behind the action.
  static bool leaves_gradients(Action const& action) {
    return action.kind == ActionKind::forward || action.kind == ActionKind::send_forward ||
           action.kind == ActionKind::receive_forward;
  }

  // The last step is as it should be from now on, and reported if it was.
  template <class Rank>
  bool confirm(Rank& rank) {
    is_ahead_ = false;
    rank.parts_.gradients.await_sums(rank.parts_.device);
    result_ = {};
    trusted_ = rank.updates_.confirm(rank.parts_, last_, result_);
    if (trusted_) {
      report(rank, last_.number, result_, last_.first_bad);
    }
    return trusted_;
  }

  // What is left of a step that must begin anew: its messages alone, so that none stays on its way.
  template <class Rank>
  TANDEM_COLD static void pass_by(Rank& rank, Action const* next) {
    for (; next->kind != ActionKind::end; ++next) {
      if (is_message(next->kind)) {
        rank.at(*next);
        rank.run_other(*next);
      }
    }
    rank.parts_.await_links();
  }

  // The rank's last word on a step.
  template <class Rank>
  void report(Rank& rank, std::int64_t step, StepResult result, int first_bad) {
    if (result.failed()) {
      dropped_ = true;  // with all behind it
      if (result.non_finite >= 0) {
        rank.blame(result, first_bad);
      }
    }
    if (rank.rank_ == 0) {
      stream_->finish(result);
    }
    stream_->release(step);
  }

  Stream* stream_ = nullptr;
  std::int64_t step_ = 0;  // of the stream
  bool trusted_ = true;    // the last step whose sums are known was as it is taken for granted
  bool dropped_ = false;   // the stream's steps from this one on
  bool is_ahead_ = false;  // of the last step's sums
  AheadStep last_{};       // that step
  StepResult result_{};
  int first_bad_ = 0;  // see AheadStep
};

}  // namespace tandem
