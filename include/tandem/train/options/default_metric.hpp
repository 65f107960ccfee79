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
inline constexpr bool takes_softmax = CrossEntropy<LossType>;

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

/// The extents of an output behind its channels, where each number is to be a class's score.
template <int Height, int Width>
struct EndsInScores {
  static constexpr bool value = true;
  static_assert(Height * Width == 1,
                "Trainer<Net, ...>: SoftmaxCrossEntropy takes each number of the output for the "
                "score of a class, but this network ends in an image; end it with GlobalAvgPool "
                "and Linear<classes>, or with Flatten and Linear<classes>");
};
template <int Rows>
struct EndsInOneRow {
  static constexpr bool value = true;
  static_assert(Rows == 0,
                "Trainer<Net, ...>: SoftmaxCrossEntropy takes each number of the output for the "
                "score of a class, but this network ends in rows of a sequence; end it with "
                "LastRow or MeanOverTime and Linear<classes>, or, for a class a row, with "
                "Vocabulary<classes>");
};

template <int Weights, int Outputs>
struct EachClassHasAWeight {
  static constexpr bool value = true;
  static_assert(Weights == 0 || Weights == Outputs,
                "Trainer<Net, ...>: class_weights of the loss has another number of classes than "
                "the network has outputs; give one weight for each");
};

template <class LossType>
constexpr int weights_of() {
  if constexpr (CrossEntropy<LossType>) {
    return LossType::weights;
  } else {
    return 0;
  }
}

template <int K, int Outputs>
struct TopKIsOfMore {
  static constexpr bool value = true;
  static_assert(K <= Outputs,
                "TopK<K>: the network has fewer outputs than K, so that every label counts as "
                "right; give a smaller K");
};

/// The output where each of its numbers is to be a class's score; nothing where it is not, nor
/// where it is not valid, which is said elsewhere.
template <class Net, class LossType>
struct Scores {
  static constexpr Shape output = unchecked_graph<Net>.output().out;
  static constexpr bool any = takes_softmax<LossType> && output.valid();
  static constexpr bool image = any && output.rank == 3;
  static constexpr int height = image ? output[1] : 1;
  static constexpr int width = image ? output[2] : 1;
  static constexpr int rows = any && output.timed ? output[0] : 0;
  static constexpr int count = any ? static_cast<int>(output.elements()) : 0;
};

/// Asked for where a trainer is named, too. Bases, so that a sentence is the only error.
template <class Net, class LossType, class MetricType, class S = Scores<Net, LossType>>
struct OutputFits : EndsInScores<S::height, S::width>,
                    EndsInOneRow<S::rows>,
                    EachClassHasAWeight<S::count == 0 ? 0 : weights_of<LossType>(), S::count>,
                    TopKIsOfMore<S::any ? k_of<MetricType> : 0, S::count> {
  static constexpr bool value = true;
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

/// Accuracy where targets are labels, soft ones included; BinaryAccuracy where they are yes or no;
/// nothing otherwise.
template <class LossType>
using DefaultMetric = std::conditional_t<
    std::is_integral_v<typename LossType::Target> || CrossEntropy<LossType>, Accuracy,
    std::conditional_t<std::is_same_v<LossType, BinaryCrossEntropy>, BinaryAccuracy, NoMetric>>;

}  // namespace tandem
