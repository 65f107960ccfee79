// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Learning-rate schedules: functions of the step that give a factor of the learning rate.
///
/// In steps, not epochs, so that a schedule depends on nothing but the step and resumes exactly.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <numbers>
#include <type_traits>
#include <utility>
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

/// final + (1 - final) (1 - step / steps)^power, and `final` after `steps`; power 1 is a straight
/// line.
struct Polynomial {
  std::int64_t steps = 1;
  double power = 1.0;
  double final = 0.0;
  [[nodiscard]] double at(std::int64_t step) const {
    expects(steps >= 1, "Polynomial: `steps` must be 1 or more");
    expects(power > 0.0, "Polynomial: `power` must be above 0");
    double const left =
        step < steps ? 1.0 - static_cast<double>(step) / static_cast<double>(steps) : 0.0;
    return final + (1.0 - final) * std::pow(left, power);
  }
};

/// One cycle: from `start` to 1 in the first `rise` of the steps, then down to `final`, both along
/// half a cosine; `final` after `steps`. The learning rate is the largest. The momentum stays.
/// Source: Smith, Topin, arXiv:1708.07120, with the phases and values of PyTorch's OneCycleLR.
struct OneCycle {
  std::int64_t steps = 1;
  double rise = 0.3;
  double start = 1.0 / 25.0;
  double final = 1.0 / 250'000.0;
  [[nodiscard]] double at(std::int64_t step) const {
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

/// A schedule after a linear warm-up: (step + 1) / warm_up for the first `warm_up` steps, then the
/// schedule counted from there: a Constant, StepDecay, Cosine, Polynomial or OneCycle, or any
/// function of the step, `[](std::int64_t step) { return 1.0 / (1 + step); }`. It is called on the
/// thread that trains, for each step once or more; training resumes exactly where it depends on
/// nothing else.
struct Schedule {
  std::variant<Constant, StepDecay, Cosine, Polynomial, OneCycle, OwnSchedule> after = Constant{};
  std::int64_t warm_up = 0;

  Schedule() = default;
  template <class S>
    requires std::same_as<S, Constant> || std::same_as<S, StepDecay> || std::same_as<S, Cosine> ||
        std::same_as<S, Polynomial> || std::same_as<S, OneCycle>
        Schedule(S schedule, std::int64_t warm_up_steps = 0)
        : after{schedule}, warm_up{warm_up_steps} {}
    template <class F>
      requires std::is_invocable_r_v<double, F const&, std::int64_t> Schedule(
          F function, std::int64_t warm_up_steps = 0)
          : after{OwnSchedule{std::move(function)}}, warm_up{warm_up_steps} {}

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
