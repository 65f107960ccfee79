// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvTranspose2d on Cuda, by the op of the convolution whose gradient it is, with cuDNN or
/// without.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/ops/cuda/convolution.cuh>
#include <tandem/ops/exchanged.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Convolution: an op of a convolution without bias.
template <class Convolution, bool Bias>
class ConvTransposeOp {
 public:
  using T = typename Convolution::T;
  using P = typename Convolution::P;

  ConvTransposeOp(OpSetup const& setup, ConvolutionGeometry const& geometry, RankDevice& device)
      : convolution_{setup, geometry, device},
        channels_{geometry.in_channels},
        pixels_{std::int64_t{geometry.in.height} * geometry.in.width},
        sum_scratch_{column_sum_scratch_bytes<T>(setup.batch * pixels_, channels_)} {}

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = convolution_.needs();
    needs.scratch_bytes = std::max(needs.scratch_bytes, Bias ? sum_scratch_ : 0);
    return needs;
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    convolution_.forward(o, p);
    if constexpr (Bias) {
      add_bias(p.device.compute, o.y, o.parameter[1], p.batch * pixels_, channels_);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    convolution_.input_gradient(o, p);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    convolution_.weight_gradient(o, p);
    if constexpr (Bias) {
      column_sum(p.device.compute, o.dy, p.batch * pixels_, channels_, o.gradient[1], p.accumulate,
                 p.device.scratch);
    }
  }

 private:
  tandem::detail::ExchangedConvolution<Convolution, T, P> convolution_;
  int channels_;
  std::int64_t pixels_;
  std::int64_t sum_scratch_;
};

}  // namespace cuda

template <int Out, class... Options, class Precision>
struct Op<ConvTranspose2d<Out, Options...>, BasicCuda<Portable, Precision>>
    : cuda::ConvTransposeOp<cuda::ConvolutionOp<Precision, false>,
                            ConvTranspose2d<Out, Options...>::bias> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::ConvTransposeOp<cuda::ConvolutionOp<Precision, false>,
                              ConvTranspose2d<Out, Options...>::bias>{
            setup, ConvTranspose2d<Out, Options...>::geometry(setup.node.in), device} {}
};

}  // namespace tandem
