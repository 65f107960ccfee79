// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Updates: what a rank's step does with whole gradients: of one model, or of two that are trained
/// at once and kept together. UndoCopy: what they change, as it was before.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/model_exchange.hpp>
#include <tandem/engine/links/no_part.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/engine/step/average.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/update.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Of a rank that has whole trained parameters and the states of all of them. Not the parameters as
/// products read them, where that is another form: make these anew behind give_back().
template <class Backend>
class UndoCopy {
 public:
  using Device = typename Backend::Device;
  using P = typename Backend::Master;
  using Memory = ParameterMemory<Backend>;

  /// @param trained  elements
  /// @param states   arrays of as many
  TANDEM_COLD UndoCopy(Device& device, std::int64_t trained, int states)
      : trained_{trained},
        states_{states},
        copy_{device, static_cast<std::size_t>(trained * (1 + states)) * sizeof(P)} {}

  /// Cost: a copy of all, 2 (1 + states) trained elements read and written.
  void keep(Device& device, Memory const& memory) {
    for (int i = 0; i <= states_; ++i) {
      Verbs<Backend>::copy(device, place(memory, i), copy(i), trained_);
    }
  }
  /// All is as it was at keep().
  void give_back(Device& device, Memory const& memory) const {
    for (int i = 0; i <= states_; ++i) {
      Verbs<Backend>::copy(device, copy(i), place(memory, i), trained_);
    }
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(copy_.bytes()); }

 private:
  static P* place(Memory const& memory, int i) {
    return i == 0 ? memory.parameters() : memory.state(i - 1);
  }
  [[nodiscard]] P* copy(int i) const { return copy_.template as<P>() + i * trained_; }

  std::int64_t trained_;
  int states_;
  typename Backend::Buffer copy_;
};

/// Whether an update can be made before it is known to be right.
template <class U>
concept Assumes = requires(U& update) {
  update.assume({});
};

/// A step whose update stands before its sums are there.
struct AheadStep {
  StepState state{};
  StepKey key{};
  std::int64_t number = 0;  ///< in its stream
  int first_bad = 0;        ///< of the rank's microbatches the first whose loss is not finite; or
                            ///< their number
};

/// The optimizer over a device's flat arrays. Of one model all stages of a device are updated at
/// once, behind the step's last gradient; of two that are trained at once each stage as it ends, on
/// its own gradient, and averaged as the rule says.
/// @tparam Parts  RankCore
template <class Parts>
class Updates {
 public:
  using Backend = typename Parts::Backend;
  using Exchange = std::conditional_t<Parts::way.two_models, ModelExchange<Backend>, NoPart>;

  /// @param goes_back  whether updates are taken back
  TANDEM_COLD Updates(Parts& parts, RankOptions const& options, typename Parts::Ends const& ends,
                      bool goes_back = false)
      : tables_{parts.tables},
        update_{parts.device,
                parts.memory,
                options.optimizer,
                parameter_runs(tables_.graph, tables_.layout.offset, options.groups,
                               tables_.map.parts(), options.clip_value, parts.slice(),
                               tables_.layer_slices),
                alone() || parts.mesh().leads(options.rank, Axis::data),
                clip_sets(tables_.network, options.groups, tables_.layer_slices),
                options.scaling,
                parts.shares ? parts.shares->owned() : std::vector<OwnedRange>{}},
        undo_{parts.device, goes_back ? tables_.layout.trained : 0, states_of(options.optimizer)},
        average_{tables_.graph, tables_.layout.offset, options.groups, options.average,
                 states_of(options.optimizer)},
        exchange_{make_exchange(parts, ends, states_of(options.optimizer))} {
    if (tables_.sharded_state) {
      average_.keep_to(parts.shares->owned());
    }
  }

  /// Before the row of a training step, and behind it.
  void begin(Parts& parts, SlotState& slot) {
    finished_ = false;
    if (!exchange_) {
      if (slot.weighs_targets && slot.scaled != nullptr) {
        update_.scale_rows(parts.device, slot.state);
      }
    } else if (slot.key.exchanges && tables_.averaging.overlapped) {
      slot.touched = true;
      exchange_->begin_all(parts.device);
    }
  }
  void end(Parts& parts) {
    if (exchange_) {
      parts.await_links();
    }
  }

