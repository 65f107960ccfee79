// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Update: the optimizer over a rank's flat arrays, with clipping and running averages.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/sums.hpp>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Stands for every stage of a device.
inline constexpr int all_stages = -1;

/// A row scale of the step, multiplied by the scale of its loss.
struct ScaleRow {
  StepState const* state;
  ScaledLoss* scaled;

  TANDEM_HOST_DEVICE void operator()(std::int64_t copy) const {
    scaled->row_scale[copy] = state->row_scale[copy] * static_cast<double>(scaled->now.scale);
  }
};

/// Whole stages at a time, all or one by one. Every replica runs it on the same summed gradients
/// and gets the same parameters. The primary template is for devices that share the host's memory.
template <class Backend>
class Update {
 public:
  using Device = typename Backend::Device;
  using T = typename Backend::Master;
  using Memory = ParameterMemory<Backend>;

  /// @param parameters  of the device, a run each
  /// @param counted     whether the rank's part counts in the norm: of all ranks with the same
  ///                    parameters only one's does
  /// @param clips       of the whole network
  /// @param scaling     of the loss; where it is on, every step has sum_squares()
  /// @param owned       what apply() updates; none: all
  /// @pre where some are owned the optimizer is not by tensor
  TANDEM_COLD Update(Device& /*device*/, Memory const& /*memory*/, Optimizer optimizer,
                     std::vector<UpdateRun> parameters, bool counted, ClipSets clips,
                     LossScaling const& scaling = LossScaling::off(),
                     std::vector<OwnedRange> const& owned = {})
      : optimizer_{std::move(optimizer)},
        parameters_{std::move(parameters)},
        parts_{owned.empty() ? parameters_ : runs_within(parameters_, owned)},
        runs_{parts_},
        counted_{counted},
        clips_{std::move(clips)},
        squares_(clips_.set.size()),
        scales_(clips_.largest.size(), 1.0),
        scaling_{scaling} {
    scaled_.now.scale = static_cast<float>(scaling.initial);
    merge_parts();
  }

  /// The square sums of this rank's gradients, each at its parameter's place, zeros elsewhere: to
  /// be summed over the ranks before run(), if there are several with different parameters.
  TANDEM_NOINLINE std::span<double> sum_squares(Device& device, Memory const& memory) {
    clear_squares();
    for (UpdateRun const& r : parameters_) {
      if (counts(r)) {
        squares_[static_cast<std::size_t>(r.origin)] = square_sum(device, memory, r);
      }
    }
    return squares_;
  }

  /// The same where the gradients come a bucket at a time: all 0, and then those of the parameters
  /// in @p range, whose gradients begin at @p gradients.
  void clear_squares() { std::fill(squares_.begin(), squares_.end(), 0.0); }
  TANDEM_NOINLINE void sum_squares_of(Device& device, ElementRange range, T const* gradients) {
    for (UpdateRun const& r : parameters_) {
      if (counts(r) && range.has(r.begin)) {
        squares_[static_cast<std::size_t>(r.origin)] = Verbs<Backend>::sum_of_squares(
            device, gradients + (r.begin - range.begin), r.end - r.begin);
      }
    }
  }
  std::span<double> join_squares(Device& /*device*/) { return squares_; }

  /// Looks for gradients that are not finite, of all weights that are updated here.
  /// Cost: a pass over these gradients.
  TANDEM_NOINLINE void check_gradients(Device& device, Memory const& memory) requires
      requires(T const* x) {
    Verbs<Backend>::all_finite(device, x, std::int64_t{});
  }
  {
    bad_gradient_ = -1;
    for (UpdateRun const& r : runs_) {
      if (!is_finite_run(device, memory, r)) {
        bad_gradient_ = first_bad(device, memory);
        return;
      }
    }
  }
  /// After check_gradients(): @p sum becomes infinite if it has found one.
  void spoil(Device& /*device*/, double& sum) const {
    if (bad_gradient_ >= 0) {
      sum = std::numeric_limits<double>::infinity();
    }
  }

