// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SoftmaxCrossEntropy and SoftCrossEntropy: the losses of classifiers, and their options.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// The targets of a global batch on the host, (samples, time); a label a sample has no time.
struct TargetRows {
  std::int32_t const* target = nullptr;
  int time = 0;
};

/// An option of SoftmaxCrossEntropy: samples with this label count for nothing.
template <int Label = -1>
struct IgnoreIndex {
  static constexpr int ignore_index = Label;
};

namespace detail {

template <class O>
concept SmoothsLabels = requires {
  { O::value } -> std::convertible_to<double>;
};
template <class O>
concept WeighsClasses = requires {
  { O::class_weights[0] } -> std::convertible_to<double>;
};
template <class O>
concept IgnoresLabel = requires {
  { O::ignore_index } -> std::convertible_to<int>;
};

template <bool AreOptions, int Smoothings, int Weights, int Ignored>
struct CrossEntropyOptionsFit {
  static constexpr bool value = true;
  static_assert(AreOptions,
                "SoftmaxCrossEntropy<Options...>: its options are Percent<10> or another type with "
                "static constexpr double value (label smoothing), IgnoreIndex<-1>, and a type with "
                "static constexpr double class_weights[]");
  static_assert(Smoothings <= 1 && Weights <= 1 && Ignored <= 1,
                "SoftmaxCrossEntropy<Options...>: give each option once");
};

template <class O>
constexpr bool weights_are_sound() {
  double most = 0.0;
  for (auto const weight : O::class_weights) {
    if (!(weight >= 0.0) || !(weight <= 1e30)) {
      return false;
    }
    most = most < weight ? weight : most;
  }
  return most > 0.0;
}
template <bool Sound>
struct ClassWeightsAreSound {
  static constexpr bool value = true;
  static_assert(Sound,
                "SoftmaxCrossEntropy<Options...>: class_weights must be finite numbers of 0 or "
                "more, one of them above 0");
};

template <bool Ignores>
struct SoftLabelsAreNoIndex {
  static constexpr bool value = true;
  static_assert(!Ignores,
                "SoftCrossEntropy<Options...>: soft labels are no index that could be ignored; "
                "leave IgnoreIndex out");
};

/// A number for each class.
template <int Count>
struct ClassTable {
  double of[static_cast<std::size_t>(Count > 0 ? Count : 1)] = {};
};

/// The values of a list of options, 0 where it has none of a kind.
template <class... Options>
struct CrossEntropyOptions {
  static_assert(CrossEntropyOptionsFit<
                ((SmoothsLabels<Options> || WeighsClasses<Options> || IgnoresLabel<Options>)&&...),
                (0 + ... + int{SmoothsLabels<Options>}), (0 + ... + int{WeighsClasses<Options>}),
                (0 + ... + int{IgnoresLabel<Options>})>::value);

  static constexpr double smoothing = [] {
    double all = 0.0;
    [[maybe_unused]] auto const add = [&]<class O>(O const* /*option*/) {
      if constexpr (SmoothsLabels<O>) {
        all += static_cast<double>(O::value);
      }
    };
    (add(static_cast<Options const*>(nullptr)), ...);
    return all;
  }();
  /// How many classes have a weight; 0: all have 1.
  static constexpr int weights = [] {
    int all = 0;
    [[maybe_unused]] auto const add = [&]<class O>(O const* /*option*/) {
      if constexpr (WeighsClasses<O>) {
        static_assert(ClassWeightsAreSound<weights_are_sound<O>()>::value);
        all += static_cast<int>(std::size(O::class_weights));
      }
    };
    (add(static_cast<Options const*>(nullptr)), ...);
    return all;
  }();
  static constexpr bool ignores = (false || ... || IgnoresLabel<Options>);
  /// Only where there is one.
  static constexpr int ignored = [] {
    int label = 0;
    [[maybe_unused]] auto const take = [&]<class O>(O const* /*option*/) {
      if constexpr (IgnoresLabel<O>) {
        label = O::ignore_index;
      }
    };
    (take(static_cast<Options const*>(nullptr)), ...);
    return label;
  }();

  /// Also where a device reads it.
  TANDEM_HOST_DEVICE static double class_weight(int label) {
    if constexpr (weights == 0) {
      return 1.0;
    } else {
      static constexpr ClassTable<weights> table = class_table();
      return table.of[label];
    }
  }

