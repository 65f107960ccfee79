// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Updates: what a rank's step does with whole gradients: of one model, or of two that are trained
/// at once and kept together. UndoCopy: what they change, as it was before.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/model_exchange.hpp>
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
/// @tparam Parts  RankCore
template <class Parts>
class DeviceUpdate {
 public:
  using Backend = typename Parts::Backend;

  TANDEM_COLD DeviceUpdate(Parts& parts, RankOptions const& options)
      : tables_{parts.tables},
        update_{parts.device,
                parts.memory,
                options.optimizer,
                parameter_runs(tables_.graph, tables_.layout.offset, options.groups,
                               tables_.map.parts(), options.clip_value, parts.slices.slice(),
                               tables_.layer_slices),
                alone() || parts.mesh().leads(options.rank, Axis::data),
                clip_sets(tables_.network, options.groups, tables_.layer_slices),
                options.scaling,
                parts.shares.owned()} {}

  /// The square sums of this rank's gradients, as Update has them.
  std::span<double> sum_squares(Parts& parts) {
    if constexpr (Parts::way.gradients.in_slots) {
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
  [[nodiscard]] bool joins_checks() const { return !alone() || tables_.sharded_state; }

  /// Whether a step looks for gradients that are not finite. One with a norm knows them by that;
  /// and two models that update each stage as it ends do not wait for the gradients of others.
  [[nodiscard]] bool checks(Parts const& parts, SlotState const& slot) const {
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
    update_.set_missed_steps(parts.device, missed, tables_.layer_slices);
  }
  /// Where the device says what may change, an UpdateFlag.
  [[nodiscard]] int const* stopped() const { return update_.stopped(); }
  /// After a loss that was not finite: later steps update again.
  void forgive(Parts& parts) { update_.forgive(parts.device); }
  /// After parameters were written: they are as products read them.
  void refresh(Parts& parts) {
    parts.shares.forget();
    update_.refresh(parts.device);
    if (tables_.sharded_parameters) {
      parts.memory.round_frozen(parts.device);
    }
    parts.pack();
  }
  [[nodiscard]] std::int64_t table_bytes() const { return update_.bytes(); }

 protected:
  /// Whether no other rank adds to its square sums: they are not made before.
  [[nodiscard]] bool alone() const { return tables_.devices * tables_.slices == 1; }

  template <class U>
  static constexpr bool has_check = requires(U& update, Parts& parts) {
    update.check_gradients(parts.device, parts.memory);
  };

  void finish(Parts& parts, SlotState& slot) {
    if (!joins_checks() && checks(parts, slot)) {
      check_gradients(parts);
    }
    if (alone() && slot.key.clips) {
      sum_squares(parts);
    }
    update_.finish(parts.device, parts.memory, slot.state, parts.sums, slot.key, slot.result);
  }

  DeviceTables const& tables_;
  Update<Backend> update_;
};

}  // namespace detail

/// One model: all stages of a device are updated at once, behind the step's last gradient.
/// @tparam Parts  RankCore
template <class Parts>
class Updates : public detail::DeviceUpdate<Parts> {
  using Base = detail::DeviceUpdate<Parts>;
  using Base::tables_;
  using Base::update_;

 public:
  TANDEM_COLD Updates(Parts& parts, RankOptions const& options,
                      typename Parts::Ends const& /*ends*/, bool goes_back = false)
      : Base{parts, options},
        undo_{parts.device, goes_back ? tables_.layout.trained : 0, states_of(options.optimizer)},
        average_{tables_.graph, tables_.layout.offset, options.groups, options.average,
                 states_of(options.optimizer)} {
    if (tables_.sharded_state) {
      average_.keep_to(parts.shares.owned());
    }
  }

  /// Before the row of a training step, and behind it.
  void begin(Parts& parts, SlotState const& slot) {
    if (slot.weighs_targets && slot.scaled != nullptr) {
      update_.scale_rows(parts.device, slot.state);
    }
  }
  void end(Parts& /*parts*/) {}

  /// An update of the row.
  void run(Parts& parts, SlotState& slot, int /*stage*/) {
    parts.links.await_all(parts.device);
    parts.shares.arrive(parts.device);  // before a pass without samples has read them
    this->finish(parts, slot);
    slot.touched = true;
    update_.apply(parts.device, parts.memory, slot.state);
    average_.update(parts.device, parts.memory, slot.state, update_.stopped());
    parts.shares.gather(parts.device, parts.memory);
    if (tables_.sharded_state) {
      update_.refresh(parts.device);  // of the parameters that other ranks have updated
    }
    parts.pack();
  }
  /// The same where the step's sums are still on their way, as if they said that all is well.
  void run_ahead(Parts& parts, SlotState& slot) {
    parts.links.await_all(parts.device);
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
  /// An exchange of the row, which has none.
  void exchange(Parts& /*parts*/, SlotState& /*slot*/, int /*stage*/) {}

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
  UndoCopy<typename Base::Backend> undo_;  // where updates are taken back
  StepAverage<typename Base::Backend> average_;
};

/// Two models, each updated stage by stage on its own gradient, and averaged as the rule says.
template <class Parts>
  requires(Parts::way.two_models)
class Updates<Parts> : public detail::DeviceUpdate<Parts> {
  using Base = detail::DeviceUpdate<Parts>;
  using Base::tables_;
  using Base::update_;

 public:
  TANDEM_COLD Updates(Parts& parts, RankOptions const& options, typename Parts::Ends const& ends,
                      bool /*goes_back*/ = false)
      : Base{parts, options},
        exchange_{parts.device, parts.memory, ends, states_of(options.optimizer), parts.tracer} {}

  void begin(Parts& parts, SlotState& slot) {
    finished_ = false;
    if (slot.key.exchanges && tables_.averaging.overlapped) {
      slot.touched = true;
      exchange_.begin_all(parts.device);
    }
  }
  void end(Parts& parts) { parts.links.await_all(parts.device); }

  /// Of one stage; where its model has no samples it stays.
  void run(Parts& parts, SlotState& slot, int stage) {
    finish_once(parts, slot);
    int const first = tables_.map.first_microbatch(stage, parts.plan.batching.passes());
    if (slot.microbatches.total_of_copy(slot.microbatches[first]) > 0) {
      update_.apply(parts.device, parts.memory, slot.state, stage);
    }
    if (slot.key.exchanges && !tables_.averaging.overlapped) {
      exchange_.begin(parts.device, local_stage(tables_.stages, stage));
    } else {
      parts.pack(stage);
    }
  }

  /// Takes the average of one stage.
  void exchange(Parts& parts, SlotState& slot, int stage) {
    finish_once(parts, slot);
    if (slot.key.exchanges) {
      exchange_.await(parts.device, local_stage(tables_.stages, stage), update_.stopped());
      if (!tables_.averaging.overlapped) {
        update_.refresh(parts.device);
        parts.pack(stage);
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
  void finish_once(Parts& parts, SlotState& slot) {
    slot.touched = true;
    if (!std::exchange(finished_, true)) {
      this->finish(parts, slot);
    }
  }

  using typename Base::Backend;
  using Sums = std::conditional_t<Parts::way.twins, TwinSums<Backend>,
                                  PairSums<Backend, typename Parts::Communicator>>;

  ModelExchange<Backend, Sums> exchange_;
  bool finished_ = false;  // the step's result
};

}  // namespace tandem
