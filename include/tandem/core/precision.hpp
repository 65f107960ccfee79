// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Precisions: the element types in which a backend stores and computes.
///
/// Scalar is the type of activations and of what matrix products read; Master that of parameters,
/// gradients, optimizer state and of the data that users pass.

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>

namespace tandem {

/// 32-bit floating point throughout.
struct Fp32 {
  using Scalar = float;
  using Master = float;
  static constexpr char const* name = "fp32";
};

/// Fp32 without Winograd's method, which takes half the time and rounds more: see docs/host.md.
/// Only for Host with oneDNN.
struct Fp32Direct {
  using Scalar = float;
  using Master = float;
  static constexpr char const* name = "fp32_direct";
};

/// 32-bit storage; matrix products round their inputs to 10 fraction bits (tensor cores). Cuda
/// only.
struct Tf32 {
  using Scalar = float;
  using Master = float;
  static constexpr char const* name = "tf32";
};

/// 16-bit activations and products with fp32 sums; parameters, statistics, loss and update in fp32.
struct Bf16 {
  using Scalar = BFloat16;
  using Master = float;
  static constexpr char const* name = "bf16";
};

/// As Bf16, in IEEE half precision: 10 fraction bits in place of 7, but numbers from 6e-8 to 65504
/// only, so that gradients are made large enough by TrainerOptions::loss_scaling. Cuda only.
struct Fp16 {
  using Scalar = Float16;
  using Master = float;
  static constexpr char const* name = "fp16";
};

/// 64-bit floating point throughout; what the tests compare in.
struct Fp64 {
  using Scalar = double;
  using Master = double;
  static constexpr char const* name = "fp64";
};

}  // namespace tandem
