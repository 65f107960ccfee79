// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Embedding<V, C, RowGradient> on Cuda: a sentence, since there are no kernels yet.

#include <tandem/layers/embedding.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>

namespace tandem {

namespace detail {

template <class L>
inline constexpr bool row_gradient_on_cuda = false;  // what the sentence depends on

template <class L>
struct RowGradientIsOnHost {
  static constexpr bool value = true;
  static_assert(row_gradient_on_cuda<L>,
                "Embedding<V, C, RowGradient> has kernels for Host only: leave RowGradient out, or "
                "train this network on tandem::Host");
};

}  // namespace detail

template <int V, int C, class... Options, class Kernels, class Precision>
  requires(has_row_gradient<Options...>())
struct Op<Embedding<V, C, Options...>, BasicCuda<Kernels, Precision>> : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::RowGradientIsOnHost<Embedding<V, C, Options...>>::value);
};

}  // namespace tandem