  /// Finishes *result, and moves the loss scale on; if a loss was not finite, apply() does nothing
  /// until the next call. If a gradient was not, it does nothing either, or where losses are scaled
  /// it moves the statistics alone.
  /// @pre sum_squares() was called where clipping or loss scaling is on, else check_gradients()
  TANDEM_NOINLINE void finish(Device& device, Memory const& /*memory*/, StepState const* state,
                              StepSums<Backend> const& sums, StepKey const& key,
                              StepResult* result) {
    sums.finish(device, state, key.samples, result);
    LossScale const scaled = scaled_.now;
    result->loss_scale = double{scaled.scale};
    result->scaling = scaled;
    double const unscale = unscale_of(scaled);
    ClipNorms norms;
    if (key.clips) {
      norms = clip_scales(clips_, squares_, state->clip_norm, scales_, unscale);
      bad_gradient_ = norms.bad;
    }
    if (!scaled.on() && bad_gradient_ >= 0 && result->non_finite < 0) {
      result->non_finite = sums.microbatches();  // none of this rank's losses
    }
    result->bad_gradient = bad_gradient_;
    stopped_ = result->non_finite < 0 ? update_all_parameters : update_nothing;
    plain_ = stopped_ == update_all_parameters;
    if (!key.clips || stopped_ != update_all_parameters) {
      return;
    }
    result->gradient_norm = state->clip_norm > 0.0 || scaled.on() ? norms.first : 0.0;
    if (scaled.on()) {
      LossScale const next = scaled.after(scaling_, norms.finite);
      result->scaling = scaled_.now = next;
      result->skipped = !norms.finite;
      result->gradient_norm = norms.finite ? norms.first : std::numeric_limits<double>::infinity();
      stopped_ = norms.finite  ? update_all_parameters
                 : next.lost() ? update_nothing
                               : update_statistics;
    }
    plain_ = stopped_ == update_all_parameters &&
             std::all_of(scales_.begin(), scales_.end(), [&](double s) { return s == unscale; });
  }

  /// In place of finish(), where the sums are still on their way: apply() updates as if all numbers
  /// were finite and no gradient clipped, until confirm().
  TANDEM_NOINLINE void assume(StepKey const& key) {
    assumed_from_ = scaled_.now;
    stopped_ = update_all_parameters;
    if (key.clips) {
      std::fill(scales_.begin(), scales_.end(), unscale_of(scaled_.now));
    }
    if (scaled_.now.on()) {
      scaled_.now = scaled_.now.after(scaling_, true);
    }
  }
  /// What finish() would have done; whether apply() has done the same.
  TANDEM_NOINLINE bool confirm(Device& device, Memory const& memory, StepState const* state,
                               StepSums<Backend> const& sums, StepKey const& key,
                               StepResult* result) {
    scaled_.now = assumed_from_;
    finish(device, memory, state, sums, key, result);
    return plain_;
  }
  /// Whether no gradient of the step that was finished last was clipped, and all was finite.
  [[nodiscard]] bool plain() const { return plain_; }

  /// Updates the trained parameters of one stage, or of all; no allocation.
  /// Cost: one pass over parameters, gradients and states.
  TANDEM_NOINLINE void apply(Device& device, Memory const& memory, StepState const* state,
                             int stage = all_stages) const {
    if (stopped_ == update_nothing) {
      return;
    }
    std::visit(
        [&](auto const& optimizer) {
          for (UpdateRun const& r : runs_) {
            if (stage == all_stages || stage == r.stage) {
              update_run(device, memory, *state, optimizer, r);
            }
          }
        },
        optimizer_);
  }

  /// Where the device says what may change, an UpdateFlag.
  [[nodiscard]] int const* stopped() const { return &stopped_; }

  /// In the device's memory; null where gradients are not scaled.
  [[nodiscard]] ScaledLoss const* scaled() const { return scaling_.on() ? &scaled_ : nullptr; }
  /// Multiplies the step's row scales, for criteria.
  void scale_rows(Device& /*device*/, StepState const* state) {
    for (int copy = 0; copy < 2; ++copy) {
      ScaleRow{state, &scaled_}(copy);
    }
  }
  void set_loss_scale(Device& /*device*/, LossScale const& scale) {
    if (scaling_.on()) {
      scaled_.now = scale;
    }
  }

  /// See set_missed(). Allocates nothing.
  TANDEM_COLD void set_missed_steps(Device& /*device*/, std::span<std::int64_t const> missed,
                                    int slices) {
    set_missed(parts_, missed, slices);
    merge_parts();
  }

  /// After parameters were written by the host.
  void refresh(Device& /*device*/) {}

