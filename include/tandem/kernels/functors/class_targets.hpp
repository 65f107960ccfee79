// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a cross entropy wants of each class: labels, or soft labels, with weights and smoothing.
///
/// A sample's loss is -sum_c a_c log softmax(z)_c and its gradient p_c sum(a) - a_c, a_c = w_c q_c.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// q is 1 - smoothing at the label, and smoothing / C everywhere besides.
/// @tparam L  has smoothing, class_weight(c), ignores and ignored: SoftmaxCrossEntropy
template <class L>
struct LabelTargets {
  std::int32_t const* labels;  ///< (B)
  int classes;

  TANDEM_HOST_DEVICE bool counts(std::int64_t sample) const {
    return !L::ignores || labels[sample] != L::ignored;
  }
  TANDEM_HOST_DEVICE double operator()(std::int64_t sample, int c) const {
    double const q = (c == labels[sample] ? 1 - L::smoothing : 0.0) + L::smoothing / classes;
    return L::class_weight(c) * q;
  }
};

/// q is (1 - smoothing) target + smoothing / C.
template <class L>
struct SoftTargets {
  float const* targets;  ///< (B, C)
  int classes;

  TANDEM_HOST_DEVICE bool counts(std::int64_t /*sample*/) const { return true; }
  TANDEM_HOST_DEVICE double operator()(std::int64_t sample, int c) const {
    auto const own = static_cast<double>(targets[sample * classes + c]);
    return L::class_weight(c) * ((1 - L::smoothing) * own + L::smoothing / classes);
  }
};

/// The class that a sample is of, or -1 if its label is `ignored`.
struct LabelOf {
  std::int32_t const* labels;
  int classes;
  std::int32_t ignored = -1;

  TANDEM_HOST_DEVICE std::int32_t operator()(std::int64_t sample) const {
    return labels[sample] == ignored ? -1 : labels[sample];
  }
};
/// Of soft labels that of the largest, the first of equals.
struct LargestOf {
  float const* targets;
  int classes;

  TANDEM_HOST_DEVICE std::int32_t operator()(std::int64_t sample) const {
    float const* const own = targets + sample * classes;
    int at = 0;
    for (int c = 1; c < classes; ++c) {
      at = own[c] > own[at] ? c : at;
    }
    return at;
  }
};

namespace detail {

template <class L, class Target>
struct TargetsOf {
  using Classes = SoftTargets<L>;
  using Label = LargestOf;
};
template <class L>
struct TargetsOf<L, std::int32_t> {
  using Classes = LabelTargets<L>;
  using Label = LabelOf;
};

}  // namespace detail

/// The classes of a loss's targets: LabelTargets or SoftTargets.
template <class L>
using ClassTargetsOf = typename detail::TargetsOf<L, typename L::Target>::Classes;

/// The labels of a loss's targets: LabelOf or LargestOf.
template <class L>
constexpr auto labels_of(typename L::Target const* targets, int classes) {
  typename detail::TargetsOf<L, typename L::Target>::Label labels{targets, classes};
  if constexpr (requires {
                  requires L::ignores && requires { labels.ignored; };
                }) {
    labels.ignored = L::ignored;
  }
  return labels;
}

}  // namespace tandem
