// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Conv2d on Cuda with portable kernels: a matrix of patches and products of cuBLASLt.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/convolution.cuh>
#include <tandem/layers/conv2d.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Whether a convolution's product adds the bias; else a kernel adds it afterwards, unrounded.
template <class Precision>
inline constexpr bool bias_in_product = std::same_as<typename Precision::Scalar, float>;

/// Any convolution: one type for all of a precision, so that kernels are compiled once.
template <class Precision, bool Bias>
class ConvolutionOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  ConvolutionOp(OpSetup const& setup, ConvolutionGeometry const& geometry, RankDevice& device)
      : absorbed_{setup.node.fusion.absorbed},
        in_product_{Bias && bias_in_product<Precision> && geometry.groups == 1 && !absorbed_},
        pixels_{std::int64_t{geometry.out.height} * geometry.out.width},
        channels_{geometry.out_channels},
        convolution_{device.library<CublasLt>(), geometry, setup.batch, matmul_math<Precision>,
                     in_product_} {
    scratch_ = convolution_.scratch_bytes();
    if (Bias && !absorbed_) {
      scratch_ = std::max(scratch_, column_sum_scratch_bytes<T>(setup.batch * pixels_, channels_));
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    T const* bias = nullptr;
    if constexpr (Bias && bias_in_product<Precision>) {
      bias = in_product_ ? o.parameter[1] : nullptr;
    }
    convolution_.forward(stream, p.batch, o.x[0], o.weight[0], bias, o.y, p.device.scratch);
    if constexpr (Bias) {
      if (!in_product_ && !(absorbed_ && p.training)) {
        add_bias(stream, o.y, o.parameter[1], p.batch * pixels_, channels_);
      }
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    convolution_.input_gradient(p.device.compute, p.batch, o.weight[0], o.dy, o.dx[0],
                                p.device.scratch);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    convolution_.weight_gradient(stream, p.batch, o.x[0], o.dy, o.gradient[0], p.accumulate,
                                 p.device.scratch);
    if constexpr (Bias) {
      if (!absorbed_) {
        column_sum(stream, o.dy, p.batch * pixels_, channels_, o.gradient[1], p.accumulate,
                   p.device.scratch);
      }
    }
  }

 private:
  bool absorbed_;  // training is without the bias
  bool in_product_;
  std::int64_t pixels_;
  int channels_;
  PatchConvolution<T, P> convolution_;
  std::int64_t scratch_ = 0;
};

}  // namespace cuda

template <int Out, class... Options, class Precision>
struct Op<Conv2d<Out, Options...>, BasicCuda<Portable, Precision>>
    : cuda::ConvolutionOp<Precision, Conv2d<Out, Options...>::bias> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::ConvolutionOp<Precision, Conv2d<Out, Options...>::bias>{
            setup,
            tandem::detail::own_geometry(
                Conv2d<Out, Options...>::geometry(setup.node.in, setup.node.out), setup.node),
            device} {}
};

}  // namespace tandem
