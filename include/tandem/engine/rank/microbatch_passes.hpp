// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MicrobatchPasses: what is done to one microbatch of a step at one stage of a rank.

#include <cstdint>

#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/engine/rank/walk.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// Whether one of nodes [first, last) of a device joins statistics with those of other replicas.
template <class Program>
constexpr bool synchronizes(int first, int last) {
  bool any = false;
  for (int n = first; n < last; ++n) {
    any = any || (Program::several_replicas && Program::graph.node[n].synchronizes);
  }
  return any;
}

/// The passes of local stage @p S, with their messages' memory, the input, and the loss.
/// @tparam Parts  RankParts
template <class Parts, int S>
struct MicrobatchPasses {
  using Program = typename Parts::Program;
  using Slot = StepSlot<Parts>;
  using Table = typename Parts::Table;
  static constexpr LocalStage stage = Program::stages.stage[S];
  static constexpr bool has_second =
      input_shape<typename Parts::Whole>(1).valid();  ///< of the network
  static constexpr bool in_chunks = Parts::Whole::batching.chunks > 1;
  /// Whether a sequence may come in pieces.
  static constexpr bool is_timed =
      input_shape<typename Parts::Whole>(0).timed || input_shape<typename Parts::Whole>(1).timed;
  /// Whether its passes are called for a microbatch without samples, too.
  static constexpr bool synchronizes = tandem::synchronizes<Program>(stage.first, stage.last);

  /// Microbatch @p m of a step, in table @p t of the rank's memory, which is @p table.
  TANDEM_INLINE static void forward(Parts& parts, Slot& slot, int m, Table const& table, int t) {
    Microbatch const& own = slot.microbatches[m];
    auto const pass = pass_of(parts, slot, own);
    parts.links.await(parts.device, ActionKind::forward, stage.id, slot.key.training, own.chunk);
    if constexpr (stage.has_input) {
      parts.memory.template set_input<Program>(t, slot.feed.input(own), stage.id);
      if constexpr (has_second) {
        parts.memory.template set_input<Program>(t, slot.feed.second_input(own), stage.id, 1);
      }
    }
    bool const generates = is_timed && pass.position >= 0 && !pass.is_chunk();
    if (generates) {
      parts.memory.carry(t, own.first - slot.microbatches.begin());
    }
    auto const operands = [&](int n) -> auto& { return parts.memory.operands(t, n); };
    if constexpr (Parts::Whole::stateful) {
      if (!generates) {
        parts.states.point(stage.id, own.first - slot.microbatches.begin(), pass.training,
                           operands);
      }
    }
    if constexpr (in_chunks) {
      parts.chunks.point(
          stage.id, pass.position == 0, [&](int n, int before) -> auto& {
            return parts.memory.operands(t - before, n);
          });
    }
    begin_pass(parts);
    parts.forward(pass, table, stage);
    if (generates) {
      parts.memory.carry_nothing(t);
    }
    if constexpr (stage.has_result) {
      if (slot.key.targets) {
        auto const* const targets = slot.feed.targets(own);
        auto const& of_output = output_pass(pass);
        parts.ops.loss.forward(of_output, table.output, targets, parts.sums.loss(m));
        parts.ops.metric.count(of_output, table.output, targets, parts.sums.metric(m));
      }
      if (slot.key.outputs) {
        slot.feed.store(parts.device, table.output, own);
      }
    }
  }

  /// Takes part in what the replicas do together, without samples.
  static void forward_empty(Parts& parts, Slot& slot, Microbatch const& own, Table const& table) {
    if (synchronizes && slot.key.training) {
      begin_pass(parts);
      parts.forward(slot.pass(parts, own), table, stage);
    } else {
      go_through(parts, PassDirection::forward);
    }
  }

  template <BackwardPart Which = BackwardPart::whole>
  static void backward(Parts& parts, Slot& slot, Microbatch const& own, Table const& table) {
    if (own.size == 0 && !synchronizes) {
      if (Which == BackwardPart::input_gradient) {
        go_through(parts, PassDirection::backward);
      } else {
        finish_empty(parts, own);
      }
      return;
    }
    auto const pass = pass_of(parts, slot, own);
    if constexpr (in_chunks) {
      parts.chunks.go_back(stage.id, Which == BackwardPart::weight_gradient, pass.position,
                           pass.position + pass.time, pass.rows_in_all);
    }
    if (Which != BackwardPart::weight_gradient && own.size > 0) {
      parts.links.await(parts.device, ActionKind::backward, stage.id, true, own.chunk);
      if constexpr (stage.has_result && stage.needs_gradient) {
        parts.ops.loss.gradient(output_pass(pass), table.output, slot.feed.targets(own),
                                slot.loss_scale(own), table.loss_gradient);
      }
    }
    if constexpr (stage.needs_gradient) {
      if (Which != BackwardPart::input_gradient) {
        parts.gradients.open(parts.device, parts.memory, stage.id);
      }
      begin_pass(parts);
      parts.backward(pass, table, stage, Which, own.finishes);
    }
  }

 private:
  // Where a rank gathers parameters, with and without samples.
  static void begin_pass(Parts& parts) {
    if constexpr (Program::sharded_parameters) {
      parts.shares.begin_pass();
    }
  }
  static void go_through(Parts& parts, PassDirection direction) {
    begin_pass(parts);
    bool const forward = direction == PassDirection::forward;
    for (int i = 0; i < stage.last - stage.first; ++i) {
      use_parameters(parts, forward ? stage.first + i : stage.last - 1 - i, direction);
    }
  }

  static auto pass_of(Parts& parts, Slot const& slot, Microbatch const& own) {
    if constexpr (stage.has_result) {
      return slot.criterion_pass(parts, own);
    } else {
      return slot.pass(parts, own);
    }
  }

  // As the network's output sees it: with the time of its own clock.
  template <class Pass>
  static decltype(auto) output_pass(Pass const& pass) {
    constexpr int clock = Program::Program::network.output().out.clock;
    if constexpr (clock != 0) {
      return pass.on_clock(clock);
    } else {
      return (pass);
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  static void finish_empty(Parts& parts, Microbatch const& own) {
    parts.gradients.open(parts.device, parts.memory, stage.id);
    begin_pass(parts);
    for (int end = stage.last; end > stage.first;) {
      int begin = end - 1;
      while (begin > stage.first &&
             Program::segments.of[begin - 1] == Program::segments.of[end - 1]) {
        --begin;
      }
      for (int n = begin; n < end && Program::segments.of[begin] >= 0; ++n) {
        use_parameters(parts, n, PassDirection::forward);
      }
      for (int n = end - 1; n >= begin; --n) {
        use_parameters(parts, n, PassDirection::backward);
        if (Program::layout.closes[n] >= 0) {
          parts.finish_empty_bucket(Program::layout.closes[n], own.adds, own.finishes);
        }
      }
      end = begin;
    }
  }
  static void use_parameters(Parts& parts, int n, PassDirection direction) {
    if constexpr (Program::sharded_parameters) {
      parts.use_parameters(n, direction);
    }
  }
};

}  // namespace tandem
