// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AveragingReference: two whole models on the halves of each batch, one after the other in one
/// thread, kept together by an averaging rule.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/exact_sum.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/options/options.hpp>

#include <stage_interface.hpp>

namespace tandem::test {

/// x and y are the two models, t the step. The rules:
///   weights, every p steps:  x' = update(x, g_x), likewise y; if p divides t + 1, both (x' + y') /
///   2 the same, overlapped:    if p divides t, a = (x + y) / 2, else a = x; x' = update(a, g_x)
/// and the same of the optimizer's states where they are averaged. g_x is the mean gradient at x.
template <class T>
class AveragingReference {
 public:
  /// @param stages      the whole network as one
  /// @param batching    of all replicas, each of which has half of its microbatches for x
  AveragingReference(StageList<T> stages, int parameters, TrainerOptions options,
                     Batching const& batching, Averaging const& rule)
      : model_{std::move(stages.front())},
        parameters_{parameters},
        options_{std::move(options)},
        batching_{batching},
        rule_{rule} {
    copies_.fill(model_->initial(options_.seed, states_of(options_.optimizer)));
  }

  /// Returns the mean loss.
  double step(std::vector<T> const& x, std::vector<std::int32_t> const& y) {
    std::array<double, exact_lanes> loss{};
    std::array<bool, 2> trained{};
    std::array<std::vector<T>, 2> gradients;
    for (int copy = 0; copy < 2; ++copy) {
      auto const c = static_cast<std::size_t>(copy);
      trained[c] = samples_of(copy, static_cast<int>(y.size())) > 0;
      gradients[c] = gradient_of(copy, x, y, loss.data());
    }
    if (rule_.overlapped && rule_.takes_place(step_)) {
      average();
    }
    for (std::size_t c = 0; c < 2; ++c) {
      if (trained[c]) {
        copies_[c] =
            updated(copies_[c], gradients[c], model_->runs(options_.groups), options_.optimizer,
                    learning_rate_of(options_.optimizer) * options_.schedule.factor(step_), step_);
      }
    }
    if (!rule_.overlapped && rule_.takes_place(step_)) {
      average();
    }
    ++step_;
    return exact_total(loss.data()) / static_cast<double>(y.size());
  }

  [[nodiscard]] std::vector<NamedParameter<T>> parameters(int copy) {
    return gather(parameters_, 1,
                  [&](int) { return model_->named(copies_[static_cast<std::size_t>(copy)]); });
  }

 private:
  [[nodiscard]] int half() const { return batching_.microbatches / 2; }
  // Of all replicas together.
  [[nodiscard]] int samples_of(int copy, int all) const {
    int sum = 0;
    for (int r = 0; r < batching_.replicas; ++r) {
      for (int m = 0; m < half(); ++m) {
        sum += microbatch_size(all, r * batching_.microbatches + copy * half() + m, batching_);
      }
    }
    return sum;
  }

  // Gradients of replicas are added in their order. @param loss  the lanes of a sum
  std::vector<T> gradient_of(int copy, std::vector<T> const& x, std::vector<std::int32_t> const& y,
                             double* loss) {
    std::vector<T> sum(copies_[0].gradient.size());
    Portion portion{.total = samples_of(copy, static_cast<int>(y.size())), .step = step_};
    int next = 0;  // microbatch of all
    for (int r = 0; r < batching_.replicas; ++r) {
      std::vector<T> own(sum.size());
      bool adds = false;
      for (int m = 0; m < batching_.microbatches; ++m, ++next) {
        portion.size = microbatch_size(static_cast<int>(y.size()), next, batching_);
        if (m / half() == copy && portion.size > 0) {
          add_exactly(add_gradient(copy, x, y, portion, own, adds), loss);
          adds = true;
        }
        portion.first += portion.size;
      }
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] = r == 0 ? own[i] : sum[i] + own[i];
      }
    }
    return sum;
  }

  double add_gradient(int copy, std::vector<T> const& x, std::vector<std::int32_t> const& y,
                      Portion const& portion, std::vector<T>& gradient, bool adds) {
    auto const inputs = static_cast<std::ptrdiff_t>(x.size() / y.size());
    auto const first = x.begin() + portion.first * inputs;
    std::vector<T> const own{first, first + portion.size * inputs};
    std::vector<T> const& weights = copies_[static_cast<std::size_t>(copy)].values;
    std::vector<T> dy;
    double const loss = model_->loss(model_->forward(weights, own, portion), y.data(), portion, dy);
    model_->backward(weights, weights, own, dy, portion, gradient, adds);
    return loss;
  }

  void average() {
    auto const both = [](std::vector<T>& a, std::vector<T>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = b[i] = (a[i] + b[i]) / T{2};
      }
    };
    both(copies_[0].values, copies_[1].values);
    for (std::size_t s = 0; s < copies_[0].states.size(); ++s) {
      if (rule_.what == Averaged::weights_and_state) {
        both(copies_[0].states[s], copies_[1].states[s]);
      }
    }
  }

  std::unique_ptr<StageInterface<T>> model_;
  int parameters_;
  TrainerOptions options_;
  Batching batching_;
  Averaging rule_;
  std::array<StageWeights<T>, 2> copies_{};
  std::int64_t step_ = 0;
};

}  // namespace tandem::test
