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

  /// Both outlive this.
  MicrobatchPasses(Parts& parts, Slot& slot) : parts_{parts}, slot_{slot} {}

  /// Microbatch @p m of a step, in table @p t of the rank's memory, which is @p table.
  void forward(LocalStage const& stage, int m, Table const& table, int t) const {
    Microbatch const& own = slot_.microbatches[m];
    PassType const& pass = slot_.pass(m);
    parts_.await_links(ActionKind::forward, stage.id, slot_.key.training, own.chunk);
    if (stage.has_input) {
      parts_.memory.set_input(t, slot_.feed.input(own), stage.id);
      if (parts_.tables.reads_two) {
        parts_.memory.set_input(t, slot_.feed.second_input(own), stage.id, 1);
      }
    }
    bool const generates = pass.position >= 0 && !pass.is_chunk();
    if (generates) {
      parts_.memory.carry(t, own.first - slot_.microbatches.begin());
    }
    if (parts_.states && !generates) {
      parts_.states->point(
          stage.id, own.first - slot_.microbatches.begin(),
          pass.training, [&](int n) -> auto& { return parts_.memory.operands(t, n); });
    }
    if (parts_.chunks) {
      parts_.chunks->point(
          stage.id, pass.position == 0, [&](int n, int before) -> auto& {
            return parts_.memory.operands(t - before, n);
          });
    }
    begin_pass();
    parts_.forward(pass, table, stage);
    if (generates) {
      parts_.memory.carry_nothing(t);
    }
    if (stage.has_result) {
      if (slot_.key.targets) {
        at_output(pass, [&](PassType const& at) {
          parts_.criterion->sum(at, table.output, slot_.feed.targets(own), parts_.sums.loss(m));
        });
      }
      if (slot_.key.outputs) {
        slot_.feed.store(parts_.device, table.output, own);
      }
    }
  }

  /// Takes part in what the replicas do together, without samples.
  void forward_empty(LocalStage const& stage, int m, Table const& table) const {
    if (stage.has_result) {
      parts_.sums.clear(parts_.device, m);
    }
    if (slot_.key.training && synchronizes(stage)) {
      begin_pass();
      parts_.forward(slot_.pass(m), table, stage);
    } else {
      go_through(stage, PassDirection::forward);
    }
  }

  void backward(LocalStage const& stage, BackwardPart part, int m, Table const& table) const {
    Microbatch const& own = slot_.microbatches[m];
    if (own.size == 0 && !synchronizes(stage)) {
      if (part == BackwardPart::input_gradient) {
        go_through(stage, PassDirection::backward);
      } else {
        finish_empty(stage, own);
      }
      return;
    }
    PassType const& pass = slot_.pass(m);
    if (parts_.chunks) {
      parts_.chunks->go_back(stage.id, part == BackwardPart::weight_gradient, pass.position,
                             pass.position + pass.time, pass.rows_in_all);
    }
    if (part != BackwardPart::weight_gradient && own.size > 0) {
      parts_.await_links(ActionKind::backward, stage.id, true, own.chunk);
      if (stage.has_result && stage.needs_gradient) {
        at_output(pass, [&](PassType const& at) {
          parts_.criterion->gradient(at, table.output, slot_.feed.targets(own),
                                     slot_.loss_scale(own), table.loss_gradient);
        });
      }
    }
    if (stage.needs_gradient) {
      if (part != BackwardPart::input_gradient) {
        parts_.gradients.open(parts_.device, parts_.memory, stage.id);
      }
      begin_pass();
      parts_.backward(pass, table, stage, part, own.finishes);
    }
  }

 private:
  // Whether a node joins statistics with those of other replicas: then its passes are called for a
  // microbatch without samples, too.
  [[nodiscard]] bool synchronizes(LocalStage const& stage) const {
    bool any = false;
    for (int n = stage.first; n < stage.last; ++n) {
      any = any || (parts_.tables.several_replicas && parts_.tables.graph.node[n].synchronizes);
    }
    return any;
  }

  // Where a rank gathers parameters, with and without samples.
  void begin_pass() const {
    if (parts_.shares) {
      parts_.shares->begin_pass();
    }
  }
  void go_through(LocalStage const& stage, PassDirection direction) const {
    begin_pass();
    bool const forward = direction == PassDirection::forward;
    for (int i = 0; i < stage.last - stage.first; ++i) {
      use_parameters(forward ? stage.first + i : stage.last - 1 - i, direction);
    }
  }

  // f(pass) as the network's output sees it: with the time of its own clock.
  template <class F>
  void at_output(PassType const& pass, F const& f) const {
    if (int const clock = slot_.output.clock; clock != 0) {
      f(pass.on_clock(clock));
    } else {
      f(pass);
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  void finish_empty(LocalStage const& stage, Microbatch const& own) const {
    int const* const segment = parts_.tables.segments;
    parts_.gradients.open(parts_.device, parts_.memory, stage.id);
    begin_pass();
    for (int end = stage.last; end > stage.first;) {
      int begin = end - 1;
      while (begin > stage.first && segment[begin - 1] == segment[end - 1]) {
        --begin;
      }
      for (int n = begin; n < end && segment[begin] >= 0; ++n) {
        use_parameters(n, PassDirection::forward);
      }
      for (int n = end - 1; n >= begin; --n) {
        use_parameters(n, PassDirection::backward);
        if (int const bucket = parts_.tables.layout.closes[n]; bucket >= 0) {
          parts_.finish_empty_bucket(bucket, own.adds, own.finishes);
        }
      }
      end = begin;
    }
  }
  void use_parameters(int n, PassDirection direction) const {
    if (parts_.tables.sharded_parameters) {
      parts_.use_parameters(n, direction);
    }
  }

  Parts& parts_;
  Slot& slot_;
};

}  // namespace tandem
