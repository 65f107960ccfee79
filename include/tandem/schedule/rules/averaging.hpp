// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How two models that are trained at once are kept together: averaging rules as types, and
/// Averaging, the value that they are lowered to.
///
/// x and y are the two models' weights, g_x and g_y the mean gradients over their halves of the
/// batch. docs/cross_model.md compares the rules.

#include <concepts>
#include <cstdint>

namespace tandem {

/// What is averaged.
enum class Averaged : std::uint8_t { gradients, weights, weights_and_state };

/// Which of two models, where a strategy trains two; where TrainerOptions::average is on, `average`
/// is the averages of the weights and anything else the weights of the last step.
enum class WhichModel : std::uint8_t { average, first, second };

/// A rule, lowered.
struct Averaging {
  Averaged what = Averaged::gradients;
  int period = 1;  ///< in steps
  bool overlapped = false;

  /// Whether the two models have updates, and so weights, of their own.
  [[nodiscard]] constexpr bool keeps_two() const { return what != Averaged::gradients; }
  /// Whether they are the same, weights and optimizer state, at the end of every step.
  [[nodiscard]] constexpr bool ends_equal() const {
    return what == Averaged::gradients ||
           (what == Averaged::weights_and_state && period == 1 && !overlapped);
  }
  /// Whether they may differ between steps, so that what goes to the other one has memory of its
  /// own.
  [[nodiscard]] constexpr bool has_buffer() const {
    return keeps_two() && (period > 1 || overlapped);
  }
  /// Whether an average is taken in step @p step: at its end, or if overlapped at its beginning.
  [[nodiscard]] constexpr bool takes_place(std::int64_t step) const {
    return keeps_two() && (step + (overlapped ? 0 : 1)) % period == 0;
  }

  friend constexpr bool operator==(Averaging const&, Averaging const&) = default;
};

namespace detail {

template <int Period>
struct PeriodIsSound {
  static constexpr bool value = true;
  static_assert(Period >= 1,
                "AverageWeights<Period>, AverageWeightsAndState<Period>: give a positive number of "
                "steps");
};

}  // namespace detail

/// Both models take the gradient of the whole batch, every step: synchronous training.
struct AverageGradients {
  static constexpr Averaging averaging{};
};

/// Each model takes its own gradient, with an optimizer state of its own; every Period steps both
/// take (x + y) / 2, running statistics included. (Local SGD with two workers.)
///
/// With Period 1 and any SGD, momentum included, the weights are those of synchronous training on
/// the whole batch, since the update is linear: the mean of the two momenta is its momentum. With
/// Adam, or another Period, they are not.
template <int Period = 1>
struct AverageWeights {
  static constexpr Averaging averaging{.what = Averaged::weights, .period = Period};
  static_assert(detail::PeriodIsSound<Period>::value);
};

/// The same of every optimizer state, too: with SGD and Period 1 synchronous training, momentum
/// included.
template <int Period = 1>
struct AverageWeightsAndState {
  static constexpr Averaging averaging{.what = Averaged::weights_and_state, .period = Period};
  static_assert(detail::PeriodIsSound<Period>::value);
};

/// A rule.
template <class R>
concept AveragingRule = requires {
  { R::averaging } -> std::convertible_to<Averaging>;
};

namespace detail {

template <class Rule>
struct OverlappedIsSound {
  static constexpr bool value = true;
  static_assert(AveragingRule<Rule>,
                "Overlapped<Rule>: Rule is AverageWeights<...> or AverageWeightsAndState<...>");
};
template <AveragingRule Rule>
struct OverlappedIsSound<Rule> {
  static constexpr bool value = true;
  static_assert(Rule::averaging.keeps_two() && !Rule::averaging.overlapped,
                "Overlapped<Rule>: Rule is AverageWeights<...> or AverageWeightsAndState<...>");
};

template <class Rule>
constexpr Averaging overlapped() {
  Averaging averaging{};
  if constexpr (AveragingRule<Rule>) {
    averaging = Rule::averaging;
    averaging.overlapped = true;
  }
  return averaging;
}

}  // namespace detail

/// The average of step t is taken at step t + 1, and exchanged while that computes:
/// x <- update((x + y) / 2, g_x(x)). Hides the exchange; the gradient is of weights that were not
/// averaged yet. Source: Wang et al. 2020, Overlap Local-SGD, without its anchor.
template <class Rule>
struct Overlapped {
  static constexpr Averaging averaging = detail::overlapped<Rule>();
  static_assert(detail::OverlappedIsSound<Rule>::value);
};

}  // namespace tandem
