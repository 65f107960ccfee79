// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plateau: whether a figure has stopped to improve; for early stopping, and for learning rates
/// that fall when it does.

#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

struct PlateauOptions {
  std::int64_t patience = 3;  ///< figures in a row that may be no better than the best before them
  double least = 0.0;         ///< by how much one must be better to count as better
  bool falls = true;          ///< better is less, as of a loss; false: better is more
};

/// What a Plateau has counted. A trainer's checkpoints keep it.
struct PlateauState {
  /// The best figure, negated where more is better; the largest double before there is one.
  double best = std::numeric_limits<double>::max();
  double waited = 0.0;  ///< figures since the best
  double step = -1.0;   ///< of the trainer, at the last figure; -1: there was none
};
static_assert(sizeof(PlateauState) == 3 * sizeof(double), "a row of a checkpoint's tensor");

/// Early stopping, once an epoch, in a run that may be resumed:
///
///   trainer.resume();
///   Plateau plateau = trainer.plateau({.patience = 3});
///   for (auto epoch : trainer.epochs(100)) {
///     if (plateau.stalled()) {
///       break;
///     }
///     trainer.train(data.train(), epoch);
///     plateau(trainer.evaluate(data.test()).loss);
///     if (plateau.improved()) {
///       trainer.save("best.safetensors");
///     }
///   }
///
/// The trainer and its checkpoints keep what is counted, so that a resumed run decides what one
/// that was never interrupted does. Copies count together.
class Plateau {
 public:
  /// Trainer::plateau() makes one of the trainer's own.
  /// @param state  @p state and @p step, the trainer's step, must live as long as this
  /// @throws ContractError  patience is negative, or `least` negative or not finite
  Plateau(PlateauState& state, std::int64_t const& step, PlateauOptions const& options = {})
      : options_{options}, state_{&state}, step_{&step} {
    expects(options.patience >= 0 && options.least >= 0.0 && is_finite(options.least),
            "Plateau: patience must be 0 or more, and `least` finite and 0 or more");
  }

  /// Whether @p figure and more than `patience` before it were no better than the best; the next
  /// figure is then counted anew. A figure that is not a number is no better. A second figure of
  /// the same step is left out.
  bool operator()(double figure) {
    PlateauState& state = *state_;
    improved_ = false;
    auto const step = static_cast<double>(*step_);
    if (state.step == step) {
      return false;
    }
    state.step = step;
    double const own = options_.falls ? figure : -figure;
    improved_ = is_finite(figure) && own < state.best - options_.least;
    state.waited = improved_ ? 0.0 : stalled() ? 1.0 : state.waited + 1.0;
    state.best = improved_ ? own : state.best;
    return stalled();
  }

  /// What the last figure's call gave, also where that was before the run was resumed.
  [[nodiscard]] bool stalled() const {
    return state_->waited > static_cast<double>(options_.patience);
  }
  /// Whether the last figure was the best; the moment to save() one.
  [[nodiscard]] bool improved() const { return improved_; }
  /// The best so far; infinite before the first.
  TANDEM_ONCE [[nodiscard]] double best() const;

 private:
  PlateauOptions options_;
  PlateauState* state_;
  std::int64_t const* step_;
  bool improved_ = false;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE double Plateau::best() const {
  double const best = state_->best < std::numeric_limits<double>::max()
                          ? state_->best
                          : std::numeric_limits<double>::infinity();
  return options_.falls ? best : -best;
}

}  // namespace tandem

#endif
