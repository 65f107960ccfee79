// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The slow truth about matrix products and convolutions: plain loops in double, with error bounds.
///
/// A sum of n products in T, in any order, with or without fused multiply-adds, is off by at most
/// n eps sum |a b| (1 + O(n eps)), Higham, "Accuracy and stability of numerical algorithms", 3.1.
/// The reference in double is off by as much with its own eps, so the bounds take (n + 2) (eps_T +
/// eps).

#include <cmath>
#include <cstdint>
#include <vector>

#include <tandem/core/geometry.hpp>

#include "support.hpp"

namespace tandem::test {

/// A result and the bound of what a kernel in T may differ from it.
struct Reference {
  std::vector<double> value;
  std::vector<double> bound;
  std::vector<int> terms;

  explicit Reference(std::int64_t n)
      : value(static_cast<std::size_t>(n)),
        bound(static_cast<std::size_t>(n)),
        terms(static_cast<std::size_t>(n)) {}

  /// value[i] += term, which is a product of two elements or an old value.
  void add(std::int64_t i, double term) {
    auto const at = static_cast<std::size_t>(i);
    value[at] += term;
    bound[at] += std::abs(term);
    ++terms[at];
  }

  /// Turns the sums of absolute terms into bounds for the type T.
  template <class T>
  void finish() {
    for (std::size_t i = 0; i < bound.size(); ++i) {
      bound[i] *= (terms[i] + 2) * 1.01 * (eps<T> + eps<double>);
    }
  }
};

/// c = [old +] op(a) op(b), where a(i, p) and b(p, j) give elements.
template <class T, class A, class B, class Old>
Reference reference_product(int m, int n, int k, A const& a, B const& b, Old const& old) {
  Reference c{std::int64_t{m} * n};
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      std::int64_t const at = std::int64_t{i} * n + j;
      c.add(at, static_cast<double>(old(i, j)));
      for (int p = 0; p < k; ++p) {
        c.add(at, static_cast<double>(a(i, p)) * static_cast<double>(b(p, j)));
      }
    }
  }
  c.template finish<T>();
  return c;
}

/// Seven loops: calls f(x index, weight index, y index) for each multiply-accumulate of a batch.
template <class Function>
void each_tap(ConvolutionGeometry const& g, int batch, Function const& f) {
  int const in = g.in_channels / g.groups;
  int const out = g.out_channels / g.groups;
  Window const& w = g.window;
  for (int s = 0; s < batch; ++s) {
    for (int o = 0; o < g.out_channels; ++o) {
      for (int oh = 0; oh < g.out.height; ++oh) {
        for (int ow = 0; ow < g.out.width; ++ow) {
          for (int i = 0; i < in; ++i) {
            for (int kh = 0; kh < w.kernel.height; ++kh) {
              for (int kw = 0; kw < w.kernel.width; ++kw) {
                int const h = oh * w.stride.height - w.padding.height + kh * w.dilation.height;
                int const v = ow * w.stride.width - w.padding.width + kw * w.dilation.width;
                if (h < 0 || v < 0 || h >= g.in.height || v >= g.in.width) {
                  continue;
                }
                int const channel = s * g.in_channels + o / out * in + i;
                f((channel * g.in.height + h) * g.in.width + v,
                  ((o * in + i) * w.kernel.height + kh) * w.kernel.width + kw,
                  ((s * g.out_channels + o) * g.out.height + oh) * g.out.width + ow);
              }
            }
          }
        }
      }
    }
  }
}

/// Elements of the three tensors of a convolution.
struct ConvolutionSizes {
  std::int64_t x, weight, y;

  ConvolutionSizes(ConvolutionGeometry const& g, int batch)
      : x{std::int64_t{batch} * g.in_channels * g.in.height * g.in.width},
        weight{std::int64_t{g.out_channels} * (g.in_channels / g.groups) * g.window.kernel.height *
               g.window.kernel.width},
        y{std::int64_t{batch} * g.out_channels * g.out.height * g.out.width} {}
};

}  // namespace tandem::test
