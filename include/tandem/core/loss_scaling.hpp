// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LossScaling: by what a loss is multiplied so that its gradients are no zeros in fp16; LossScale:
/// where that stands, and how it moves from step to step.
///
/// The rule is that of torch.amp.GradScaler.
/// Source: Micikevicius et al., arXiv:1710.03740, section 3.2

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

/// TrainerOptions{.loss_scaling = LossScaling{.initial = 1024}}; LossScaling::off() for none.
struct LossScaling {
  double initial = 65536.0;   ///< 0: off
  double growth = 2.0;        ///< what the scale is multiplied by after `every` steps without skips
  double backoff = 0.5;       ///< and by each step whose gradient is not finite, which is skipped
  std::int64_t every = 2000;  ///< steps

  /// For training without.
  static constexpr LossScaling off() { return {.initial = 0.0}; }
  [[nodiscard]] constexpr bool on() const { return initial > 0.0; }
};

/// Below this no gradient is finite for being scaled up: training ends with a sentence.
inline constexpr float least_loss_scale = 0x1p-14F;

/// Between two steps.
struct LossScale {
  float scale = 0.0F;        ///< of the next step; 0: loss scaling is off
  std::int64_t good = 0;     ///< steps without a skip since the scale has changed
  std::int64_t skipped = 0;  ///< steps in all, which optimizers do not count

  constexpr bool operator==(LossScale const&) const = default;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool on() const { return scale > 0.0F; }
  /// Whether it has become too small to be of use.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool lost() const {
    return on() && scale < least_loss_scale;
  }

  /// What it is after a step whose gradient was finite, or was not.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr LossScale after(LossScaling const& rule,
                                                             bool finite) const {
    double const now = static_cast<double>(scale);
    if (!finite) {
      return {static_cast<float>(now * rule.backoff), 0, skipped + 1};
    }
    if (good + 1 < rule.every) {
      return {scale, good + 1, skipped};
    }
    auto const grown = static_cast<float>(now * rule.growth);
    return {is_finite(grown) ? grown : scale, 0, skipped};
  }
};

/// A step's LossScale in the memory of a device, and what is derived from it there.
struct ScaledLoss {
  LossScale now{};
  double row_scale[2] = {};  ///< StepState::row_scale, multiplied by the scale
};

/// What a device's flag says to the updates of a step.
enum UpdateFlag : int {
  update_all_parameters = 0,
  update_nothing = 1,     ///< a loss was not finite: this step and all behind it change nothing
  update_statistics = 2,  ///< a gradient was not finite: this step moves no weights
};

}  // namespace tandem
