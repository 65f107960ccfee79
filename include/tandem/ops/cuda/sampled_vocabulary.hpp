// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary with Sampled on Cuda: a sentence, since there are no kernels yet.

#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>

namespace tandem {

namespace detail {

template <class L>
inline constexpr bool samples_on_cuda = false;  // what the sentence depends on

template <class L>
struct SampledIsOnHost {
  static constexpr bool value = true;
  static_assert(samples_on_cuda<L>,
                "Sampled<Words> has kernels for Host only: train this network on tandem::Host, or "
                "use Chunked<Rows> in its place");
};

}  // namespace detail

template <int V, class... Options, class Kernels, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled > 0)
struct Op<Vocabulary<V, Options...>, BasicCuda<Kernels, Precision>> : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::SampledIsOnHost<Vocabulary<V, Options...>>::value);
};

}  // namespace tandem
