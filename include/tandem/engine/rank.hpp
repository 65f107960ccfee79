// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program, a loop over its constexpr row of actions.
///
/// A rank knows nothing of other ranks but its communicator. All memory is planned and allocated by
/// the constructor; a step allocates nothing, looks up nothing and calls nothing virtually.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/reduction.hpp>
#include <tandem/engine/microbatches.hpp>
#include <tandem/engine/op_table.hpp>
#include <tandem/engine/rank_memory.hpp>
#include <tandem/engine/stage.hpp>
#include <tandem/engine/state.hpp>
#include <tandem/engine/update.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem {

/// What a rank is made for.
struct RankOptions {
  int rank = 0;
  int largest_microbatch = 1;
  int threads = 1;
  Optimizer optimizer{};
  std::vector<UpdateRun> runs{};
};

template <class Program, class Backend, class LossType, class MetricType, class Communicator>
class Rank {
 public:
  using T = typename Backend::Scalar;
  using Target = typename LossType::Target;
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Memory = RankMemory<Program, Backend>;
  using Passes = Stage<Rank, Program, Backend>;
  static constexpr auto const& graph = Program::graph;
  static constexpr Batching batching = Program::batching;

  Rank(RankOptions const& options, Communicator communicator)
      : device_{options.threads},
        ops{options.largest_microbatch, options.threads},
        loss_op_{graph.output().out, options.largest_microbatch},
        metric_op_{graph.output().out},
        memory_{plan(options), scratch_bytes(), states_of(options.optimizer)},
        update_{options.optimizer, options.runs},
        communicator_{std::move(communicator)},
        microbatches_{batching, options.rank},
        sums_(2 * static_cast<std::size_t>(batching.all_microbatches())),
        tickets_(static_cast<std::size_t>(Program::layout.buckets + 1)) {
    device_.scratch = memory_.scratch();
  }

  /// One training step on @p batch. The result is the same on every rank.
  StepResult train(StepState const& state, StepBatch<T, Target> const& batch) {
    begin(state, batch, true);
    for (Action const& action : Program::training.action) {
      act(action);
    }
    return result_;
  }

  /// Forward only, in evaluation mode: losses if the batch has targets, outputs if it wants them.
  StepResult forward(StepState const& state, StepBatch<T, Target> const& batch) {
    begin(state, batch, false);
    for (Action const& action : Program::forward.action) {
      act(action);
    }
    finish_sums();
    return result_;
  }

