// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rank: one device's program. Its passes and a step's data, which know the network; all else is
/// SteppedBody's.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/microbatch_passes.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/engine/rank/stepped_body.hpp>
#include <tandem/engine/rank/walk.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/runtime/concepts.hpp>

namespace tandem {

/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
  requires ComputeBackend<Backend> && HasVerbs<Backend> &&
      Carries<Communicator, Backend, typename Program::Program>
class Rank final
    : private detail::HeldParts<RankParts<Program, Backend, LossType, MetricType, Communicator>>,
      private detail::HeldSlot<RankParts<Program, Backend, LossType, MetricType, Communicator>>,
      public SteppedBody<
          typename RankParts<Program, Backend, LossType, MetricType, Communicator>::Core,
          StepBatchOf<Program, Backend, LossType>> {
  using Parts = RankParts<Program, Backend, LossType, MetricType, Communicator>;
  using Whole = typename Parts::Whole;
  using Slot = StepSlot<Parts>;
  using Base = SteppedBody<typename Parts::Core, StepBatchOf<Program, Backend, LossType>>;
  using detail::HeldParts<Parts>::held;
  using detail::HeldSlot<Parts>::slot_;

 public:
  using typename Base::Batch;
  using FeedType = typename Slot::FeedType;

  TANDEM_COLD Rank(RankOptions const& options, RankEnds<Communicator> const& ends)
      : detail::HeldParts<Parts>{{options,
                                  make_rank_plan<Program>(options.rows, options.microbatches,
                                                          options.replicas),
                                  ends}},
        detail::HeldSlot<Parts>{{held, options}},
        Base{held, slot_, options, ends, Slot::FeedType::steps_in_flight} {
    if constexpr (requires {
                    check_queues(std::type_identity<Whole>{}, options.rows, 1, held.device);
                  }) {
      check_queues(std::type_identity<Whole>{}, options.rows, held.plan.batching.replicas,
                   held.device);
    }
    held.memory.show(held.needs, held.plan);
    held.device.finish();
  }
  TANDEM_COLD ~Rank() override = default;

 private:
  template <class R>
  friend bool act(Action, R&);

  void walk_row(Action const* row) override { walk(row, *this->progress_, *this); }
  void begin_slot(StepState const& state, Batch const& batch, bool training) override {
    slot_.begin(held, state, batch, training, this->watch_.waiter());
  }
  void load() override { slot_.load(held); }
  void end() override { slot_.feed.end(held.device); }
  [[nodiscard]] int waiting() const override { return slot_.feed.waiting(); }
  StepResult next_result() override {
    return slot_.feed.collect(held.device, this->watch_.waiter());
  }
  [[nodiscard]] std::int64_t feed_bytes() const override { return slot_.feed.bytes(); }

  // Not a lambda, which cannot portably be inline.
  struct Forward {
    Parts& parts;
    Slot& slot;
    int m;
    typename Parts::Table const& table;

    template <int S>
    TANDEM_INLINE void operator()(std::integral_constant<int, S> /*stage*/) const {
      MicrobatchPasses<Parts, S>::forward(parts, slot, m, table, m);
    }
  };

  TANDEM_INLINE void run_forward(Action action) override {
    int const m = action.index;
    auto const& table = held.memory.table(m);
    if (Microbatch const& own = slot_.microbatches[m]; own.size > 0) {
      at_stage<Program>(action.stage, Forward{held, slot_, m, table});
    } else {
      if (Program::has_result) {
        held.sums.clear(held.device, m);
      }
      at_stage<Program>(action.stage, [&](auto s) {
        MicrobatchPasses<Parts, s>::forward_empty(held, slot_, own, table);
      });
    }
  }

  // The halves are compiled only where rows have them.
  TANDEM_INLINE void run_backward(Action action) override {
    if constexpr (Whole::splits_backward) {
      if (action.kind == ActionKind::input_gradient) {
        return backward<BackwardPart::input_gradient>(action);
      }
      if (action.kind == ActionKind::weight_gradient) {
        return backward<BackwardPart::weight_gradient>(action);
      }
    }
    backward<BackwardPart::whole>(action);
  }
  template <BackwardPart Which>
  TANDEM_INLINE void backward(Action action) {
    at_stage<Program>(action.stage, [&](auto s) {
      MicrobatchPasses<Parts, s>::template backward<Which>(
          held, slot_, slot_.microbatches[action.index], held.memory.table(action.index));
    });
  }
};

}  // namespace tandem
