// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Updates: what a rank's step does with whole gradients: of one model, or of two that are trained
/// at once and kept together.

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/model_exchange.hpp>
#include <tandem/engine/memory/undo_copy.hpp>
#include <tandem/engine/rank/microbatch_passes.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/engine/step/average.hpp>
#include <tandem/engine/step/key.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/update.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// A step whose update stands before its sums are there.
struct AheadStep {
  StepState state{};
  StepKey key{};
  std::int64_t number = 0;  ///< in its stream
  int first_bad = 0;        ///< of the rank's microbatches the first whose loss is not finite; or
                            ///< their number
};

namespace detail {

/// What both have: the optimizer over the device's flat arrays.
template <class Parts>
class DeviceUpdate {
 public:
  using Program = typename Parts::Program;
  using Whole = typename Parts::Whole;
  using Slot = StepSlot<Parts>;

  TANDEM_COLD DeviceUpdate(Parts& parts, RankOptions const& options)
      : update_{parts.device,
                parts.memory,
                options.optimizer,
                parameter_runs(Program::graph, Program::layout.offset, options.groups,
                               Whole::map.parts(), options.clip_value, parts.slices.slice(),
                               Whole::layer_slices),
                alone || parts.mesh().leads(options.rank, Axis::data),
                clip_sets(Whole::network, options.groups, Whole::layer_slices),
                options.scaling,
                parts.shares.owned()} {}

  /// The square sums of this rank's gradients, as Update has them.
  std::span<double> sum_squares(Parts& parts) {
    if constexpr (Whole::sharded_gradients) {
      update_.clear_squares();
      parts.gradients.each_whole(parts.device, parts.memory, [&](ElementRange range, auto* sums) {
        update_.sum_squares_of(parts.device, range, sums);
      });
      return update_.join_squares(parts.device);
    } else {
      return update_.sum_squares(parts.device, parts.memory);
    }
  }
  /// Whether ranks have different gradients, so that what check_gradients() finds must join the
  /// step's sums.
  static constexpr bool joins_checks = Whole::devices * Whole::slices > 1 || Whole::sharded_state;

  /// Whether a step looks for gradients that are not finite. One with a norm knows them by that;
  /// and two models that update each stage as it ends do not wait for the gradients of others.
  [[nodiscard]] bool checks(Parts const& parts, Slot const& slot) const {
    return has_check<decltype(update_)> && slot.key.training && !slot.key.clips &&
           !parts.plan.updates_early;
  }
  /// Whether those that this rank has are.
  /// @pre they have been summed
  bool check_gradients(Parts& parts) {
    if constexpr (has_check<decltype(update_)>) {
      parts.join_gradients();
      return update_.check_gradients(parts.device, parts.memory);
    } else {
      return true;
    }
  }
  /// Of the loss, in the device's memory; null where that is not scaled.
  [[nodiscard]] ScaledLoss const* scaled() const { return update_.scaled(); }
  void set_loss_scale(Parts& parts, LossScale const& scale) {
    update_.set_loss_scale(parts.device, scale);
  }
  /// See set_missed().
  void set_missed_steps(Parts& parts, std::span<std::int64_t const> missed) {
    update_.set_missed_steps(parts.device, missed, Whole::layer_slices);
  }
  /// Where the device says what may change, an UpdateFlag.
  [[nodiscard]] int const* stopped() const { return update_.stopped(); }
  /// After a loss that was not finite: later steps update again.
  void forgive(Parts& parts) { update_.forgive(parts.device); }
  /// After parameters were written: they are as products read them.
  void refresh(Parts& parts) {
    parts.shares.forget();
    update_.refresh(parts.device);
    if constexpr (Whole::sharded_parameters) {
      parts.memory.round_frozen(parts.device);
    }
    pack_stages(parts);
  }
  [[nodiscard]] std::int64_t table_bytes() const { return update_.bytes(); }

