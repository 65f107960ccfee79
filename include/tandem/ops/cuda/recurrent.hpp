// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lstm and Gru on Cuda: a sentence, since there are no kernels yet.

#include <tandem/layers/recurrent.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>

namespace tandem {

namespace detail {

template <class L>
inline constexpr bool recurrent_on_cuda = false;  // what the sentence depends on

template <class L>
struct RecurrentIsOnHost {
  static constexpr bool value = true;
  static_assert(recurrent_on_cuda<L>,
                "Lstm and Gru have kernels for Host only: train this network on tandem::Host, or "
                "use Attention<Heads, Causal> in their place");
};

}  // namespace detail

template <int H, class... Options, class Kernels, class Precision>
struct Op<Lstm<H, Options...>, BasicCuda<Kernels, Precision>> : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::RecurrentIsOnHost<Lstm<H, Options...>>::value);
};

template <int H, class... Options, class Kernels, class Precision>
struct Op<Gru<H, Options...>, BasicCuda<Kernels, Precision>> : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::RecurrentIsOnHost<Gru<H, Options...>>::value);
};

}  // namespace tandem
