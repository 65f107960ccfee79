// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Precisions: the element type in which a backend stores and computes.

namespace tandem {

/// 32-bit floating point throughout.
struct Fp32 {
  using Scalar = float;
  static constexpr char const* name = "fp32";
};

/// 64-bit floating point throughout; what the tests compare in.
struct Fp64 {
  using Scalar = double;
  static constexpr char const* name = "fp64";
};

}  // namespace tandem
