// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankPasses: what the passes and messages of a rank do; Rank runs them in the order of its row.

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/gradient_reduction.hpp>
#include <tandem/engine/links/no_links.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/links/rank_links.hpp>
#include <tandem/engine/memory/check/plays_rows.hpp>
#include <tandem/engine/memory/rank_memory.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/prepared_ops.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/stage.hpp>
#include <tandem/engine/rank/walk.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/key.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/sums.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

/// A rank's device with all memory, prepared ops and communicators, and what is done to one
/// microbatch.
/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
class RankPasses {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Target = typename LossType::Target;
  using Batch = StepBatch<P, Target>;
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Memory = RankMemory<Program, Backend>;
  using Table = typename Memory::Table;
  using FeedType = Feed<Program, Backend, Target>;
  using Whole = typename Program::Program;
  using Groups = RankGroups<Whole>;
  using Links = std::conditional_t<(Whole::devices > 1), RankLinks<Backend, Communicator>, NoLinks>;
  static constexpr auto const& graph = Program::graph;

  [[nodiscard]] Memory const& memory() const { return memory_; }
  /// What each node's op asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return ops_.needs(); }
  [[nodiscard]] RankPlan const& plan() const { return plan_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Communicator& communicator() { return gradients_.communicator(); }

 protected:
  template <class Connect>
  RankPasses(RankOptions const& options, Connect const& connect)
      : plan_{make_plan(options)},
        device_{options.device},
        ops_{options.largest_microbatch, options.device.threads, device_},
        memory_{device_, ops_, states_of(options.optimizer), plan_task(options),
                plan_.batching.leaves_of_copy(Whole::map.copies)},
        feed_{device_, feed_sizes(options)},
        gradients_{device_, connect(Groups::all), Groups::connect_stages(Program::stages, connect),
                   plan_, tracer_},
        links_{rank_links_task<Program>(),
               memory_.plan().waits,
               device_,
               Groups::connect_links(options.rank, connect),
               tracer_,
               options.largest_microbatch},
        microbatches_{plan_.batching, Whole::mesh.coordinate(options.rank, Axis::data),
                      Whole::map.copies},
        sums_{device_, plan_.batching.all_microbatches()} {
    device_.scratch = memory_.scratch();
    device_.scratch_bytes = ops_.scratch_bytes();
    TANDEM_ASSERT(plays_rows<Program>(memory_.check(needs()), plan_));
  }

  void begin(StepState const& state, Batch const& batch, bool training, auto const& wait) {
    key_ = {.samples = batch.size,
            .training = training,
            .targets = batch.targets != nullptr,
            .outputs = batch.outputs != nullptr,
            .exchanges = training && Whole::averaging.takes_place(state.step),
            .clips = state.clip_norm > 0.0};
    touched_ = training && FeedType::steps_in_flight > 1;  // what is queued is not looked at
    microbatches_.split(batch.size);
    feed_.begin(device_, state, batch, microbatches_, wait);
  }

  void vote(bool yes, auto const& wait) {  // a step without samples, its losses the votes
    begin({}, {}, false, wait);
    sums_.vote(device_, yes);
    gradients_.reduce_sums(device_, sums_.all(), {"votes"});
    gradients_.await_sums(device_);
    sums_.finish(device_, 1, feed_.result());
    feed_.end(device_);
  }

  void run_forward(Action action) {
    int const m = action.index;
    if (Microbatch const& own = microbatches_[m]; own.size > 0) {
      PassType const p = pass(own);
      links_.await(device_, ActionKind::forward, action.stage, key_.training);
      Table const& table = memory_.table(m);
      at_stage<Program>(action.stage, [&](auto s) {
        if constexpr (Program::stages.stage[s].has_input) {
          memory_.set_input(m, feed_.input(own));
        }
        Passes<s>::forward(*this, p, table);
        if constexpr (Program::stages.stage[s].has_result) {
          run_loss(m, own, p, table);
        }
      });
    } else {
      if (Program::has_result) {
        sums_.clear(device_, microbatches_.global(m));
      }
      at_stage<Program>(action.stage, [&](auto s) {
        if (Passes<s>::synchronizes && key_.training) {
          Passes<s>::forward(*this, pass(own), memory_.table(m));
        }
      });
    }
  }

  template <BackwardPart Which = BackwardPart::whole>
  void run_backward(Action action) {
    Microbatch const& own = microbatches_[action.index];
    at_stage<Program>(action.stage, [&](auto s) {
      constexpr LocalStage stage = Program::stages.stage[s];
      if (own.size > 0 || Passes<s>::synchronizes) {
        PassType const p = pass(own);
        Table const& table = memory_.table(action.index);
        if (Which != BackwardPart::weight_gradient && own.size > 0) {
          links_.await(device_, ActionKind::backward, action.stage, true);
          if constexpr (stage.has_result && stage.needs_gradient) {
            ops_.loss.gradient(p, table.output, feed_.targets(own), 1.0 / samples_of(own),
                               table.loss_gradient);
          }
        }
        if constexpr (stage.needs_gradient) {
          Passes<s>::template backward<Which>(*this, p, table, own.finishes);
        }
      } else if (Which != BackwardPart::input_gradient) {
        finish_empty_microbatch(own, stage.id);
      }
    });
  }

  void run_message(Action action, std::int64_t size) {
    run_message(action, size, memory_.table(action.index), key_.training);
  }
  void run_message(Action action, std::int64_t size, Table const& table, bool training) {
    if constexpr (Whole::devices > 1) {
      links_.run(device_, memory_, table, action, size, training);
    }
  }

  void pack() {
    for (LocalStage const& stage : Program::stages.stage) {
      pack(stage.id);
    }
  }
  void pack(int stage) {
    at_stage<Program>(stage, [this](auto s) { Passes<s>::pack(*this, memory_.table(0)); });
  }

  /// The passes of local stage @p S.
  template <int S>
  using Passes = Stage<RankPasses, Program, Backend, Program::stages.stage[S].first,
                       Program::stages.stage[S].last>;

  [[nodiscard]] FeedSizes feed_sizes(RankOptions const& options) const {
    std::int64_t const samples =
        std::int64_t{options.largest_microbatch} * plan_.batching.microbatches;
    return {.samples = Program::has_input || Program::has_result ? samples : 0,
            .targets_per_sample = LossType::targets(Whole::network.output().out)};
  }

  RankPlan plan_;
  Device device_;
  PreparedOps<Program, Backend, LossType, MetricType> ops_;
  Memory memory_;
  FeedType feed_;
  Tracer<Device> tracer_;
  GradientReduction<Program, Backend, Communicator> gradients_;
  Links links_;
  RankMicrobatches microbatches_;
  StepSums<Backend> sums_;
  StepKey key_{};         // of the step at work
  bool touched_ = false;  // it may have changed parameters

 private:
  template <class, class, class, int, int>
  friend struct Stage;

  static RankPlan make_plan(RankOptions const& options) {
    Batching const batching = batching_with<Whole>(options.microbatches);
    if constexpr (Whole::asynchrony.on()) {
      return make_asynchronous_plan<Program>(batching);
    }
    return make_rank_plan(rank_plan_task<Program>(),
                          options.rows != nullptr ? *options.rows : rows_of(Whole::table),
                          batching);
  }
  [[nodiscard]] PlanTask plan_task(RankOptions const& options) const {
    return {.batch = options.largest_microbatch,
            .element_bytes = sizeof(T),
            .microbatches = plan_.batching.microbatches,
            .stages = plan_.stages,
            .segment = Whole::checkpoint.every != 0 ? Program::segments.of : nullptr,
            .apart = Whole::batching.reproducible};
  }

  void bucket_ready(int bucket, int leaf) {
    if (leaf >= 0) {
      gradients_.leaf_ready(device_, memory_, bucket, leaf);
    }
  }

  void synchronize(std::span<double> sums, int stage) {
    gradients_.synchronize(device_, sums, stage);
  }

  // Puts the gradient of a received tensor where it is sent from.
  template <int I>
  void gather_outgoing(T const* const* forks, int count, std::int64_t elements) {
    if (Whole::batching.reproducible || count == 1) {
      for (int i = 0; i < count; ++i) {
        if (forks[i] != memory_.outgoing(I, i)) {
          Verbs<Backend>::copy(device_, forks[i], memory_.outgoing(I, i), elements);
        }
      }
    } else {
      Verbs<Backend>::sum(device_, forks, count, memory_.outgoing(I), elements);
    }
  }

  [[nodiscard]] int samples_of(Microbatch const& own) const {
    return Whole::averaging.keeps_two() ? microbatches_.total_of_copy(own) : key_.samples;
  }

  [[nodiscard]] PassType pass(Microbatch const& own) {
    return {.device = device_,
            .batch = own.size,
            .first_sample = own.first,
            .share = static_cast<double>(own.size) / samples_of(own),
            .state = feed_.state(),
            .training = key_.training,
            .accumulate = own.adds};
  }

  void run_loss(int m, Microbatch const& own, PassType const& p, Table const& table) {
    if (key_.targets) {
      int const global = microbatches_.global(m);
      ops_.loss.forward(p, table.output, feed_.targets(own), sums_.loss(global));
      ops_.metric.count(p, table.output, feed_.targets(own), sums_.metric(global));
    }
    if (key_.outputs) {
      feed_.store(device_, table.output, own);
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  void finish_empty_microbatch(Microbatch const& own, int stage) {
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      if (Program::layout.bucket_stage[bucket] == stage) {
        finish_empty_bucket(bucket, own.adds, own.finishes);
      }
    }
  }
  void finish_empty_bucket(int bucket, bool adds, int leaf) {
    if (leaf >= 0 && !adds) {
      std::int64_t const first = Program::layout.bucket_begin[bucket];
      Verbs<Backend>::zero(device_, memory_.gradients() + first,
                           Program::layout.bucket_begin[bucket + 1] - first);
    }
    bucket_ready(bucket, leaf);
  }
};

}  // namespace tandem
