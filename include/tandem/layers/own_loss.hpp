// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowLoss and RowMetric: a program's own loss and metric of whole samples, on every backend.
///
///   struct LargestError {
///     static constexpr std::string_view name = "largest error";
///     template <class R>
///     TANDEM_HOST_DEVICE static double value(Row<R const> y, Row<float const> t) {
///       double largest = 0;
///       for (std::size_t i = 0; i < y.size(); ++i) {
///         largest = std::fmax(largest, std::fabs(double{y[i]} - double{t[i]}));
///       }
///       return largest;
///     }
///   };
///
/// What takes std::span or `auto` in the place of Row runs on Host alone: ops/host/user_layer.hpp.

#include <concepts>
#include <span>

#include <tandem/core/row.hpp>
#include <tandem/layers/loss.hpp>

namespace tandem {

namespace detail {

template <class L, class T, class Target>
concept ValueOfSpans = requires(std::span<T const> output, std::span<Target const> target) {
  { L::value(output, target) } -> std::convertible_to<double>;
};
template <class L, class T, class Target>
concept ValueOfRows = requires(Row<T const> output, Row<Target const> target) {
  { L::value(output, target) } -> std::convertible_to<double>;
};
template <class L, class T, class Target>
concept GradientOfSpans = requires(std::span<T const> output, std::span<Target const> target,
                                   std::span<T> dy) {
  L::gradient(output, target, dy);
};
template <class L, class T, class Target>
concept GradientOfRows = requires(Row<T const> output, Row<Target const> target, Row<T> dy) {
  L::gradient(output, target, dy);
};

}  // namespace detail

/// A metric with `double value(Row<T const> output, Row<Target const> target)` of one sample, in
/// the order that users know, and T the float or double of a backend: TANDEM_HOST_DEVICE for Cuda.
template <class M, class L, class T>
concept RowMetric = Metric<M> && Loss<L> && detail::ValueOfRows<M, T, typename L::Target> &&
    !detail::ValueOfSpans<M, T, typename L::Target>;

/// A loss with the same, and `void gradient(output, target, Row<T> dy)`; dy is to be written, not
/// scaled by the batch.
template <class L, class T>
concept RowLoss = RowMetric<L, L, T> && detail::GradientOfRows<L, T, typename L::Target>;

}  // namespace tandem
