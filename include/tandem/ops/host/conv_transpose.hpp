// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvTranspose2d on Host, portable kernels: those of the convolution whose gradient it is.

#include <cstdint>

#include <tandem/kernels/host/map_bias.hpp>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/ops/exchanged.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

template <class T, bool Bias>
class ConvTransposeOp {
 public:
  ConvTransposeOp(OpSetup const& setup, ConvolutionGeometry const& geometry)
      : convolution_{setup, geometry},
        channels_{geometry.in_channels},
        pixels_{std::int64_t{geometry.in.height} * geometry.in.width} {}

  [[nodiscard]] OpNeeds needs() const { return convolution_.needs(); }

  void forward(Operands<T> const& o, Pass<Device> const& p) {
    convolution_.forward(o, p);
    if constexpr (Bias) {
      add_map_bias(p.device.team, p.batch, channels_, pixels_, o.parameter[1], o.y);
    }
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) {
    convolution_.input_gradient(o, p);
  }
  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) {
    convolution_.weight_gradient(o, p);
    if constexpr (Bias) {
      map_bias_gradient(p.device.team, p.batch, channels_, pixels_, o.dy, o.gradient[1],
                        p.accumulate);
    }
  }

 private:
  tandem::detail::ExchangedConvolution<ConvolutionOp<T, false>, T, T> convolution_;
  int channels_;
  std::int64_t pixels_;
};

}  // namespace host

template <int Out, class... Options, class Precision>
struct Op<ConvTranspose2d<Out, Options...>, BasicHost<Portable, Precision>>
    : host::ConvTransposeOp<typename Precision::Scalar, ConvTranspose2d<Out, Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : host::ConvTransposeOp<typename Precision::Scalar, ConvTranspose2d<Out, Options...>::bias>{
            setup, ConvTranspose2d<Out, Options...>::geometry(setup.node.in)} {}
};

}  // namespace tandem
