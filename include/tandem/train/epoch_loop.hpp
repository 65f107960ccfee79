// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// EpochLoop: the steps of one call of Trainer::train().

#include <algorithm>
#include <cstdint>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/train/bad_sample.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/saver.hpp>
#include <tandem/train/data_source.hpp>
#include <tandem/train/epoch_cursor.hpp>
#include <tandem/train/one_call.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/check_rates.hpp>
#include <tandem/train/options/loader_options.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/over_processes.hpp>
#include <tandem/train/progress.hpp>
#include <tandem/train/ranks/step_queue.hpp>
#include <tandem/train/step_batches.hpp>
#include <tandem/train/step_report.hpp>

namespace tandem {

/// Made by a trainer for one call, of its own parts; it has checked the data.
/// @tparam StepType  StepBatch
template <class StepType>
class EpochLoop {
 public:
  using Workers = WorkerGroup<StepType>;
  using Data = DataSource<typename StepType::Input, typename StepType::TargetType>;
  /// Called after each step: whether to stop.
  using Watch = FunctionRef<bool(StepReport const&)>;

  EpochLoop(StepFacts<StepType> const& facts, Workers& workers, TrainerOptions const& options,
            TrainingPosition& position, EpochCursor& cursor, StepQueue<StepType>& queue,
            CheckpointSaver& saver)
      : facts_{facts},
        workers_{workers},
        options_{options},
        position_{position},
        cursor_{cursor},
        queue_{queue},
        saver_{saver} {}

  /// @param watch  null: nobody watches, and a step may be queued before the last one's result
  /// @param call   lent to the watch
  TANDEM_COLD EpochResult run(Data& data, Epoch epoch, Progress const& progress, Watch const* watch,
                              OneCall::Scope const& call);

 private:
  // An epoch begins with states of 0, unless the dataset says that it goes on from the last one.
  void begin_states(Data const& data) {
    if (workers_.facts().tables().stateful && position_.position == 0 && !data.epochs_go_on()) {
      workers_.run([](auto& rank) { rank.reset_states(); });
      position_.streams = 0;
    }
  }
  [[nodiscard]] LoaderOptions order_of(Data const& data, std::int64_t index) const {
    LoaderOptions const order = training_order(options_, index, position_.position);
    return workers_.facts().tables().stateful ? data.in_streams(order, true) : order;
  }

  // How long the run will be, as the caller's loop says.
  void foresee(Epoch epoch, std::int64_t samples, std::int64_t done) {
    auto const steps = [&](std::int64_t of) {
      return static_cast<double>((of + (options_.drop_last ? 0 : options_.batch - 1)) /
                                 options_.batch);
    };
    auto const later =
        static_cast<double>(std::max(epoch.total - epoch.index - 1, std::int64_t{0}));
    queue_.foresee(options_, static_cast<double>(position_.step) + steps(samples - done) +
                                 later * steps(samples));
  }

  StepReport report_of(StepResult const& step, double rate, std::int64_t samples,
                       double seconds) const {
    return {.step = position_.step,
            .epoch = position_.epoch,
            .samples = position_.position,
            .epoch_samples = samples,
            .batch = step.samples,
            .loss = step.loss,
            .metric = step.metric,
            .metrics = step.metrics,
            .gradient_norm = step.gradient_norm,
            .learning_rate = rate,
            .seconds = seconds,
            .loss_scale = step.loss_scale,
            .skipped = step.skipped,
            .checkpoint_failure = saver_.take_failure()};
  }

  /// However run() ends, no step stays queued.
  struct Drain {
    EpochLoop& loop;
    ~Drain() { loop.queue_.drain(loop.workers_, loop.position_); }
  };

  StepFacts<StepType> const& facts_;
  Workers& workers_;
  TrainerOptions const& options_;
  TrainingPosition& position_;
  EpochCursor& cursor_;
  StepQueue<StepType>& queue_;
  CheckpointSaver& saver_;
};

template <class StepType>
EpochResult EpochLoop<StepType>::run(Data& data, Epoch epoch, Progress const& progress,
                                     Watch const* watch, OneCall::Scope const& call) {
  using DataBatch = Batch<typename StepType::Input, typename StepType::TargetType>;
  EpochCursor cursor = cursor_;
  std::int64_t const index = cursor.place(epoch);
  std::int64_t const done = index == position_.epoch ? position_.position : 0;
  if (index >= position_.epoch) {
    check_epoch(workers_.facts().tables().network, data.size(), done, options_.batch,
                options_.drop_last, workers_.batching());
  }
  cursor_ = cursor;
  ProgressLine line{options_.world.process == 0 ? progress : Progress::none(), epoch, data.size()};
  if (index < position_.epoch) {
    cursor_.skip(epoch);
    line.skip();
    return {};
  }
  if (index > position_.epoch) {
    position_.epoch = index;
    position_.position = 0;
  }
  foresee(epoch, data.size(), done);
  cursor_.begin();
  begin_states(data);
  line.leave_out(position_.position);
  LoaderOptions order = order_of(data, index);
  order.parts = parts_to_read(workers_, facts_.in_parts, options_.world.processes);
  BatchLoader<typename StepType::Input, typename StepType::TargetType> loader{data, order};
  auto const next = [&](DataBatch& batch) {
    return with_part(workers_, order.parts, [&] {
      bool const is_one = loader.next(batch);
      if (is_one) {
        facts_.check(step_of<StepType>(batch), loader.names(batch));
      }
      return is_one;
    });
  };
  EpochResult result;
  auto const start = std::chrono::steady_clock::now();
  StepResult last;
  auto const collect = [&] {
    last = facts_.named(queue_.pop(workers_, position_, [&] {  // position_: of before the step
      return bad_sample_of(data, training_order(options_, index, position_.position));
    }));
    add(result, last, start);
    line.step(mean(result));
  };
  Drain const drain{*this};
  for (DataBatch batch; !result.stopped && next(batch);) {
    if (queue_.full()) {
      collect();
    }
    queue_.push(workers_, options_, position_, step_of<StepType>(batch));
    position_.position = batch.first + batch.size;
    if (watch != nullptr) {
      double const rate = learning_rate_at(options_, position_.step - 1, position_.learning_rate);
      collect();
      auto const others = call.lend();
      result.stopped = (*watch)(report_of(last, rate, data.size(), result.seconds));
    }
    if (saver_.on()) {
      saver_.look();
      if (saver_.looks(position_.step)) {
        while (!queue_.empty()) {
          collect();
        }
        SavedWorkers<StepType> ranks{workers_};
        options_.checkpoints.folder.obey()(saver_, ranks, position_);
      }
    }
  }
  while (!queue_.empty()) {
    collect();
  }
  workers_.drain();
  if (result.stopped) {
    cursor_.stop(epoch);
  } else {
    position_.epoch = index + 1;
    position_.position = 0;
    cursor_.done(epoch);
  }
  line.finish(mean(result));
  return mean(result);
}

}  // namespace tandem
