// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program, a loop over its constexpr row of actions. All memory is allocated by
/// the constructor; a step allocates nothing, looks up nothing and calls nothing virtually.

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/feed.hpp>
#include <tandem/engine/gradient_reduction.hpp>
#include <tandem/engine/microbatches.hpp>
#include <tandem/engine/mirror.hpp>
#include <tandem/engine/prepared_ops.hpp>
#include <tandem/engine/rank_memory.hpp>
#include <tandem/engine/rank_options.hpp>
#include <tandem/engine/stage.hpp>
#include <tandem/engine/state.hpp>
#include <tandem/engine/step_runner.hpp>
#include <tandem/engine/step_sums.hpp>
#include <tandem/engine/tracer.hpp>
#include <tandem/engine/update.hpp>
#include <tandem/engine/walk.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem {

template <class Program, class Backend, class LossType, class MetricType, class Communicator>
class Rank {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Target = typename LossType::Target;
  using Batch = StepBatch<P, Target>;
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Memory = RankMemory<Program, Backend>;
  using FeedType = Feed<Program, Backend, Target>;
  using Passes = Stage<Rank, Program, Backend>;
  static constexpr auto const& graph = Program::graph;
  static constexpr Batching batching = Program::batching;
  static constexpr int leaf = batching.microbatches / batching.leaves;  ///< in microbatches
  /// Whether a walk over the actions may be recorded once and replayed.
  static constexpr bool recordable = batching.replicas == 1 || is_capturable<Communicator>;

  Rank(RankOptions const& options, Communicator communicator)
      : device_{options.device},
        ops_{options.largest_microbatch, options.device.threads, device_},
        memory_{device_, ops_, states_of(options.optimizer)},
        feed_{device_, feed_sizes(options)},
        update_{device_, memory_, options.optimizer, options.runs},
        mirror_{states_of(options.optimizer)},
        gradients_{device_, std::move(communicator), tracer_},
        microbatches_{batching, options.rank},
        sums_{device_, batching.all_microbatches()},
        runner_{recordable && options.record},
        rank_{options.rank},
        debug_{!options.record} {
    device_.scratch = memory_.scratch();
    device_.scratch_bytes = ops_.scratch_bytes();
    device_.finish();
  }

  /// One training step on @p batch. The result is the same on every rank.
  StepResult train(StepState const& state, Batch const& batch) {
    queue_training(state, batch);
    return collect();
  }

  /// The same without its result: at most FeedType::steps_in_flight may wait to be collected.
  void queue_training(StepState const& state, Batch const& batch) {
    begin(state, batch, true);
    runner_.run(device_, key(), [this] { training_step(); });
    feed_.end(device_);
  }

  /// The result of the oldest step that was queued. If a loss was not finite, the steps behind it
  /// are dropped: they have changed nothing.
  StepResult collect() {
    StepResult const result = feed_.collect(device_, watch_.waiter());
    if (result.non_finite >= 0) {
      while (feed_.waiting() > 0) {
        feed_.collect(device_, watch_.waiter());
      }
      update_.forgive(device_);
    }
    return result;
  }

  /// A step that is walked; once it is collected, traced() says when each action began and ended.
  void queue_traced(StepState const& state, Batch const& batch) {
    begin(state, batch, true);
    tracer_.begin(device_);
    training_step();
    tracer_.end();
    feed_.end(device_);
  }
  std::vector<TraceEvent> traced() { return tracer_.events(device_, rank_); }

  /// Forward only, in evaluation mode: losses if the batch has targets, outputs if it wants them.
  StepResult forward(StepState const& state, Batch const& batch) {
    begin(state, batch, false);
    runner_.run(device_, key(), [this] {
      feed_.load(device_, microbatches_);
      run(Program::forward.action);
      sums_.finish(device_, batch_size_, feed_.result());
    });
    feed_.end(device_);
    return collect();
  }

  [[nodiscard]] Memory const& memory() const { return memory_; }
  /// What is allocated for tensors on the rank's device.
  [[nodiscard]] MemoryReport memory_report() const {
    MemoryReport report = memory_.report();
    report.feed = feed_.bytes();
    report.wire = gradients_.wire_bytes();
    report.tables = update_.bytes() + sums_.bytes();
    return report;
  }
  /// The parameters where the calling program can reach them.
  [[nodiscard]] ParameterMirror<Program, Backend>& mirror() { return mirror_; }
  void download() { mirror_.download(device_, memory_); }
  void upload() {
    mirror_.upload(device_, memory_);
    update_.refresh(device_);
    Passes::pack(*this);
  }
  /// What each node's op asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return ops_.needs(); }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Communicator& communicator() { return gradients_.communicator(); }
  /// Where the rank says which action it is at, for other threads' error messages.
  void report_progress_to(std::atomic<std::uint64_t>* board) {
    progress_ = board != nullptr ? board : &nowhere_;
  }
  /// What to call while the host waits for the device.
  void watch_with(Watch watch) { watch_ = watch; }

