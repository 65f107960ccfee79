// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// KernelCurve: which share of its peaks a device achieves, by the size of a product.

namespace tandem {

/// Of products in bf16 and fp16. A product of (m, k) and (k, n) achieves
/// share · m / (m + half_side) · n / (n + half_side) · k / (k + half_depth) of the peak: sides that
/// are small leave tiles half empty, and a short depth ends before its loop is filled.
struct KernelCurve {
  double share = 0;            ///< of the peak in very large products; 0: nothing is known
  double half_side = 0;        ///< rows or columns at which half of that is left
  double half_depth = 0;       ///< the same of the sum's length
  double attention_share = 0;  ///< of the peak, in an attention that is one kernel
  double memory_share = 1;     ///< of the memory's peak, in passes over large tensors

  [[nodiscard]] constexpr bool known() const { return share > 0; }

  /// Of the peak.
  [[nodiscard]] constexpr double product_share(double m, double n, double k) const {
    return share * (m / (m + half_side)) * (n / (n + half_side)) * (k / (k + half_depth));
  }

  friend constexpr bool operator==(KernelCurve const&, KernelCurve const&) = default;
};

}  // namespace tandem
