// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Cross entropy with a number wanted of each class: weights, soft labels, labels that are ignored.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/class_targets.hpp>
#include <tandem/kernels/host/softmax_cross_entropy.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Adds each sample's loss, -sum_c a_c log softmax(z)_c, to @p sum.
///
/// Shapes: logits (B, C), a (B, C) by function; losses (B), each sample's loss.
/// Cost:   B C exponentials.
/// Order:  the classes of a sample in order, in double; then the samples one by one.
/// A class with a_c = 0 takes no part, and a sample that does not count has the loss 0.
template <class T, class Targets>
TANDEM_NOINLINE void class_targets_forward(Team& team, int batch, int classes, T const* logits,
                                           Targets const& wanted, double* losses, double& sum) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      losses[s] = 0.0;
      if (!wanted.counts(s)) {
        continue;
      }
      T const* const z = logits + s * classes;
      auto const [largest, total] = detail::softmax_row(classes, z);
      double const log_normaliser = largest + std::log(total);
      for (int c = 0; c < classes; ++c) {
        double const a = wanted(s, c);
        losses[s] += a != 0.0 ? a * (log_normaliser - static_cast<double>(z[c])) : 0.0;
      }
    }
  });
  for (std::int64_t s = 0; s < batch; ++s) {
    sum += losses[s];
  }
}

/// dlogits = (softmax(z) sum(a) - a) * scale, 0 for a sample that does not count.
///
/// Shapes: logits (B, C); dlogits (B, C), which may be logits.
/// Cost:   2 B C exponentials.
/// Order:  the classes of a sample in order, in double.
template <class T, class Targets>
TANDEM_NOINLINE void class_targets_gradient(Team& team, int batch, int classes, T const* logits,
                                            Targets const& wanted, double scale, T* dlogits) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const z = logits + s * classes;
      T* const dz = dlogits + s * classes;
      if (!wanted.counts(s)) {
        for (int c = 0; c < classes; ++c) {
          dz[c] = T{0};
        }
        continue;
      }
      auto const [largest, total] = detail::softmax_row(classes, z);
      T const shift = static_cast<T>(largest);
      double all = 0.0;
      for (int c = 0; c < classes; ++c) {
        all += wanted(s, c);
      }
      for (int c = 0; c < classes; ++c) {
        double const p = static_cast<double>(std::exp(z[c] - shift)) / total;
        dz[c] = static_cast<T>((p * all - wanted(s, c)) * scale);
      }
    }
  });
}

/// Samples whose label is among their k largest outputs, the lowest index first among equals; a NaN
/// comes before the label, and one at the label is never right. A label of -1 is no sample's.
template <class T, class Labels>
double top_k_count(int batch, int classes, T const* output, Labels const& labels, int k) {
  std::int64_t right = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    std::int32_t const label = labels(s);
    if (label < 0) {
      continue;
    }
    T const* const y = output + s * classes;
    T const own = y[label];
    int ahead = own == own ? 0 : k;  // outputs that come before the label's
    for (int c = 0; c < classes; ++c) {
      ahead += !(y[c] <= own) || (y[c] == own && c < label) ? 1 : 0;
    }
    right += ahead < k ? 1 : 0;
  }
  return static_cast<double>(right);
}

}  // namespace tandem::host
