// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// KernelTimes: seconds of products and of passes over tensors on a machine, by its KernelCurve.

#include <algorithm>

#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// Bytes of an element of an activation.
constexpr int element_bytes(MathPrecision precision) {
  bool const half = precision == MathPrecision::bf16 || precision == MathPrecision::fp16;
  return precision == MathPrecision::fp64 ? 8 : half ? 2 : 4;
}
/// Bytes of an element of a parameter as the optimizer keeps it.
constexpr int master_bytes(MathPrecision precision) {
  return precision == MathPrecision::fp64 ? 8 : 4;
}

/// Of one device. Without a curve, or in fp32 and fp64, products achieve Machine::efficiency and
/// passes the memory's peak.
struct KernelTimes {
  Machine const& machine;
  MathPrecision precision = MathPrecision::bf16;

  [[nodiscard]] bool curved() const {
    return machine.kernels.known() && element_bytes(precision) == 2;
  }
  [[nodiscard]] double memory() const {
    return machine.memory_bandwidth * (curved() ? machine.kernels.memory_share : 1);
  }
  /// Of @p operations, at the share @p of_peak, that move @p bytes.
  [[nodiscard]] double run(double operations, double of_peak, double bytes) const {
    double const rate = machine.peak.of(precision) * of_peak;
    return machine.launch_overhead + std::max(operations / rate, bytes / memory());
  }
  /// Of products of (m, k) and (k, n), or of parts of them.
  [[nodiscard]] double share(double m, double n, double k) const {
    return curved() ? machine.kernels.product_share(m, n, k) : machine.efficiency;
  }
  [[nodiscard]] double attention_share() const {
    return curved() ? machine.kernels.attention_share : machine.efficiency;
  }
  /// Of @p count products of (m, k) and (k, n) in one launch.
  [[nodiscard]] double product(double m, double n, double k, double count = 1) const {
    return run(2 * count * m * n * k, share(m, n, k),
               count * (m * n + m * k + n * k) * element_bytes(precision));
  }
  /// Of @p bytes read and written.
  [[nodiscard]] double pass(double bytes) const {
    return machine.launch_overhead + bytes / memory();
  }
};

}  // namespace tandem
