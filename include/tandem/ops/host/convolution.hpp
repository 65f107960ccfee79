// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Conv2d and Linear on Host, portable kernels.

#include <tandem/kernels/host/convolution.hpp>
#include <tandem/kernels/host/linear.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any convolution: one type for all, so that kernels are compiled once.
template <class T, bool Bias>
class ConvolutionOp {
 public:
  ConvolutionOp(OpSetup const& setup, ConvolutionGeometry const& geometry)
      : geometry_{geometry},
        scratch_{convolution_scratch<T>(geometry, setup.threads) *
                 static_cast<std::int64_t>(sizeof(T))} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    convolution_forward(p.device.team, geometry_, p.batch, o.x[0], o.parameter[0],
                        Bias ? o.parameter[1] : nullptr, o.y, p.device.scratch_as<T>());
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    convolution_input_gradient(p.device.team, geometry_, p.batch, o.parameter[0], o.dy, o.dx[0],
                               p.device.scratch_as<T>());
  }
  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    convolution_weight_gradient(p.device.team, geometry_, p.batch, o.x[0], o.dy, o.gradient[0],
                                Bias ? o.gradient[1] : nullptr, p.accumulate,
                                p.device.scratch_as<T>());
  }

 private:
  ConvolutionGeometry geometry_;
  std::int64_t scratch_;
};

/// Each row of a sequence, or each sample, by itself.
template <class T, bool Bias>
class LinearOp {
 public:
  explicit LinearOp(OpSetup const& setup)
      : shape_{setup.node.in},
        in_{tandem::detail::row_size(shape_)},
        out_{tandem::detail::row_size(setup.node.out)},
        scratch_{linear_scratch<T>(setup.threads) * static_cast<std::int64_t>(sizeof(T))} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    linear_forward(p.device.team, rows(p), in_, out_, o.x[0], o.parameter[0],
                   Bias ? o.parameter[1] : nullptr, o.y, p.device.scratch_as<T>());
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    linear_input_gradient(p.device.team, rows(p), in_, out_, o.parameter[0], o.dy, o.dx[0],
                          p.device.scratch_as<T>());
  }
  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    linear_weight_gradient(p.device.team, rows(p), in_, out_, o.x[0], o.dy, o.gradient[0],
                           Bias ? o.gradient[1] : nullptr, p.accumulate, p.device.scratch_as<T>());
  }

 private:
  [[nodiscard]] int rows(Pass<Device> const& p) const { return static_cast<int>(p.rows(shape_)); }

  Shape shape_;
  int in_;
  int out_;
  std::int64_t scratch_;
};

}  // namespace host

template <int Out, class... Options, class Precision>
struct Op<Conv2d<Out, Options...>, BasicHost<Portable, Precision>>
    : host::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : host::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias>{
            setup,
            detail::own_geometry(Conv2d<Out, Options...>::geometry(setup.node.in, setup.node.out),
                                 setup.node)} {}
};

template <int Out, class... Options, class Precision>
struct Op<Linear<Out, Options...>, BasicHost<Portable, Precision>>
    : host::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias> {
  using host::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias>::LinearOp;
};

}  // namespace tandem