  /// Bytes of the device's memory that this has.
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Lets steps update again after one whose loss was not finite.
  void forgive(Device& /*device*/) {}

 private:
  TANDEM_COLD void merge_parts() {
    if (is_by_tensor(optimizer_)) {
      runs_ = parts_;
    } else {
      merge_runs(parts_, runs_);
    }
  }

  // What gradients of a loss so scaled are multiplied by.
  static double unscale_of(LossScale const& scaled) {
    return scaled.on() ? 1.0 / double{scaled.scale} : 1.0;
  }

  [[nodiscard]] bool counts(UpdateRun const& r) const {
    return counted_ && r.counted && r.role == Role::weight && !r.frozen;
  }

  static bool is_finite_run(Device& device, Memory const& memory, UpdateRun const& r) {
    if (r.frozen || r.role != Role::weight) {
      return true;
    }
    if constexpr (HasRowVerbs<Backend>) {
      if (r.rows >= 0) {
        auto const& rows = memory.rows().sum(r.rows);
        return Verbs<Backend>::all_finite(device, rows.value, *rows.count * rows.width);
      }
    }
    T const* const gradients = memory.summed_gradients(r.begin, r.lag);
    return Verbs<Backend>::all_finite(device, gradients, r.end - r.begin);
  }
  // The first parameter of the network with a gradient that is not finite.
  TANDEM_COLD int first_bad(Device& device, Memory const& memory) const {
    int first = clips_.parameters();
    for (UpdateRun const& r : parts_) {
      first = r.origin < first && !is_finite_run(device, memory, r) ? r.origin : first;
    }
    return first;
  }

  double square_sum(Device& device, Memory const& memory, UpdateRun const& r) const {
    if constexpr (HasRowVerbs<Backend>) {
      if (r.rows >= 0) {
        return Verbs<Backend>::sum_of_squares(device, memory.rows().sum(r.rows), r.end - r.begin);
      }
    }
    return Verbs<Backend>::sum_of_squares(device, memory.gradients() + r.begin, r.end - r.begin);
  }

  template <class O>
  void update_run(Device& device, Memory const& memory, StepState const& state, O const& optimizer,
                  UpdateRun const& r) const {
    if (r.frozen) {
      return;
    }
    T* const parameters = memory.kept_parameters(r.begin, r.lag);
    T const* const gradients = r.rows < 0 ? memory.summed_gradients(r.begin, r.lag) : nullptr;
    if (r.role == Role::statistic) {
      Verbs<Backend>::each(device, r.end - r.begin,
                           AverageUpdate<T>{{parameters, gradients}, static_cast<T>(r.rate)});
      return;
    }
    if (stopped_ != update_all_parameters) {
      return;
    }
    UpdateSettings const settings{
        .learning_rate = state.learning_rate * double{r.learning_rate_scale},
        .weight_decay = double{r.weight_decay.value_or(optimizer.weight_decay)},
        .gradient_scale = scales_[static_cast<std::size_t>(r.clip_set)] * double{r.gradient_scale},
        .step = state.step + 1 - scaled_.now.skipped - r.missed,
        .clip_value = r.clip_value};
    auto const states = [&](int s) { return memory.state(s) + (r.begin - r.lag); };
    if constexpr (HasRowVerbs<Backend>) {
      if (r.rows >= 0) {
        update_weight_rows<Backend>(device, optimizer, parameters, memory.rows().sum(r.rows),
                                    states, settings);
        return;
      }
    }
    update_weights<Backend>(device, optimizer, parameters, gradients, states, r.end - r.begin,
                            settings);
  }

  Optimizer optimizer_;
  std::vector<UpdateRun> parameters_;
  std::vector<UpdateRun> parts_;  // of these, what is updated here
  std::vector<UpdateRun> runs_;   // neighbours among them that are updated alike
  bool counted_;
  int bad_gradient_ = -1;  // of ClipSets::set: see check_gradients()
  int stopped_ = update_all_parameters;
  bool plain_ = true;         // see plain()
  LossScale assumed_from_{};  // before assume()
  ClipSets clips_;
  std::vector<double> squares_;
  std::vector<double> scales_;  // of each set; all 1 where nothing is clipped
  LossScaling scaling_;
  ScaledLoss scaled_{};
};

}  // namespace tandem
