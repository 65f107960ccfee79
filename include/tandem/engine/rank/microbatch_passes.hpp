// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MicrobatchPasses: what is done to one microbatch of a step at one stage of a rank.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/engine/rank/node_passes.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// The passes of a local stage, with their messages' memory, the input, and the loss.
/// @tparam Parts  RankParts
/// @tparam Slot   StepSlot
template <class Parts, class Slot>
class MicrobatchPasses {
 public:
  using Table = typename Parts::Table;
  using PassType = typename Parts::PassType;
  using Work = typename Slot::MicrobatchPass;

  /// Microbatch @p m of a step, in table @p t of the rank's memory, which is @p table.
  TANDEM_INLINE static void forward(Parts& parts, Slot& slot, LocalStage const& stage, int m,
                                    Table const& table, int t) {
    Work const& at = slot.at(m);
    if (stage.has_input) {
      parts.memory.set_input(t, slot.feed.input(at.own), stage.id);
    }
    if (slot.more) {
      forward_with_more(parts, slot, stage, at.own, at.pass, table, t);
    } else {
      parts.forward(at.pass, table, stage);
    }
    if (stage.has_result) {
      if (slot.key.targets) {
        parts.criterion->sum(at.at_output, table.output, slot.feed.targets(at.own),
                             parts.sums.loss(m));
      }
      if (slot.key.outputs) {
        slot.feed.store(parts.device, table.output, at.own);
      }
    }
  }

  /// Takes part in what the replicas do together, without samples.
  TANDEM_NOINLINE static void forward_empty(Parts& parts, Slot& slot, LocalStage const& stage,
                                            int m, Table const& table) {
    if (stage.has_result) {
      parts.sums.clear(parts.device, m);
    }
    if (slot.key.training && synchronizes(parts, stage)) {
      begin_pass(parts);
      parts.forward(slot.at(m).pass, table, stage);
    } else {
      go_through(parts, stage, PassDirection::forward);
    }
  }

  TANDEM_INLINE static void backward(Parts& parts, Slot& slot, LocalStage const& stage,
                                     BackwardPart part, int m, Table const& table) {
    Work const& at = slot.at(m);
    bool const empty = at.own.size == 0;
    if (empty && !synchronizes(parts, stage)) {
      backward_empty(parts, stage, part, at.own);
      return;
    }
    if (slot.more) {
      begin_backward(parts, stage, part, at.own, at.pass);
    }
    if (!stage.needs_gradient) {
      return;
    }
    if (part != BackwardPart::weight_gradient && !empty && stage.has_result) {
      parts.criterion->gradient(at.at_output, table.output, slot.feed.targets(at.own),
                                slot.loss_scale(at), table.loss_gradient);
    }
    if (part != BackwardPart::input_gradient) {
      parts.gradients.open(parts.device, parts.memory, stage.id);
    }
    begin_pass(parts);
    parts.backward(at.pass, table, stage, part, at.own.finishes);
  }

 private:
  // The passes of a rank that has more to do before them than to call ops.
  TANDEM_NOINLINE static void forward_with_more(Parts& parts, Slot& slot, LocalStage const& stage,
                                                Microbatch const& own, PassType const& pass,
                                                Table const& table, int t) {
    std::int64_t const sample = own.first - slot.microbatches.begin();
    parts.await_links(ActionKind::forward, stage.id, slot.key.training, own.chunk);
    if (stage.has_input && parts.tables.reads_two) {
      parts.memory.set_input(t, slot.feed.second_input(own), stage.id, 1);
    }
    bool const generates = pass.sequence.position >= 0 && !pass.sequence.is_chunk();
    if (generates) {
      parts.memory.carry(t, sample);
    }
    if (parts.states && !generates) {
      parts.states->point(
          stage.id, sample,
          pass.training, [&](int n) -> auto& { return parts.memory.operands(t, n); });
    }
    if (parts.chunks) {
      parts.chunks->point(
          stage.id, pass.sequence.position == 0, [&](int n, int before) -> auto& {
            return parts.memory.operands(t - before, n);
          });
    }
    begin_pass(parts);
    parts.forward(pass, table, stage);
    if (generates) {
      parts.memory.carry_nothing(t);
    }
  }
  TANDEM_NOINLINE static void begin_backward(Parts& parts, LocalStage const& stage,
                                             BackwardPart part, Microbatch const& own,
                                             PassType const& pass) {
    if (parts.chunks) {
      parts.chunks->go_back(stage.id, part == BackwardPart::weight_gradient, pass.sequence.position,
                            pass.sequence.position + pass.time, pass.sequence.rows_in_all);
    }
    if (part != BackwardPart::weight_gradient && own.size > 0) {
      parts.await_links(ActionKind::backward, stage.id, true, own.chunk);
    }
  }
  TANDEM_NOINLINE static void backward_empty(Parts& parts, LocalStage const& stage,
                                             BackwardPart part, Microbatch const& own) {
    if (part == BackwardPart::input_gradient) {
      go_through(parts, stage, PassDirection::backward);
    } else {
      finish_empty(parts, stage, own);
    }
  }

  // Whether a node joins statistics with those of other replicas: then its passes are called for a
  // microbatch without samples, too.
  [[nodiscard]] static bool synchronizes(Parts const& parts, LocalStage const& stage) {
    bool any = false;
    for (int n = stage.first; n < stage.last; ++n) {
      any = any || (parts.tables.several_replicas && parts.tables.graph.node[n].synchronizes);
    }
    return any;
  }

  // Where a rank gathers parameters, with and without samples.
  static void begin_pass(Parts& parts) {
    if (parts.shares) {
      parts.shares->begin_pass();
    }
  }
  static void go_through(Parts& parts, LocalStage const& stage, PassDirection direction) {
    begin_pass(parts);
    bool const forward = direction == PassDirection::forward;
    for (int i = 0; i < stage.last - stage.first; ++i) {
      use_parameters(parts, forward ? stage.first + i : stage.last - 1 - i, direction);
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  static void finish_empty(Parts& parts, LocalStage const& stage, Microbatch const& own) {
    int const* const segment = parts.tables.segments;
    parts.gradients.open(parts.device, parts.memory, stage.id);
    begin_pass(parts);
    for (int end = stage.last; end > stage.first;) {
      int begin = end - 1;
      while (begin > stage.first && segment[begin - 1] == segment[end - 1]) {
        --begin;
      }
      for (int n = begin; n < end && segment[begin] >= 0; ++n) {
        use_parameters(parts, n, PassDirection::forward);
      }
      for (int n = end - 1; n >= begin; --n) {
        use_parameters(parts, n, PassDirection::backward);
        if (int const bucket = parts.tables.layout.closes[n]; bucket >= 0) {
          parts.finish_empty_bucket(bucket, own.adds, own.finishes);
        }
      }
      end = begin;
    }
  }
  static void use_parameters(Parts& parts, int n, PassDirection direction) {
    if (parts.tables.sharded_parameters) {
      parts.use_parameters(n, direction);
    }
  }
};

}  // namespace tandem