 protected:
  /// Whether no other rank adds to its square sums: they are not made before.
  static constexpr bool alone = Whole::devices * Whole::slices == 1;

  template <class U>
  static constexpr bool has_check = requires(U& update, Parts& parts) {
    update.check_gradients(parts.device, parts.memory);
  };

  void finish(Parts& parts, Slot& slot) {
    if (!joins_checks && checks(parts, slot)) {
      check_gradients(parts);
    }
    if (alone && slot.key.clips) {
      sum_squares(parts);
    }
    update_.finish(parts.device, parts.memory, slot.feed.state(), parts.sums, slot.key,
                   slot.feed.result());
  }

  Update<typename Parts::Backend> update_;
};

}  // namespace detail

/// One model: all stages of a device are updated at once, behind the step's last gradient.
/// @tparam Parts  RankParts
template <class Parts>
class Updates : public detail::DeviceUpdate<Parts> {
  using Base = detail::DeviceUpdate<Parts>;
  using Base::update_;
  using typename Base::Program;
  static_assert(!Base::Whole::post_validated || !Parts::Memory::mixed,
                "rounded parameters would have to be taken back with the others");

 public:
  using typename Base::Slot;

  template <class Connect>
  Updates(Parts& parts, RankOptions const& options, Connect const& /*connect*/)
      : Base{parts, options},
        undo_{parts.device, Program::layout.trained, states_of(options.optimizer)},
        average_{Program::graph, Program::layout.offset, options.groups, options.average,
                 states_of(options.optimizer)} {
    if constexpr (Base::Whole::sharded_state) {
      average_.keep_to(parts.shares.owned());
    }
  }

  /// Before the row of a training step, and behind it.
  void begin(Parts& parts, Slot const& slot) {
    if (Slot::weighs_targets && slot.scaled != nullptr) {
      update_.scale_rows(parts.device, slot.feed.state());
    }
  }
  void end(Parts& /*parts*/) {}

  /// An update of the row.
  void run(Parts& parts, Slot& slot, int /*stage*/) {
    parts.links.await_all(parts.device);
    parts.shares.arrive(parts.device);  // before a pass without samples has read them
    this->finish(parts, slot);
    slot.touched = true;
    update_.apply(parts.device, parts.memory, slot.feed.state());
    average_.update(parts.device, parts.memory, slot.feed.state(), update_.stopped());
    parts.shares.gather(parts.device, parts.memory);
    if constexpr (Base::Whole::sharded_state) {
      update_.refresh(parts.device);  // of the parameters that other ranks have updated
    }
    pack_stages(parts);
  }
  /// The same where the step's sums are still on their way, as if they said that all is well.
  void run_ahead(Parts& parts, Slot& slot) requires(Base::Whole::post_validated) {
    parts.links.await_all(parts.device);
    undo_.keep(parts.device, parts.memory);
    update_.assume(slot.key);
    update_.apply(parts.device, parts.memory, slot.feed.state());
    pack_stages(parts);
  }
  /// With the sums of such a step, before its gradients are written again: its update is as it
  /// should be from now on; whether it was.
  bool confirm(Parts& parts, AheadStep const& ahead,
               StepResult& result) requires(Base::Whole::post_validated) {
    bool const right =
        update_.confirm(parts.device, parts.memory, &ahead.state, parts.sums, ahead.key, &result);
    if (!right) {
      undo_.give_back(parts.device, parts.memory);
      update_.apply(parts.device, parts.memory, &ahead.state);
      pack_stages(parts);
    }
    average_.update(parts.device, parts.memory, &ahead.state, update_.stopped());
    return right;
  }
  /// Whether a step like the last one could have gone ahead.
  [[nodiscard]] bool plain() const { return update_.plain(); }
  /// An exchange of the row, which has none.
  void exchange(Parts& /*parts*/, Slot& /*slot*/, int /*stage*/) {}

