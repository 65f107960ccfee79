// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StageWeights: one version of a stage's weights with the optimizer's states, in plain vectors.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::test {

/// A version is never changed: an update makes the next one. The arrays are as long and in the same
/// order as those of the device that has the stage.
template <class Element>
struct StageWeights {
  using T = Element;
  std::vector<T> values{};    ///< running statistics and frozen ones among them
  std::vector<T> gradient{};  ///< that the update to this version took
  std::vector<std::vector<T>> states{};

  /// As a RankMirror has them.
  [[nodiscard]] T* parameters() { return values.data(); }
  [[nodiscard]] T* gradients() { return gradient.data(); }
  [[nodiscard]] T* state(int s) { return states[static_cast<std::size_t>(s)].data(); }
};

/// The version after @p before: each weight by the optimizer's rule, each statistic by its own.
/// @param step  from 0, as Adam's correction counts
template <class T>
StageWeights<T> updated(StageWeights<T> before, std::vector<T> const& gradient,
                        std::vector<UpdateRun> const& runs, Optimizer const& optimizer,
                        double learning_rate, std::int64_t step) {
  using Precision = std::conditional_t<std::is_same_v<T, double>, Fp64, Fp32>;
  using Backend = BasicHost<Portable, Precision>;  // the engine's: other code may round otherwise
  host::Device device{1};
  before.gradient = gradient;
  for (UpdateRun const& run : runs) {
    if (run.frozen) {
      continue;
    }
    T* const parameters = before.parameters() + run.begin;
    T const* const gradients = before.gradients() + run.begin;
    if (run.role == Role::statistic) {
      Verbs<Backend>::each(device, run.end - run.begin,
                           AverageUpdate<T>{{parameters, gradients}, static_cast<T>(run.rate)});
      continue;
    }
    std::visit(
        [&](auto const& rule) {
          UpdateSettings const settings{
              .learning_rate = learning_rate * double{run.learning_rate_scale},
              .weight_decay = double{run.weight_decay.value_or(rule.weight_decay)},
              .step = step + 1};
          update_weights<Backend>(
              device, rule, parameters, gradients,
              [&](int s) { return before.state(s) + run.begin; }, run.end - run.begin, settings);
        },
        optimizer);
  }
  return before;
}

}  // namespace tandem::test