  /// The square sums of this rank's gradients, as Update has them.
  std::span<double> sum_squares(Parts& parts) {
    if (tables_.sharded_gradients) {
      update_.clear_squares();
      parts.gradients.each_whole(parts.device, parts.memory, [&](ElementRange range, auto* sums) {
        update_.sum_squares_of(parts.device, range, sums);
      });
      return update_.join_squares(parts.device);
    }
    return update_.sum_squares(parts.device, parts.memory);
  }
  /// Whether ranks have different gradients, so that what check_gradients() finds must join the
  /// step's sums.
  [[nodiscard]] bool joins_checks() const { return !alone() || tables_.sharded_state; }

  /// Whether a step looks for gradients that are not finite. One with a norm knows them by that;
  /// and two models that update each stage as it ends do not wait for the gradients of others.
  [[nodiscard]] bool checks(Parts const& parts, SlotState const& slot) const {
    return has_check<decltype(update_)> && slot.key.training && !slot.key.clips &&
           !parts.plan.updates_early;
  }
  /// Looks for gradients that are not finite, among those that this rank has. If there is one, the
  /// first of @p sums, those of the losses, becomes infinite, so that all ranks know of it.
  /// @pre they have been summed
  void check_gradients(Parts& parts, std::span<double> sums) {
    if constexpr (has_check<decltype(update_)>) {
      parts.join_gradients();
      update_.check_gradients(parts.device, parts.memory);
      if (!sums.empty()) {
        update_.spoil(parts.device, sums.front());
      }
    }
  }
  /// Of the loss, in the device's memory; null where that is not scaled.
  [[nodiscard]] ScaledLoss const* scaled() const { return update_.scaled(); }
  void set_loss_scale(Parts& parts, LossScale const& scale) {
    update_.set_loss_scale(parts.device, scale);
  }
  /// See set_missed().
  void set_missed_steps(Parts& parts, std::span<std::int64_t const> missed) {
    update_.set_missed_steps(parts.device, missed, tables_.layer_slices);
  }
  /// Where the device says what may change, an UpdateFlag.
  [[nodiscard]] int const* stopped() const { return update_.stopped(); }
  /// After a loss that was not finite: later steps update again.
  void forgive(Parts& parts) { update_.forgive(parts.device); }
  /// After parameters were written: they are as products read them.
  void refresh(Parts& parts) {
    parts.forget_parameters();
    update_.refresh(parts.device);
    if (tables_.sharded_parameters) {
      parts.memory.round_frozen(parts.device);
    }
    parts.pack();
  }
  [[nodiscard]] std::int64_t table_bytes() const { return update_.bytes(); }

  /// An update of the row, of stage @p stage where there are two models.
  void run(Parts& parts, SlotState& slot, int stage) {
    if (exchange_) {
      run_stage(parts, slot, stage);
      return;
    }
    parts.await_links();
    parts.arrive();  // before a pass without samples has read them
    finish(parts, slot);
    slot.touched = true;
    update_.apply(parts.device, parts.memory, slot.state);
    average_.update(parts.device, parts.memory, slot.state, update_.stopped());
    parts.gather_parameters();
    if (tables_.sharded_state) {
      update_.refresh(parts.device);  // of the parameters that other ranks have updated
    }
    parts.pack();
  }
  /// The same where the step's sums are still on their way, as if they said that all is well.
  void run_ahead(Parts& parts, SlotState& slot) {
    parts.await_links();
    undo_.keep(parts.device, parts.memory);
    update_.assume(slot.key);
    update_.apply(parts.device, parts.memory, slot.state);
    parts.pack();
  }
  /// With the sums of such a step, before its gradients are written again: its update is as it
  /// should be from now on; whether it was.
  bool confirm(Parts& parts, AheadStep const& ahead, StepResult& result) {
    bool const right =
        update_.confirm(parts.device, parts.memory, &ahead.state, parts.sums, ahead.key, &result);
    if (!right) {
      undo_.give_back(parts.device, parts.memory);
      update_.apply(parts.device, parts.memory, &ahead.state);
      parts.pack();
    }
    average_.update(parts.device, parts.memory, &ahead.state, update_.stopped());
    return right;
  }
  /// Whether a step like the last one could have gone ahead.
  [[nodiscard]] bool plain() const { return update_.plain(); }

