// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program, a loop over its constexpr row of actions.
///
/// A rank knows nothing of other ranks but its communicator. All memory is planned and allocated by
/// the constructor; a step allocates nothing, looks up nothing and calls nothing virtually.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/microbatches.hpp>
#include <tandem/engine/op_table.hpp>
#include <tandem/engine/rank_memory.hpp>
#include <tandem/engine/stage.hpp>
#include <tandem/engine/state.hpp>
#include <tandem/engine/step_sums.hpp>
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
  /// Microbatches of a leaf.
  static constexpr int leaf = batching.microbatches / batching.leaves;

  Rank(RankOptions const& options, Communicator communicator)
      : device_{options.threads},
        ops_{options.largest_microbatch, options.threads},
        loss_op_{graph.output().out, options.largest_microbatch},
        metric_op_{graph.output().out},
        memory_{plan(options), scratch_bytes(), states_of(options.optimizer)},
        update_{options.optimizer, options.runs},
        communicator_{std::move(communicator)},
        microbatches_{batching, options.rank},
        sums_{batching.all_microbatches()},
        tickets_(static_cast<std::size_t>(Program::layout.buckets + 1)) {
    device_.scratch = memory_.scratch();
  }

  /// One training step on @p batch. The result is the same on every rank.
  StepResult train(StepState const& state, StepBatch<T, Target> const& batch) {
    begin(state, batch, true);
    run(Program::training.action);
    return result_;
  }

  /// Forward only, in evaluation mode: losses if the batch has targets, outputs if it wants them.
  StepResult forward(StepState const& state, StepBatch<T, Target> const& batch) {
    begin(state, batch, false);
    run(Program::forward.action);
    sums_.finish(result_);
    return result_;
  }

  [[nodiscard]] Memory const& memory() const { return memory_; }
  /// What the op of each node asked for, from which memory was planned.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return needs_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Communicator& communicator() { return communicator_; }
  /// Where the rank says which action it is at, for other threads' error messages.
  void report_progress_to(std::atomic<std::uint64_t>* board) {
    progress_ = board != nullptr ? board : &nowhere_;
  }

 private:
  friend Passes;

  // What Stage calls.
  [[nodiscard]] Operands<T> const& operands(int node) const { return memory_.operands(node); }
  [[nodiscard]] T const* const* forks(int node) const { return memory_.forks(node); }
  [[nodiscard]] T* gradient_of(int node) const { return memory_.gradient_of(node); }

  /// The gradients of @p bucket are whole for this microbatch: at the end of a leaf they join the
  /// tree, at the end of the last leaf their reduction over the replicas begins.
  void bucket_ready(int bucket) {
    if (microbatch_ % leaf != leaf - 1) {
      return;
    }
    std::int64_t const begin = Program::layout.bucket_begin[bucket];
    std::int64_t const count = Program::layout.bucket_begin[bucket + 1] - begin;
    T* const sum = memory_.gradients() + begin;
    if constexpr (Memory::waiting_leaves > 0) {
      join_tree(sum, begin, count);
    }
    if constexpr (batching.replicas > 1) {
      if (microbatch_ == batching.microbatches - 1) {
        std::span<T> const whole{sum, static_cast<std::size_t>(count)};
        communicator_.all_reduce(whole, whole, Sum{}, device_.queue, {"bucket", bucket});
        tickets_[static_cast<std::size_t>(bucket)] = device_.queue.last();
      }
    }
  }

  MemoryPlan plan(RankOptions const& options) {
    needs_ = ops_.needs();
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
    if (batching.replicas > 1 || batch.targets == nullptr) {  // else each forward writes its own
      sums_.clear();
    }
  }

  // Forward and backward, which nearly all actions are, are told apart here, others elsewhere.
  void run(Action const* next) {
    std::atomic<std::uint64_t>* const progress = progress_;
    for (;; ++next) {
      std::uint64_t const word = pack(*next);
      progress->store(word, std::memory_order_relaxed);
      Action const action = unpack_action(word);  // read once
      if (action.kind == ActionKind::forward) {
        run_forward(action.index);
      } else if (action.kind == ActionKind::backward) {
        run_backward(action.index);
      } else if (!run_other(action)) {
        return;
      }
    }
  }

  // Whether the row goes on.
  TANDEM_NOINLINE bool run_other(Action action) {
    switch (action.kind) {
      case ActionKind::reduce_gradient:
        device_.queue.wait(tickets_[static_cast<std::size_t>(action.index)]);
        break;
      case ActionKind::reduce_loss:
        device_.queue.wait(tickets_.back());
        break;
      case ActionKind::update:
        run_update();
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
            .share = static_cast<double>(own.size) / batch_.size,
            .seed = state_.seed,
            .step = state_.step,
            .training = training_,
            .accumulate = own.adds};
  }
  [[nodiscard]] Target const* targets(int m) const {
    return batch_.targets + microbatches_[m].first * LossType::targets(graph.output().out);
  }

  void run_forward(int m) {
    if (Microbatch const& own = microbatches_[m]; own.size > 0) {
      PassType const p = pass(own);
      memory_.set_input(batch_.x + p.first_sample * graph.node[0].out.elements());
      Passes::forward(*this, p);
      if (batch_.targets != nullptr) {
        int const global = microbatches_.global(m);
        loss_op_.forward(p, memory_.output(), targets(m), sums_.loss(global));
        metric_op_.count(p, memory_.output(), targets(m), sums_.metric(global));
      }
      if (batch_.outputs != nullptr) {
        constexpr std::int64_t outputs = graph.output().out.elements();
        Verbs<Backend>::copy(device_, memory_.output(), batch_.outputs + p.first_sample * outputs,
                             p.batch * outputs);
      }
    } else {
      int const global = microbatches_.global(m);
      *sums_.loss(global) = *sums_.metric(global) = 0.0;
    }
    if constexpr (batching.replicas > 1) {
      if (m == batching.microbatches - 1) {
        communicator_.all_reduce(sums_.all(), sums_.all(), Sum{}, device_.queue, {"losses"});
        tickets_.back() = device_.queue.last();
      }
    }
  }

  void run_backward(int m) {
    microbatch_ = m;
    if (Microbatch const& own = microbatches_[m]; own.size > 0) {
      if constexpr (graph.output().needs_gradient) {
        PassType const p = pass(own);
        loss_op_.gradient(p, memory_.output(), targets(m), 1.0 / batch_.size,
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

  // A binary counter over the leaves: leaf k joins as many waiting sums as k has trailing ones.
  void join_tree(T* sum, std::int64_t begin, std::int64_t count) {
    int const index = microbatch_ / leaf;
    int level = 0;
    for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
      Verbs<Backend>::add(device_, memory_.gradients(1 + level) + begin, sum, count);
    }
    if (index != batching.leaves - 1) {
      Verbs<Backend>::copy(device_, sum, memory_.gradients(1 + level) + begin, count);
    }
  }

  void run_update() {
    sums_.finish(result_);
    if (result_.non_finite < 0) {
      result_.gradient_norm = update_.template run<Backend>(device_, memory_, state_);
    }
  }

  Device device_;
  OpTable<Program, Backend> ops_;
  std::vector<OpNeeds> needs_;
  LossOp<LossType, Backend> loss_op_;
  MetricOp<MetricType, LossType, Backend> metric_op_;
  Memory memory_;
  Update<T> update_;
  Communicator communicator_;
  RankMicrobatches microbatches_;
  StepSums sums_;
  std::vector<std::uint64_t> tickets_;  // of each bucket's reduction, then of the losses'
  std::atomic<std::uint64_t> nowhere_{};
  std::atomic<std::uint64_t>* progress_ = &nowhere_;

  StepState state_{};
  StepBatch<T, Target> batch_{};
  StepResult result_{};
  bool training_ = false;
  int microbatch_ = 0;  // whose backward pass is at work
};

}  // namespace tandem
