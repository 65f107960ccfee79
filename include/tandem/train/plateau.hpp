// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plateau: whether a figure has stopped to improve; for early stopping, and for learning rates
/// that fall when it does.

#include <cstdint>
#include <limits>

#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

struct PlateauOptions {
  std::int64_t patience = 3;  ///< figures in a row that may be no better than the best before them
  double least = 0.0;         ///< by how much one must be better to count as better
  bool falls = true;          ///< better is less, as of a loss; false: better is more
};

/// Early stopping, once an epoch:
///
///   Plateau plateau{{.patience = 3}};
///   for (auto epoch : epochs(100)) {
///     trainer.train(data.train(), epoch);
///     if (plateau(trainer.evaluate(data.test()).loss)) {
///       break;  // or: trainer.set_learning_rate(rate *= 0.1);
///     }
///   }
///
/// Not a part of checkpoints: training that resumes begins to count anew.
class Plateau {
 public:
  /// @throws ContractError  patience is negative, or `least` negative or not finite
  explicit Plateau(PlateauOptions const& options = {}) : options_{options} {
    expects(options.patience >= 0 && options.least >= 0.0 && is_finite(options.least),
            "Plateau: patience must be 0 or more, and `least` finite and 0 or more");
  }

  /// Whether @p figure and more than `patience` before it were no better than the best; counts
  /// anew where they were. A figure that is not a number is no better.
  bool operator()(double figure) {
    double const sign = options_.falls ? 1.0 : -1.0;
    improved_ = is_finite(figure) && sign * figure < best_ - options_.least;
    if (improved_) {
      best_ = sign * figure;
      waited_ = 0;
    } else if (++waited_ > options_.patience) {
      waited_ = 0;
      return true;
    }
    return false;
  }

  /// Whether the last figure was the best; the moment to save() one.
  [[nodiscard]] bool improved() const { return improved_; }
  /// The best so far; infinite before the first.
  [[nodiscard]] double best() const { return options_.falls ? best_ : -best_; }

 private:
  PlateauOptions options_;
  double best_ = std::numeric_limits<double>::infinity();  // less is better
  std::int64_t waited_ = 0;
  bool improved_ = false;
};

}  // namespace tandem