 private:
  TANDEM_HOST_DEVICE static constexpr ClassTable<weights> class_table() {
    ClassTable<weights> table;
    (take_weights<Options>(table), ...);
    return table;
  }
  template <class O>
  TANDEM_HOST_DEVICE static constexpr void take_weights(ClassTable<weights>& table) {
    if constexpr (WeighsClasses<O>) {
      for (int c = 0; c < weights; ++c) {
        table.of[c] = static_cast<double>(O::class_weights[c]);
      }
    }
  }
};

}  // namespace detail

/// -Σ_c w_c q_c log softmax(y)_c, q = (1 - smoothing) [c = label] + smoothing / C, the sum over the
/// batch divided by that of the labels' weights w: PyTorch's cross_entropy.
///
///   struct Rare {
///     static constexpr double class_weights[] = {1.0, 1.0, 4.0};
///   };
///   SoftmaxCrossEntropy<Percent<10>, Rare, IgnoreIndex<-100>>
///
/// Shapes: output (B, C); one std::int32_t label in [0, C) a sample, or that of IgnoreIndex: such a
///         sample has the loss 0 and no gradient, and neither the mean nor a metric counts it. A
///         batch without others, or whose labels all have the weight 0, has the loss 0 and no
///         gradient, where PyTorch's is NaN.
template <class... Options>
struct SoftmaxCrossEntropy : detail::CrossEntropyOptions<Options...> {
  using Values = detail::CrossEntropyOptions<Options...>;
  using Target = std::int32_t;
  static constexpr bool labels = true;
  static constexpr std::string_view name = "SoftmaxCrossEntropy";
  /// Whether the mean is over all samples, each with the same weight.
  static constexpr bool plain = Values::weights == 0 && !Values::ignores;
  static constexpr int targets(Shape) { return 1; }

  /// What the loss of samples [first, first + size) is a mean of.
  static double weight(TargetRows rows, int first, int size) requires(!plain) {
    double sum = 0.0;
    for (std::int64_t s = first; s < std::int64_t{first} + size; ++s) {
      sum += counts(rows.target[s]) ? Values::class_weight(rows.target[s]) : 0.0;
    }
    return sum;
  }
  /// How many of them a metric counts.
  static double counted(TargetRows rows, int first, int size) requires(!plain) {
    int count = 0;
    for (std::int64_t s = first; s < std::int64_t{first} + size; ++s) {
      count += counts(rows.target[s]) ? 1 : 0;
    }
    return count;
  }

 private:
  static bool counts(std::int32_t label) { return !Values::ignores || label != Values::ignored; }
};

/// The same of soft labels: q = (1 - smoothing) target + smoothing / C, divided by the samples, as
/// PyTorch's cross_entropy of probabilities. soft_labels(data) makes such targets.
///
/// Shapes: output (B, C); C floats a sample, 0 or more, whose sum is 1.
template <class... Options>
struct SoftCrossEntropy : detail::CrossEntropyOptions<Options...> {
  using Values = detail::CrossEntropyOptions<Options...>;
  static_assert(detail::SoftLabelsAreNoIndex<Values::ignores>::value);
  using Target = float;
  static constexpr bool soft_labels = true;
  static constexpr bool plain = false;
  static constexpr std::string_view name = "SoftCrossEntropy";
  static constexpr int targets(Shape out) { return static_cast<int>(out.elements()); }
};

/// Whether a loss takes each output for the score of a class.
template <class L>
concept CrossEntropy = requires {
  { L::plain } -> std::convertible_to<bool>;
  { L::class_weight(0) } -> std::same_as<double>;
};

/// Whether a loss is a mean over something else than samples, which depends on the targets.
template <class L>
concept WeighsTargets = requires {
  { L::weight(TargetRows{}, 0, 0) } -> std::same_as<double>;
};

/// Whether a sample counts, by its first target.
template <class L, class Target>
TANDEM_HOST_DEVICE constexpr bool sample_counts(Target target) {
  if constexpr (requires { requires L::ignores; }) {
    return target != L::ignored;
  } else {
    return true;
  }
}

}  // namespace tandem
