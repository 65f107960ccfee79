// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DefaultMetric: what a trainer counts unless it is told otherwise.

#include <type_traits>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/ops/host/user_layer.hpp>

namespace tandem {

/// Accuracy where targets are labels, nothing otherwise.
namespace detail {

template <class Net>
struct LossOfNetwork {
  using type = SoftmaxCrossEntropy<>;
};
template <class Net>
  requires(unchecked_graph<Net>.output().criterion)
struct LossOfNetwork<Net> {
  using type = typename Leaf<Net, unchecked_graph<Net>.output().leaf>::Divisor;
};

template <class LossType>
inline constexpr bool takes_softmax = false;
template <class Smoothing>
inline constexpr bool takes_softmax<SoftmaxCrossEntropy<Smoothing>> = true;

template <class Net>
constexpr bool ends_in_softmax() {
  if constexpr (unchecked_graph<Net>.output().leaf >= 0) {
    return std::is_same_v<Leaf<Net, unchecked_graph<Net>.output().leaf>, Softmax>;
  } else {
    return false;
  }
}

/// Asked for where a trainer is named, so that its sentence stands before what follows of it.
template <class Net, class LossType>
struct LossFits {
  static constexpr bool value = true;
  static_assert(unchecked_graph<Net>.output().criterion || !is_of_criterion<LossType>,
                "Trainer<Net, ..., Loss>: PerToken and PerSample are for networks that end with a "
                "layer that gives the loss, such as Vocabulary; take SoftmaxCrossEntropy<>");
  static_assert(
      !takes_softmax<LossType> || !ends_in_softmax<Net>(),
      "Trainer<Net, ...>: SoftmaxCrossEntropy takes the softmax itself, so Softmax at the "
      "network's end would do it twice; leave Softmax out");
  static_assert(!unchecked_graph<Net>.output().criterion || is_of_criterion<LossType>,
                "Trainer<Net, ..., Loss>: the network's last layer gives the loss itself; leave "
                "Loss out, or take PerToken or PerSample");
};

/// Whether a layer looks at rows that are not written yet, as an Attention that is not Causal.
template <class L>
inline constexpr bool looks_ahead = requires {
  requires !L::causal;
};
template <class... Layers>
constexpr bool looks_back_only(TypeList<Layers...> /*leaves*/) {
  return (!looks_ahead<Layers> && ...);
}

template <bool IsLanguageModel, bool LooksBackOnly>
struct Generates {
  static constexpr bool value = true;
  static_assert(IsLanguageModel,
                "generate(prompt): the network must read Tokens and end with a Vocabulary");
  static_assert(!IsLanguageModel || LooksBackOnly,
                "generate(prompt): an Attention that is not Causal looks at tokens that are not "
                "written yet; make it Causal");
};

}  // namespace detail

/// What the network's last layer says if it gives the loss itself, else SoftmaxCrossEntropy<>.
template <class Net>
using DefaultLoss = typename detail::LossOfNetwork<Net>::type;

template <class LossType>
using DefaultMetric =
    std::conditional_t<std::is_integral_v<typename LossType::Target>, Accuracy, NoMetric>;

}  // namespace tandem
