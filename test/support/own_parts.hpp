// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Layers, joins, a loss and a metric that a program could bring, for the tests of every backend.

#include <cmath>
#include <cstddef>
#include <string_view>

#include <tandem/layers/own_join.hpp>
#include <tandem/layers/own_layer.hpp>
#include <tandem/layers/own_loss.hpp>

namespace tandem::test {

/// Its slope is one of y.
struct Softsign : ElementLayer<Softsign> {
  static constexpr std::string_view name = "Softsign";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x) {
    return x / (1 + std::fabs(x));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope_of_output(R y) {
    return (1 - std::fabs(y)) * (1 - std::fabs(y));
  }
};

/// Its slope is one of x.
struct Square : ElementLayer<Square> {
  static constexpr std::string_view name = "Square";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x) {
    return x * x;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope(R x) {
    return 2 * x;
  }
};

/// x / (1 + exp(-x)), whose slope is short in both.
struct OwnSilu : ElementLayer<OwnSilu> {
  static constexpr std::string_view name = "OwnSilu";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x) {
    return x / (1 + std::exp(-x));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope(R x, R y) {
    return y + (1 - y) / (1 + std::exp(-x));
  }
};

/// x where it is positive, else w x.
struct OwnPrelu : ChannelLayer<OwnPrelu> {
  static constexpr std::string_view name = "OwnPrelu";
  static constexpr Init initial = Init::constant(0.25F);
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x, R w) {
    return x > 0 ? x : w * x;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope(R x, R w) {
    return x > 0 ? R{1} : w;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R weight_slope(R x, R /*w*/) {
    return x > 0 ? R{0} : x;
  }
};

/// x logistic(w x), with one w for all channels.
struct OwnSwish : ChannelLayer<OwnSwish> {
  static constexpr std::string_view name = "OwnSwish";
  static constexpr Init initial = Init::constant(1);
  static constexpr bool one_weight = true;
  template <class R>
  TANDEM_HOST_DEVICE static R logistic(R x) {
    return 1 / (1 + std::exp(-x));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x, R w) {
    return x * logistic(w * x);
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope(R x, R w) {
    R const s = logistic(w * x);
    return s * (1 + w * x * (1 - s));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R weight_slope(R x, R w) {
    R const s = logistic(w * x);
    return x * x * s * (1 - s);
  }
};

struct OwnProduct : ElementJoin<OwnProduct> {
  static constexpr std::string_view name = "OwnProduct";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R a, R b) {
    return a * b;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R first_slope(R /*a*/, R b) {
    return b;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R second_slope(R a, R /*b*/) {
    return a;
  }
};

/// b exp(a): not symmetric.
struct ExpTimes : ElementJoin<ExpTimes> {
  static constexpr std::string_view name = "ExpTimes";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R a, R b) {
    return b * std::exp(a);
  }
  template <class R>
  TANDEM_HOST_DEVICE static R first_slope(R a, R b) {
    return b * std::exp(a);
  }
  template <class R>
  TANDEM_HOST_DEVICE static R second_slope(R a, R /*b*/) {
    return std::exp(a);
  }
};

/// What a Residual computes.
struct OwnSum : ElementJoin<OwnSum> {
  static constexpr std::string_view name = "OwnSum";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R a, R b) {
    return a + b;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R first_slope(R /*a*/, R /*b*/) {
    return 1;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R second_slope(R /*a*/, R /*b*/) {
    return 1;
  }
};

/// Σ (i + 1) (y_i - t_i)² / 2, which shows the order of the elements.
struct RampLoss {
  using Target = float;
  static constexpr std::string_view name = "RampLoss";
  static constexpr int targets(Shape out) { return static_cast<int>(out.elements()); }
  template <class R>
  TANDEM_HOST_DEVICE static double value(Row<R const> y, Row<float const> t) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const off = static_cast<double>(y[i]) - static_cast<double>(t[i]);
      sum += static_cast<double>(i + 1) * off * off / 2;
    }
    return sum;
  }
  template <class R>
  TANDEM_HOST_DEVICE static void gradient(Row<R const> y, Row<float const> t, Row<R> dy) {
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dy[i] = static_cast<R>(i + 1) * (y[i] - static_cast<R>(t[i]));
    }
  }
};

/// Where the largest error of a sample is.
struct PlaceOfWorst {
  static constexpr std::string_view name = "place of worst";
  template <class R>
  TANDEM_HOST_DEVICE static double value(Row<R const> y, Row<float const> t) {
    std::size_t worst = 0;
    for (std::size_t i = 1; i < y.size(); ++i) {
      worst =
          std::fabs(y[i] - static_cast<R>(t[i])) > std::fabs(y[worst] - static_cast<R>(t[worst]))
              ? i
              : worst;
    }
    return static_cast<double>(worst);
  }
};

}  // namespace tandem::test
