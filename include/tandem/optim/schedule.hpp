// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Learning-rate schedules: functions of the step that give a factor of the learning rate.
///
/// In steps, not epochs, so that a schedule depends on nothing but the step and resumes exactly.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <type_traits>
#include <utility>
#include <variant>

#include <tandem/core/config.hpp>
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

/// 1 for `begin` steps, then `factor`, and once more `factor` after each further `every` steps, at
/// most `most` times.
///
/// GNMT's, over S steps with a warm-up of 200: {.begin = S * 2 / 3 - 200, .every = S / 12}.
/// Source: NVIDIA, DeepLearningExamples, PyTorch/Translation/GNMT, lr_scheduler.py
struct Halvings {
  std::int64_t begin = 0;
  std::int64_t every = 1;
  int most = 4;
  double factor = 0.5;
  TANDEM_ONCE [[nodiscard]] double at(std::int64_t step) const;
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

/// final + (1 - final) (1 - step / steps)^power, and `final` after `steps`; power 1 is a straight
/// line.
struct Polynomial {
  std::int64_t steps = 1;
  double power = 1.0;
  double final = 0.0;
  TANDEM_ONCE [[nodiscard]] double at(std::int64_t step) const;
};

/// One cycle: from `start` to 1 in the first `rise` of the steps, then down to `final`, both along
/// half a cosine; `final` after `steps`. The learning rate is the largest. The momentum stays.
/// Source: Smith, Topin, arXiv:1708.07120, with the phases and values of PyTorch's OneCycleLR.
struct OneCycle {
  std::int64_t steps = 1;
  double rise = 0.3;
  double start = 1.0 / 25.0;
  double final = 1.0 / 250'000.0;
  TANDEM_ONCE [[nodiscard]] double at(std::int64_t step) const;

 private:
  static double between(double from, double to, double part) {
    return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
  }
};

/// Any function of the step, held by pointer and shared by copies.
class OwnSchedule {
 public:
  template <class F>
  explicit OwnSchedule(F function) : function_{std::make_shared<Held<F>>(std::move(function))} {}
  [[nodiscard]] double at(std::int64_t step) const { return function_->at(step); }

 private:
  struct Any {
    virtual ~Any() = default;
    [[nodiscard]] virtual double at(std::int64_t step) const = 0;
  };
  template <class F>
  struct Held final : Any {
    explicit Held(F&& f) : function{std::move(f)} {}
    [[nodiscard]] double at(std::int64_t step) const override {
      return static_cast<double>(function(step));
    }
    F function;
  };

  std::shared_ptr<Any const> function_;
};

/// A warm-up that multiplies by the same number from step to step, from `start` on: the factor of
/// step t is start^((steps - t) / steps), GNMT's, where a linear one has (t + 1) / steps.
struct ExponentialWarmUp {
  std::int64_t steps = 200;
  double start = 0.01;
};

/// The warm-up of a Schedule: a number of steps, linear, or an ExponentialWarmUp.
struct WarmUp {
  std::int64_t steps = 0;
  double start = 0.0;  ///< of an exponential one, above 0

  template <std::integral I>  // not of a float, which would be cut off
  constexpr WarmUp(I linear) : steps{static_cast<std::int64_t>(linear)} {}
  constexpr WarmUp(ExponentialWarmUp exponential)
      : steps{exponential.steps}, start{exponential.start} {
    expects(start > 0.0 && start <= 1.0,
            "ExponentialWarmUp: `start` must be above 0 and at most 1; a linear warm-up, which "
            "begins at 0, is a number of steps");
  }

  /// The factor of step @p step.
  /// @pre 0 <= step < steps
  [[nodiscard]] double at(std::int64_t step) const {
    auto const all = static_cast<double>(steps);
    return start > 0.0 ? std::pow(start, static_cast<double>(steps - step) / all)
                       : static_cast<double>(step + 1) / all;
  }
};

/// A schedule after a warm-up, linear if it is a number of steps: (step + 1) / warm_up for the
/// first `warm_up` steps, then the schedule counted from there: a Constant, StepDecay, Halvings,
/// Cosine, Polynomial or OneCycle, or any function of the step,
/// `[](std::int64_t step) { return 1.0 / (1 + step); }`. It is called on the thread that trains,
/// for each step once or more; training resumes exactly where it depends on nothing else.
struct Schedule {
  std::variant<Constant, StepDecay, Cosine, Polynomial, OneCycle, OwnSchedule, Halvings> after{};
  WarmUp warm_up = 0;

  Schedule() = default;
  template <class S>
    requires std::same_as<S, Constant> || std::same_as<S, StepDecay> || std::same_as<S, Cosine> ||
        std::same_as<S, Polynomial> || std::same_as<S, OneCycle> || std::same_as<S, Halvings>
        Schedule(S schedule, WarmUp warm = 0) : after{schedule}, warm_up{warm} {}
    template <class F>
      requires std::is_invocable_r_v<double, F const&, std::int64_t> Schedule(F function,
                                                                              WarmUp warm = 0)
          : after{OwnSchedule{std::move(function)}}, warm_up{warm} {}

      /// The factor for step @p step, counted from 0.
      TANDEM_ONCE [[nodiscard]] double factor(std::int64_t step) const;

      /// Steps after which the factor stays as it is; infinite where the schedule has no end.
      TANDEM_ONCE [[nodiscard]] double end() const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE double Schedule::factor(std::int64_t step) const {
  if (step < warm_up.steps) {
    return warm_up.at(step);
  }
  return std::visit([&](auto const& s) { return s.at(step - warm_up.steps); }, after);
}

TANDEM_ONCE double Schedule::end() const {
  return std::visit(
      [&](auto const& s) {
        double steps = std::numeric_limits<double>::infinity();
        if constexpr (requires { s.steps; }) {
          steps = static_cast<double>(warm_up.steps) + static_cast<double>(s.steps);
        }
        return steps;
      },
      after);
}

TANDEM_ONCE double Halvings::at(std::int64_t step) const {
  expects(begin >= 0, "Halvings: `begin` must be 0 steps or more");
  expects(every >= 1, "Halvings: `every` must be 1 or more");
  expects(most >= 0, "Halvings: `most` must be 0 or more");
  std::int64_t const times = step < begin ? 0 : (step - begin) / every + 1;
  return std::pow(factor, static_cast<double>(times < most ? times : most));
}

TANDEM_ONCE double Polynomial::at(std::int64_t step) const {
  expects(steps >= 1, "Polynomial: `steps` must be 1 or more");
  expects(power > 0.0, "Polynomial: `power` must be above 0");
  double const left =
      step < steps ? 1.0 - static_cast<double>(step) / static_cast<double>(steps) : 0.0;
  return final + (1.0 - final) * std::pow(left, power);
}

TANDEM_ONCE double OneCycle::at(std::int64_t step) const {
  expects(steps >= 1, "OneCycle: `steps` must be 1 or more");
  expects(rise >= 0.0 && rise <= 1.0, "OneCycle: `rise` must be from 0 to 1");
  double const top = rise * static_cast<double>(steps) - 1.0;  // the step that has the largest
  double const end = static_cast<double>(steps - 1);
  auto const now = static_cast<double>(step);
  if (now <= top) {
    return between(start, 1.0, top > 0.0 ? now / top : 1.0);
  }
  return now < end ? between(1.0, final, (now - top) / (end - top)) : final;
}

}  // namespace tandem

#endif
