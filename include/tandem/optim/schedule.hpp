// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Learning-rate schedules: functions of the step that give a factor of the learning rate.
///
/// In steps, not epochs, so that a schedule depends on nothing but the step and resumes exactly.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <numbers>
#include <variant>

#include <tandem/core/contract.hpp>

namespace tandem {

/// Always 1.
struct Constant {
  [[nodiscard]] static constexpr double at(std::int64_t) { return 1.0; }
};

/// factor^floor(step / every).
struct StepDecay {
  std::int64_t every = 1;
  double factor = 0.1;
  [[nodiscard]] double at(std::int64_t step) const {
    expects(every >= 1, "StepDecay: `every` must be 1 or more");
    return std::pow(factor, static_cast<double>(step / every));
  }
};

/// final + (1 - final) (1 + cos(π step / steps)) / 2, and `final` after `steps`.
/// Source: Loshchilov, Hutter, arXiv:1608.03983, without restarts.
struct Cosine {
  std::int64_t steps = 1;
  double final = 0.0;
  [[nodiscard]] double at(std::int64_t step) const {
    expects(steps >= 1, "Cosine: `steps` must be 1 or more");
    double const part = step < steps ? static_cast<double>(step) / static_cast<double>(steps) : 1.0;
    return final + (1.0 - final) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
  }
};

/// A schedule after a linear warm-up: (step + 1) / warm_up for the first `warm_up` steps, then the
/// schedule counted from there.
struct Schedule {
  std::variant<Constant, StepDecay, Cosine> after = Constant{};
  std::int64_t warm_up = 0;

  Schedule() = default;
  template <class S>
    requires(std::same_as<S, Constant> || std::same_as<S, StepDecay> || std::same_as<S, Cosine>)
  Schedule(S schedule, std::int64_t warm_up_steps = 0) : after{schedule}, warm_up{warm_up_steps} {}

  /// The factor for step @p step, counted from 0.
  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] double factor(std::int64_t step) const {
    if (step < warm_up) {
      return static_cast<double>(step + 1) / static_cast<double>(warm_up);
    }
    return std::visit([&](auto const& s) { return s.at(step - warm_up); }, after);
  }
};

}  // namespace tandem
