// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvTranspose2d on Host by oneDNN: the primitives of the convolution whose gradient it is, which
/// are those of its deconvolution.

#include <concepts>
#include <cstdint>

#include <tandem/kernels/channels_last/row_bias.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/ops/exchanged.hpp>
#include <tandem/ops/onednn/convolution.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace onednn {

template <class T, bool Bias>
class ConvTransposeOp {
 public:
  ConvTransposeOp(OpSetup const& setup, ConvolutionGeometry const& geometry, bool direct)
      : convolution_{setup, geometry, direct},
        channels_{geometry.in_channels},
        pixels_{std::int64_t{geometry.in.height} * geometry.in.width} {}

  [[nodiscard]] OpNeeds needs() const { return convolution_.needs(); }

  void pack(Operands<T, float> const& o, host::Device& device) { convolution_.pack(o, device); }
  void forward(Operands<T, float> const& o, Pass<host::Device> const& p) {
    convolution_.forward(o, p);
    if constexpr (Bias) {
      host::channels_last::add_row_bias(p.device.team, p.batch * pixels_, channels_, o.parameter[1],
                                        o.y);
    }
  }
  void input_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    convolution_.input_gradient(o, p);
  }
  void weight_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    convolution_.weight_gradient(o, p);
    if constexpr (Bias) {
      column_sum(p.device.team, o.dy, p.batch * pixels_, channels_, channels_, o.gradient[1],
                 p.accumulate);
    }
  }

 private:
  tandem::detail::ExchangedConvolution<ConvolutionOp<T, false>, T, float> convolution_;
  int channels_;
  std::int64_t pixels_;
};

}  // namespace onednn

template <int Out, class... Options, class Precision>
struct Op<ConvTranspose2d<Out, Options...>, BasicHost<OneDnn, Precision>>
    : onednn::ConvTransposeOp<typename Precision::Scalar, ConvTranspose2d<Out, Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : onednn::ConvTransposeOp<typename Precision::Scalar, ConvTranspose2d<Out, Options...>::bias>{
            setup, ConvTranspose2d<Out, Options...>::geometry(setup.node.in),
            std::same_as<Precision, Fp32Direct>} {}
};

}  // namespace tandem