  [[nodiscard]] Memory const& memory() const { return memory_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Communicator& communicator() { return communicator_; }
  /// Where the rank says which action it is at, for other threads' error messages.
  void report_progress_to(std::atomic<std::uint64_t>* board) { progress_ = board; }

  // What Stage calls.
  [[nodiscard]] Operands<T> const& operands(int node) const { return memory_.operands(node); }
  [[nodiscard]] T const* const* forks(int node) const { return memory_.forks(node); }
  [[nodiscard]] T* gradient_of(int node) const { return memory_.gradient_of(node); }

  /// The gradients of @p bucket are whole for this microbatch: at the end of a leaf they join the
  /// tree, at the end of the last leaf their reduction over the replicas begins.
  void bucket_ready(int bucket) {
    if (!leaf_ends_) {
      return;
    }
    std::int64_t const begin = Program::layout.bucket_begin[bucket];
    std::int64_t const count = Program::layout.bucket_begin[bucket + 1] - begin;
    T* const sum = memory_.gradients() + begin;
    if constexpr (Memory::waiting_leaves > 0) {
      join_tree(sum, begin, count);
    }
    if constexpr (batching.replicas > 1) {
      if (step_ends_) {
        std::span<T> const whole{sum, static_cast<std::size_t>(count)};
        communicator_.all_reduce(whole, whole, Sum{}, device_.queue, {"bucket", bucket});
        tickets_[static_cast<std::size_t>(bucket)] = device_.queue.last();
      }
    }
  }

 private:
  friend Passes;

  MemoryPlan plan(RankOptions const& options) {
    needs_ = ops.needs();
    return MemoryPlanner{graph, needs_, options.largest_microbatch,
                         static_cast<std::int64_t>(sizeof(T))}
        .plan();
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    std::int64_t most = loss_op_.scratch_bytes();
    for (OpNeeds const& need : needs_) {
      most = std::max(most, need.scratch_bytes);
    }
    return most;
  }

  void begin(StepState const& state, StepBatch<T, Target> const& batch, bool training) {
    state_ = state;
    batch_ = batch;
    training_ = training;
    result_ = {.samples = batch.size};
    microbatches_.split(batch.size);
    for (double& sum : sums_) {
      sum = 0.0;
    }
  }

  void act(Action const& action) {
    if (progress_ != nullptr) {
      progress_->store(pack(action), std::memory_order_relaxed);
    }
    switch (action.kind) {
      case ActionKind::forward:
        return run_forward(action.index);
      case ActionKind::backward:
        return run_backward(action.index);
      case ActionKind::reduce_gradient:
        return device_.queue.wait(tickets_[static_cast<std::size_t>(action.index)]);
      case ActionKind::reduce_loss:
        return device_.queue.wait(tickets_.back());
      case ActionKind::update:
        return run_update();
    }
  }

  [[nodiscard]] PassType pass(int m) {
    return {.device = device_,
            .batch = microbatches_.size(m),
            .first_sample = microbatches_.first(m),
            .share = static_cast<double>(microbatches_.size(m)) / batch_.size,
            .seed = state_.seed,
            .step = state_.step,
            .training = training_,
            .accumulate = leaf_has_gradients_};
  }
  [[nodiscard]] Target const* targets(int m) const {
    return batch_.targets + microbatches_.first(m) * LossType::targets(graph.output().out);
  }

  void run_forward(int m) {
    if (microbatches_.size(m) > 0) {
      PassType const p = pass(m);
      memory_.set_input(batch_.x + p.first_sample * graph.node[0].out.elements());
      Passes::forward(*this, p);
      if (batch_.targets != nullptr) {
        auto const slot = static_cast<std::size_t>(microbatches_.global(m));
        loss_op_.forward(p, memory_.output(), targets(m), &sums_[slot]);
        metric_op_.count(p, memory_.output(), targets(m), &sums_[slot + sums_.size() / 2]);
      }
      if (batch_.outputs != nullptr) {
        constexpr std::int64_t outputs = graph.output().out.elements();
        Verbs<Backend>::copy(device_, memory_.output(), batch_.outputs + p.first_sample * outputs,
                             p.batch * outputs);
      }
    }
    if constexpr (batching.replicas > 1) {
      if (m == batching.microbatches - 1) {
        std::span<double> const sums{sums_};
        communicator_.all_reduce(sums, sums, Sum{}, device_.queue, {"losses"});
        tickets_.back() = device_.queue.last();
      }
    }
  }

  void run_backward(int m) {
    constexpr int leaf = batching.microbatches / batching.leaves;  // microbatches of a leaf
    if (m % leaf == 0) {
      leaf_has_gradients_ = false;
    }
    leaf_ends_ = m % leaf == leaf - 1;
    step_ends_ = m == batching.microbatches - 1;
    leaf_ = m / leaf;
    if (microbatches_.size(m) > 0) {
      PassType const p = pass(m);
      if constexpr (graph.output().needs_gradient) {
        loss_op_.gradient(p, memory_.output(), targets(m), 1.0 / batch_.size,
                          memory_.loss_gradient());
        Passes::backward(*this, p);
      }
      leaf_has_gradients_ = true;
    } else if (leaf_ends_) {
      finish_empty_microbatch();
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  void finish_empty_microbatch() {
    if (!leaf_has_gradients_) {
      Verbs<Backend>::zero(device_, memory_.gradients(), Program::layout.trained);
    }
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      bucket_ready(bucket);
    }
  }

  // A binary counter over the leaves: leaf k joins as many waiting sums as k has trailing ones.
  void join_tree(T* sum, std::int64_t begin, std::int64_t count) {
    int level = 0;
    for (int carry = leaf_; (carry & 1) != 0; carry >>= 1, ++level) {
      Verbs<Backend>::add(device_, memory_.gradients(1 + level) + begin, sum, count);
    }
    if (leaf_ != batching.leaves - 1) {
      Verbs<Backend>::copy(device_, sum, memory_.gradients(1 + level) + begin, count);
    }
  }

  void finish_sums() {
    std::size_t const half = sums_.size() / 2;
    double loss = 0.0;
    double metric = 0.0;
    for (std::size_t m = 0; m < half; ++m) {
      if (!std::isfinite(sums_[m]) && result_.non_finite < 0) {
        result_.non_finite = static_cast<int>(m);
      }
      loss += sums_[m];
      metric += sums_[half + m];
    }
    result_.loss = loss / batch_.size;
    result_.metric = metric / batch_.size;
  }

  void run_update() {
    finish_sums();
    if (result_.non_finite < 0) {
      result_.gradient_norm = update_.template run<Backend>(device_, memory_, state_);
    }
  }

  Device device_;

 public:
  OpTable<Program, Backend> ops;

 private:
  std::vector<OpNeeds> needs_;
  LossOp<LossType, Backend> loss_op_;
  MetricOp<MetricType, LossType, Backend> metric_op_;
  Memory memory_;
  Update<T> update_;
  Communicator communicator_;
  RankMicrobatches microbatches_;
  std::vector<double> sums_;  // loss of every microbatch of the batch, then the metric of each
  std::vector<std::uint64_t> tickets_;  // of each bucket's reduction, then of the losses'
  std::atomic<std::uint64_t>* progress_ = nullptr;

  StepState state_{};
  StepBatch<T, Target> batch_{};
  StepResult result_{};
  bool training_ = false;
  bool leaf_has_gradients_ = false;
  bool leaf_ends_ = false;
  bool step_ends_ = false;
  int leaf_ = 0;
};

}  // namespace tandem
