// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Null: a backend whose kernels are empty, to count what the engine itself costs.

#include <tandem/core/precision.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Computes nothing; memory, tables and the engine's loop are those of Host.
struct Null {
  using Scalar = float;
  using Master = float;
  using Device = host::Device;
  using Buffer = host::Buffer;
  using Stream = host::Queue;
  static constexpr char const* name = "null";
};

}  // namespace tandem