  /// For an evaluation, the weights are their averages, where there are any; and themselves again.
  void stand_in(Parts& parts, WhichModel which) {
    if (which != WhichModel::average || !average_.any()) {
      return;
    }
    parts.shares.keep(parts.device, parts.memory);
    average_.stand_in(parts.device, parts.memory);
    parts.shares.gather(parts.device, parts.memory);
    this->refresh(parts);
  }
  void restore(Parts& parts) {
    if (average_.restore(parts.device, parts.memory)) {
      parts.shares.give_back(parts.device, parts.memory);
      this->refresh(parts);
    }
  }
  [[nodiscard]] static constexpr std::int64_t exchange_bytes() { return 0; }
  [[nodiscard]] std::int64_t undo_bytes() const { return undo_.bytes(); }

 private:
  std::conditional_t<Base::Whole::post_validated, UndoCopy<typename Parts::Backend>, NoUndoCopy>
      undo_;
  StepAverage<typename Parts::Backend> average_;
};

/// Two models, each updated stage by stage on its own gradient, and averaged as the rule says.
template <class Parts>
  requires(Parts::Whole::averaging.keeps_two())
class Updates<Parts> : public detail::DeviceUpdate<Parts> {
  using Base = detail::DeviceUpdate<Parts>;
  using Base::update_;
  using typename Base::Program;
  using typename Base::Whole;
  static constexpr Averaging rule = Whole::averaging;

 public:
  using typename Base::Slot;

  template <class Connect>
  Updates(Parts& parts, RankOptions const& options, Connect const& connect)
      : Base{parts, options}, exchange_{parts.device, parts.memory, parts.groups(),
                                        options.rank, connect,      states_of(options.optimizer),
                                        parts.tracer} {}

  void begin(Parts& parts, Slot& slot) {
    finished_ = false;
    if (slot.key.exchanges && rule.overlapped) {
      slot.touched = true;
      exchange_.begin_all(parts.device);
    }
  }
  void end(Parts& parts) { parts.links.await_all(parts.device); }

  /// Of one stage; where its model has no samples it stays.
  void run(Parts& parts, Slot& slot, int stage) {
    finish_once(parts, slot);
    int const first =
        StageMapView{Whole::map}.first_microbatch(stage, parts.plan.batching.passes());
    if (slot.microbatches.total_of_copy(slot.microbatches[first]) > 0) {
      update_.apply(parts.device, parts.memory, slot.feed.state(), stage);
    }
    if (slot.key.exchanges && !rule.overlapped) {
      exchange_.begin(parts.device, local_stage(Program::stages, stage));
    } else {
      pack_stage(parts, stage);
    }
  }

  /// Takes the average of one stage.
  void exchange(Parts& parts, Slot& slot, int stage) {
    finish_once(parts, slot);
    if (slot.key.exchanges) {
      exchange_.await(parts.device, local_stage(Program::stages, stage), update_.stopped());
      if (!rule.overlapped) {
        update_.refresh(parts.device);
        pack_stage(parts, stage);
      }
    }
  }

  /// For an evaluation, all stages get the weights of one model or their average; and their own
  /// back.
  void stand_in(Parts& parts, WhichModel which) {
    exchange_.stand_in(parts.device, which);
    this->refresh(parts);
  }
  void restore(Parts& parts) {
    exchange_.restore(parts.device);
    this->refresh(parts);
  }
  [[nodiscard]] std::int64_t exchange_bytes() const { return exchange_.bytes(); }
  [[nodiscard]] static constexpr std::int64_t undo_bytes() { return 0; }

 private:
  void finish_once(Parts& parts, Slot& slot) {
    slot.touched = true;
    if (!std::exchange(finished_, true)) {
      this->finish(parts, slot);
    }
  }

  ModelExchange<Program, typename Parts::Backend, typename Parts::Communicator> exchange_;
  bool finished_ = false;  // the step's result
};

}  // namespace tandem
