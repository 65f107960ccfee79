// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// attention_shape: what an Attention's kernels are told of it, by each backend's op.

#include <tandem/core/shape.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

namespace detail {

/// What the kernels know of a layer L, or of the rank's slice of its heads.
template <class L>
constexpr AttentionShape attention_shape(OpSetup const& setup) {
  Shape const& in = setup.node.in;
  int const slices = setup.slice.count;
  int const heads = L::heads / slices;
  int const key_heads = L::key_heads / slices;
  return {.heads = heads,
          .key_heads = key_heads,
          .width = in[1] / (heads + 2 * key_heads),
          .longest = in[0] * setup.node.sequence.chunks,
          .causal = L::causal,
          .first_head = setup.slice.number * heads};
}

}  // namespace detail

}  // namespace tandem