  /// Takes the average of one stage, where there are two models.
  void exchange(Parts& parts, SlotState& slot, int stage) {
    if (!exchange_) {
      return;
    }
    finish_once(parts, slot);
    if (slot.key.exchanges) {
      exchange_->await(parts.device, local_stage(tables_.stages, stage), update_.stopped());
      if (!tables_.averaging.overlapped) {
        update_.refresh(parts.device);
        parts.pack(stage);
      }
    }
  }

  /// For an evaluation: of two models, all stages get the weights of one or their average; of one,
  /// the weights are their averages, where there are any. And themselves again.
  void stand_in(Parts& parts, WhichModel which) {
    if (exchange_) {
      exchange_->stand_in(parts.device, which);
      refresh(parts);
    } else if (which == WhichModel::average && average_.any()) {
      if (parts.shares) {
        parts.shares->keep(parts.device, parts.memory);
      }
      average_.stand_in(parts.device, parts.memory);
      parts.gather_parameters();
      refresh(parts);
    }
  }
  void restore(Parts& parts) {
    if (exchange_) {
      exchange_->restore(parts.device);
      refresh(parts);
    } else if (average_.restore(parts.device, parts.memory)) {
      if (parts.shares) {
        parts.shares->give_back(parts.device, parts.memory);
      }
      refresh(parts);
    }
  }
  [[nodiscard]] std::int64_t exchange_bytes() const { return exchange_ ? exchange_->bytes() : 0; }
  [[nodiscard]] std::int64_t undo_bytes() const { return undo_.bytes(); }

 private:
  // Whether no other rank adds to its square sums: they are not made before.
  [[nodiscard]] bool alone() const { return tables_.devices * tables_.slices == 1; }

  template <class U>
  static constexpr bool has_check = requires(U& update, Parts& parts) {
    update.check_gradients(parts.device, parts.memory);
  };

  void finish(Parts& parts, SlotState& slot) {
    if (!joins_checks() && checks(parts, slot)) {
      check_gradients(parts, {});
    }
    if (alone() && slot.key.clips) {
      sum_squares(parts);
    }
    update_.finish(parts.device, parts.memory, slot.state, parts.sums, slot.key, slot.result);
  }

  // Where its model has no samples a stage stays.
  void run_stage(Parts& parts, SlotState& slot, int stage) {
    finish_once(parts, slot);
    int const first = tables_.map.first_microbatch(stage, parts.plan.batching.passes());
    if (slot.microbatches.total_of_copy(slot.microbatches[first]) > 0) {
      update_.apply(parts.device, parts.memory, slot.state, stage);
    }
    if (slot.key.exchanges && !tables_.averaging.overlapped) {
      exchange_->begin(parts.device, local_stage(tables_.stages, stage));
    } else {
      parts.pack(stage);
    }
  }
  void finish_once(Parts& parts, SlotState& slot) {
    slot.touched = true;
    if (!std::exchange(finished_, true)) {
      finish(parts, slot);
    }
  }

  TANDEM_COLD static RankPart<Exchange> make_exchange(Parts& parts,
                                                      typename Parts::Ends const& ends,
                                                      int states) {
    using Communicator = typename Parts::Communicator;
    if (!parts.tables.averaging.keeps_two()) {
      return nullptr;
    }
    if constexpr (Parts::way.two_models) {
      std::unique_ptr<ModelSums<Backend>> sums;
      if (parts.tables.has_twins) {
        sums = std::make_unique<TwinSums<Backend>>(parts.tables);
      } else if constexpr (AllReduces<Communicator, typename Backend::Master, Sum>) {
        sums = std::make_unique<PairSums<Backend, Communicator>>(parts.tables, parts.device, ends,
                                                                 parts.tracer);
      }
      return std::make_unique<Exchange>(parts.device, parts.memory, std::move(sums), states);
    }
    return nullptr;
  }

  DeviceTables const& tables_;
  Update<Backend> update_;
  UndoCopy<Backend> undo_;  // where updates are taken back
  StepAverage<Backend> average_;
  RankPart<Exchange> exchange_;  // of two models
  bool finished_ = false;        // of these, the step's result
};

}  // namespace tandem
