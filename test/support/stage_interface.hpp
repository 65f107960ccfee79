// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StageInterface: one stage of a network as a function of its weights, for references that decide
/// themselves which weights a pass reads.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/optim/parameter_group.hpp>

#include <stage_weights.hpp>

namespace tandem::test {

/// The samples of a pass.
struct Portion {
  int first = 0;  ///< position in the batch
  int size = 0;
  int total = 0;                          ///< samples whose mean gradient is wanted
  std::int64_t step = 0;                  ///< whose random numbers are drawn
  int time = 0;                           ///< of sequences: rows of each sample
  std::int32_t const* lengths = nullptr;  ///< of each of these samples; null: all rows count
  std::int32_t const* targets = nullptr;  ///< of these samples, for a criterion
  double row_scale = 0.0;                 ///< likewise: the gradient of a row's loss
};

/// Nothing is remembered from one call to the next.
template <class T>
class StageInterface {
 public:
  using Labels = std::int32_t const*;

  StageInterface() = default;
  StageInterface(StageInterface const&) = delete;
  StageInterface& operator=(StageInterface const&) = delete;
  virtual ~StageInterface() = default;

  /// What the stage makes of @p x in training. Shapes: x (size, input), returns (size, output).
  virtual std::vector<T> forward(std::vector<T> const& weights, std::vector<T> const& x,
                                 Portion const& portion) = 0;

  /// The gradient of x, from @p dy, that of y; that of the parameters becomes @p gradient, or is
  /// added to it.
  /// @param activations  weights with which what backward reads is computed again
  /// @param weights      weights that backward reads itself
  virtual std::vector<T> backward(std::vector<T> const& activations, std::vector<T> const& weights,
                                  std::vector<T> const& x, std::vector<T> const& dy,
                                  Portion const& portion, std::vector<T>& gradient, bool adds) = 0;

  /// The sum of the losses of the last stage's @p y, and the gradient of their mean.
  virtual double loss(std::vector<T> const& y, Labels labels, Portion const& portion,
                      std::vector<T>& dy) = 0;

  /// The weights that a trainer with this seed begins with, and states of zeros.
  [[nodiscard]] virtual StageWeights<T> initial(std::uint64_t seed, int states) const = 0;
  /// Which of the weights are updated how.
  [[nodiscard]] virtual std::vector<UpdateRun> runs(
      std::vector<ParameterGroup> const& groups) const = 0;
  /// Views of @p weights.
  [[nodiscard]] virtual std::vector<NamedParameter<T>> named(StageWeights<T>& weights) const = 0;
};

/// The stages of a network, first to last.
template <class T>
using StageList = std::vector<std::unique_ptr<StageInterface<T>>>;

/// The network's @p all parameters in its order, from those of each stage.
/// @param of  of(stage): the stage's parameters
template <class F>
auto gather(int all, int stages, F const& of) {
  std::vector<typename std::invoke_result_t<F const&, int>::value_type> list(
      static_cast<std::size_t>(all));
  for (int stage = stages - 1; stage >= 0; --stage) {
    for (auto& own : of(stage)) {
      list[static_cast<std::size_t>(own.index)] = std::move(own);
    }
  }
  return list;
}

}  // namespace tandem::test
