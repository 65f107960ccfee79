// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of the numbers that updates multiply by, before a parameter has met them: one that is not
/// finite makes every parameter so, and the loss says it a step too late.

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/optim/check_rate.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/schedule.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// @throws ContractError  a setting of the optimizer, the schedule or a group is not finite, or out
///                        of its range
TANDEM_ONCE TANDEM_COLD void check_rates(TrainerOptions const& options);

/// @throws ContractError  a number of loss scaling is out of its range
TANDEM_ONCE TANDEM_COLD void check_loss_scaling(LossScaling const& scaling);

/// The learning rate of step @p step, counted from 0.
/// @param set  in place of the optimizer's, where 0 or more
/// @throws ContractError  it is not finite, or less than 0, for some group; no step has begun
TANDEM_ONCE double learning_rate_at(TrainerOptions const& options, std::int64_t step,
                                    double set = -1.0);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_rates(TrainerOptions const& options) {
  detail::check_rate(learning_rate_of(options.optimizer), "learning_rate");
  std::visit(
      [](auto const& o) {
        detail::check_rate(double{o.weight_decay}, "weight_decay");
        if constexpr (std::is_same_v<std::decay_t<decltype(o)>, Sgd>) {
          detail::check_rate(double{o.momentum}, "momentum");
          expects(!o.nesterov || o.momentum > 0.0F,
                  "TrainerOptions: nesterov looks ahead along the momentum; give a momentum above "
                  "0, such as 0.9");
        } else if constexpr (!std::is_same_v<std::decay_t<decltype(o)>, OwnOptimizer>) {
          detail::check_beta(double{o.beta1}, "beta1");
          detail::check_beta(double{o.beta2}, "beta2");
          detail::check_rate(double{o.epsilon}, "epsilon");
        }
      },
      options.optimizer);
  detail::check_rate(options.clip_norm, "clip_norm");
  detail::check_rate(options.clip_value, "clip_value");
  auto const* const own = std::get_if<OwnOptimizer>(&options.optimizer);
  for (ParameterGroup const& group : options.groups) {
    std::string const of = " of group '" + group.pattern + "'";
    detail::check_rate(double{group.learning_rate_scale}, "learning_rate_scale" + of);
    detail::check_rate(double{group.weight_decay.value_or(0.0F)}, "weight_decay" + of);
    if (group.weight_decay.has_value() && own != nullptr && !own->type->decays) {
      throw ContractError{"TrainerOptions: weight_decay" + of + " is given, but the optimizer " +
                          own->type->name + " has none; leave it out"};
    }
    detail::check_rate(group.clip_norm, "clip_norm" + of);
    detail::check_rate(group.clip_value, "clip_value" + of);
    detail::check_rate(double{group.gradient_scale}, "gradient_scale" + of);
    if (group.below_axes < 0) {
      throw ContractError{"TrainerOptions: below_axes" + of + " is " +
                          std::to_string(group.below_axes) +
                          "; give 0 (of any number of axes) or more"};
    }
  }
  detail::check_beta(options.average.decay, "average.decay");
  expects(options.schedule.warm_up.steps >= 0,
          "TrainerOptions: the warm-up of the schedule must be 0 steps or more");
  if (auto const* const decay = std::get_if<StepDecay>(&options.schedule.after)) {
    detail::check_rate(decay->factor, "StepDecay::factor");
  } else if (auto const* const cosine = std::get_if<Cosine>(&options.schedule.after)) {
    detail::check_rate(cosine->final, "Cosine::final");
  } else if (auto const* const polynomial = std::get_if<Polynomial>(&options.schedule.after)) {
    detail::check_rate(polynomial->final, "Polynomial::final");
  } else if (auto const* const cycle = std::get_if<OneCycle>(&options.schedule.after)) {
    detail::check_rate(cycle->start, "OneCycle::start");
    detail::check_rate(cycle->final, "OneCycle::final");
  } else if (auto const* const halvings = std::get_if<Halvings>(&options.schedule.after)) {
    detail::check_rate(halvings->factor, "Halvings::factor");
  }
  static_cast<void>(
      options.schedule.factor(options.schedule.warm_up.steps));  // it checks its own steps
}

TANDEM_ONCE void check_loss_scaling(LossScaling const& scaling) {
  expects(scaling.initial == 0.0 ||
              (scaling.initial >= double{least_loss_scale} && scaling.initial <= 0x1p127),
          "LossScaling: initial must be a number from 2^-14 to 2^127, such as 65536, or 0 for off");
  expects(scaling.growth >= 1.0 && scaling.growth <= 0x1p16,
          "LossScaling: growth must be 1 or more, such as 2");
  expects(scaling.backoff > 0.0 && scaling.backoff < 1.0,
          "LossScaling: backoff must be between 0 and 1, such as 0.5");
  expects(scaling.every >= 1, "LossScaling: every must be 1 step or more, such as 2000");
}

TANDEM_ONCE double learning_rate_at(TrainerOptions const& options, std::int64_t step, double set) {
  double const factor = options.schedule.factor(step);
  double const rate = (set >= 0.0 ? set : learning_rate_of(options.optimizer)) * factor;
  bool good = detail::is_rate(rate);
  for (ParameterGroup const& group : options.groups) {
    good = good && detail::is_rate(rate * double{group.learning_rate_scale});
  }
  if (!good) {
    throw ContractError{"step " + std::to_string(step) + ": the learning rate is " +
                        detail::shown(rate) + ", of the schedule's factor " +
                        detail::shown(factor) +
                        ", and for some parameters no finite number of 0 or more; nothing has "
                        "changed: give another schedule, or a smaller learning_rate_scale"};
  }
  return rate;
}

}  // namespace tandem

#endif
