// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OperandTable: where everything stands that a device's nodes read and write for one microbatch.

#include <cstddef>

#include <tandem/ops/op.hpp>

namespace tandem {

template <class T, class P = T>
struct OperandTable {
  Operands<T, P> const* operands = nullptr;  ///< of each node
  T const* const* forks = nullptr;           ///< gradients of nodes' outputs that are to be added
  std::size_t const* first_fork = nullptr;   ///< of each node, those of its output
  T* const* gradient = nullptr;              ///< of each node's output
  T const* output = nullptr;                 ///< the network's, where the device has it
  T* loss_gradient = nullptr;                ///< likewise
};

}  // namespace tandem
