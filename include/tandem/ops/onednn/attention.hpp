// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention on Host in vectors: for the backend whose layers are float or BFloat16; needs no
/// library.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/channels_last/attention.hpp>
#include <tandem/kernels/channels_last/attention_gradient.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/ops/host/attention.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

/// In vectors, float or BFloat16.
template <class T>
struct AttentionInVectors {
  using Normaliser = float;

  static std::int64_t scratch_bytes(AttentionShape const& shape, int threads) {
    return std::max(channels_last::attention_forward_scratch(shape, shape.longest, threads),
                    channels_last::attention_gradient_scratch(shape, shape.longest, threads));
  }
  template <class... Arguments>
  static void forward(Arguments&&... arguments) {
    channels_last::attention_forward<T>(arguments...);
  }
  template <class... Arguments>
  static void gradient(Arguments&&... arguments) {
    channels_last::attention_gradient<T>(arguments...);
  }
};

}  // namespace host::channels_last

template <int Heads, class... Options, class Precision>
struct Op<Attention<Heads, Options...>, BasicHost<OneDnn, Precision>>
    : host::AttentionOp<typename Precision::Scalar, typename Precision::Master,
                        host::channels_last::AttentionInVectors<typename Precision::Scalar>> {
  using L = Attention<Heads, Options...>;
  explicit Op(OpSetup const& setup)
      : host::AttentionOp<typename Precision::Scalar, typename Precision::Master,
                          host::channels_last::AttentionInVectors<typename Precision::Scalar>>{
            setup, detail::attention_shape<L>(setup), L::dropout} {}
};

}  // namespace tandem