 private:
  friend Passes;
  template <class R>
  friend bool act(Action, R&);

  [[nodiscard]] Operands<T, P> const& operands(int node) const { return memory_.operands(node); }
  [[nodiscard]] T const* const* forks(int node) const { return memory_.forks(node); }
  [[nodiscard]] T* gradient_of(int node) const { return memory_.gradient_of(node); }

  void bucket_ready(int bucket) { gradients_.bucket_ready(device_, memory_, bucket, microbatch_); }

  static FeedSizes feed_sizes(RankOptions const& options) {
    return {std::int64_t{options.largest_microbatch} * batching.microbatches,
            LossType::targets(graph.output().out)};
  }

  void begin(StepState const& state, Batch const& batch, bool training) {
    batch_size_ = batch.size;
    has_targets_ = batch.targets != nullptr;
    has_outputs_ = batch.outputs != nullptr;
    clips_ = state.clip_norm > 0.0;
    training_ = training;
    microbatches_.split(batch.size);
    feed_.begin(device_, state, batch, microbatches_, watch_.waiter());
  }
  [[nodiscard]] StepKey key() const {
    return {batch_size_, training_, has_targets_, has_outputs_, clips_};
  }
  void training_step() {
    feed_.load(device_, microbatches_);
    run(Program::training.action);
  }

  void run(Action const* row) {
    if (batching.replicas > 1 || !has_targets_) {  // else each forward pass writes its own
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
      case ActionKind::reduce_gradient:
        gradients_.await(device_, memory_, action.index);
        break;
      case ActionKind::reduce_loss:
        gradients_.await_sums(device_);
        break;
      case ActionKind::update:
        update_.run(device_, memory_, feed_.state(), sums_, key(), feed_.result());
        Passes::pack(*this);
        break;
      default:
        return false;
    }
    return true;
  }

  [[nodiscard]] PassType pass(Microbatch const& own) {
    return {.device = device_,
            .batch = own.size,
            .first_sample = own.first,
            .share = static_cast<double>(own.size) / batch_size_,
            .state = feed_.state(),
            .training = training_,
            .accumulate = own.adds};
  }
  void run_forward(int m) {
    if (Microbatch const& own = microbatches_[m]; own.size > 0) {
      PassType const p = pass(own);
      memory_.set_input(feed_.input(own));
      Passes::forward(*this, p);
      if (has_targets_) {
        int const global = microbatches_.global(m);
        ops_.loss.forward(p, memory_.output(), feed_.targets(own), sums_.loss(global));
        ops_.metric.count(p, memory_.output(), feed_.targets(own), sums_.metric(global));
      }
      if (has_outputs_) {
        feed_.store(device_, memory_.output(), own);
      }
    } else {
      sums_.clear(device_, microbatches_.global(m));
    }
    if constexpr (batching.replicas > 1) {
      if (m == batching.microbatches - 1) {
        gradients_.reduce_sums(device_, sums_.all());
      }
    }
  }

  void run_backward(int m) {
    microbatch_ = m;
    if (Microbatch const& own = microbatches_[m]; own.size > 0) {
      if constexpr (graph.output().needs_gradient) {
        PassType const p = pass(own);
        ops_.loss.gradient(p, memory_.output(), feed_.targets(own), 1.0 / batch_size_,
                           memory_.loss_gradient());
        Passes::backward(*this, p);
      }
    } else if (m % leaf == leaf - 1) {
      finish_empty_microbatch(own);
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  void finish_empty_microbatch(Microbatch const& own) {
    if (!own.adds) {
      Verbs<Backend>::zero(device_, memory_.gradients(), Program::layout.trained);
    }
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      bucket_ready(bucket);
    }
  }

  Device device_;
  PreparedOps<Program, Backend, LossType, MetricType> ops_;
  Memory memory_;
  FeedType feed_;
  Update<Backend> update_;
  ParameterMirror<Program, Backend> mirror_;
  Tracer<Device> tracer_;
  GradientReduction<Program, Backend, Communicator> gradients_;
  RankMicrobatches microbatches_;
  StepSums<Backend> sums_;
  StepRunner<Backend> runner_;
  std::atomic<std::uint64_t> nowhere_{};
  std::atomic<std::uint64_t>* progress_ = &nowhere_;
  Watch watch_{};

  int rank_;
  int batch_size_ = 0;  // of the step at work
  bool debug_;
  bool clips_ = false;
  bool training_ = false;
  bool has_targets_ = false;
  bool has_outputs_ = false;
  int microbatch_ = 0;  // whose backward pass is at work
};

}  // namespace tandem
