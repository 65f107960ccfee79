// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AsynchronousReference: trains step by step, in one thread, by an equation of
/// asynchronous_equations.hpp; every version of every weight that ever was is kept.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/exact_sum.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/options/options.hpp>

#include <asynchronous_equations.hpp>
#include <stage_interface.hpp>

namespace tandem::test {

/// What a batch of sequences has besides.
struct SequenceRows {
  int time = 0;
  std::vector<std::int32_t> lengths{};  ///< empty: all rows count
  double divisor = 0.0;                 ///< of the sum of the rows' losses; 0: there are none
};

template <class T, class Equation>
class AsynchronousReference {
 public:
  /// @param parameters  of the network
  AsynchronousReference(StageList<T> stages, int parameters, TrainerOptions options,
                        int microbatches)
      : stages_{std::move(stages)},
        parameters_{parameters},
        options_{std::move(options)},
        batching_{.microbatches = microbatches} {
    for (auto const& stage : stages_) {
      versions_.push_back({stage->initial(options_.seed, states_of(options_.optimizer))});
    }
  }

  /// Step t: all of its passes, and the update t of each stage, in the order of the equation, not
  /// of time. Returns the mean loss.
  /// Tokens are numbers in @p x, too.
  double step(std::vector<T> const& x, std::vector<std::int32_t> const& y,
              SequenceRows const& rows = {}) {
    int const each = std::max(rows.time, 1);  // targets of a sample
    int const samples = static_cast<int>(y.size()) / each;
    auto const inputs = static_cast<std::ptrdiff_t>(x.size()) / samples;
    std::vector<std::vector<T>> gradients;
    for (auto const& own : versions_) {
      gradients.emplace_back(own.front().gradient.size());
    }
    double losses[exact_lanes] = {};
    Portion portion{.total = samples, .step = step_, .time = rows.time};
    portion.row_scale = rows.divisor > 0.0 ? 1.0 / rows.divisor : 0.0;
    for (int m = 0; m < batching_.microbatches; ++m) {
      portion.size = microbatch_size(samples, m, batching_);
      if (portion.size > 0) {
        auto const first = x.begin() + portion.first * inputs;
        portion.targets = y.data() + std::ptrdiff_t{portion.first} * each;
        portion.lengths = rows.lengths.empty() ? nullptr : rows.lengths.data() + portion.first;
        add_exactly(
            add_gradients({first, first + portion.size * inputs}, y.data(), portion, gradients),
            losses);
      }
      portion.first += portion.size;
    }
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      versions_[k].push_back(updated(versions_[k].back(), gradients[k],
                                     stages_[k]->runs(options_.groups), options_.optimizer,
                                     learning_rate(step_), step_));
    }
    ++step_;
    double const loss = exact_total(losses);
    return rows.time == 0 ? loss / samples : rows.divisor > 0.0 ? loss / rows.divisor : 0.0;
  }

  /// The pipeline has been emptied: the next steps read the weights of now where an equation says
  /// older ones.
  void drain() { oldest_ = step_; }

  [[nodiscard]] std::vector<NamedParameter<T>> parameters() {
    return gather(parameters_, stage_count(), [this](int k) {
      return stages_[static_cast<std::size_t>(k)]->named(
          versions_[static_cast<std::size_t>(k)].back());
    });
  }

 private:
  [[nodiscard]] int stage_count() const { return static_cast<int>(stages_.size()); }
  [[nodiscard]] double learning_rate(int step) const {
    return learning_rate_of(options_.optimizer) * options_.schedule.factor(step);
  }

  [[nodiscard]] StageWeights<T> const& version(int k, int updates) const {
    return versions_[static_cast<std::size_t>(k)]
                    [static_cast<std::size_t>(std::max(updates, oldest_))];
  }
  // As many updates on as there will be: none before the first behind a drain.
  [[nodiscard]] std::vector<T> predicted(int k, int updates, int ahead) const {
    StageWeights<T> const& from = version(k, updates);
    std::vector<T> values = from.values;
    int const distance = std::min(ahead, step_ - oldest_);
    if (distance > 0) {
      for (UpdateRun const& run : stages_[static_cast<std::size_t>(k)]->runs(options_.groups)) {
        auto const scale =
            static_cast<T>(learning_rate(step_) * double{run.learning_rate_scale} * distance);
        bool const moves = run.role == Role::weight && !run.frozen;
        for (auto i = static_cast<std::size_t>(run.begin);
             moves && i < static_cast<std::size_t>(run.end); ++i) {
          values[i] = values[i] - scale * from.states[0][i];
        }
      }
    }
    return values;
  }

  // Of one microbatch; returns the sum of its losses.
  double add_gradients(std::vector<T> x, std::int32_t const* labels, Portion const& portion,
                       std::vector<std::vector<T>>& gradients) {
    int const p = stage_count();
    std::vector<std::vector<T>> inputs;
    for (int k = 0; k < p; ++k) {
      Reads const reads = Equation::at(step_, k, p);
      inputs.push_back(x);
      x = stages_[static_cast<std::size_t>(k)]->forward(
          predicted(k, reads.forward, reads.predicted), x, portion);
    }
    std::vector<T> dy;
    double const loss = stages_.back()->loss(x, labels, portion, dy);
    for (int k = p - 1; k >= 0; --k) {
      auto const i = static_cast<std::size_t>(k);
      Reads const reads = Equation::at(step_, k, p);
      dy = stages_[i]->backward(predicted(k, reads.activations, reads.predicted),
                                version(k, reads.backward).values, inputs[i], dy, portion,
                                gradients[i], portion.first > 0);
    }
    return loss;
  }

  StageList<T> stages_;
  int parameters_;
  TrainerOptions options_;
  Batching batching_;
  std::vector<std::vector<StageWeights<T>>> versions_{};  // of each stage, all since the beginning
  int step_ = 0;
  int oldest_ = 0;  // version of when the pipeline was empty last
};

}  // namespace tandem::test
