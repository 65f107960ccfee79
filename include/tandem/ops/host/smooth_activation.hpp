// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gelu, GeluTanh, SiLU, Sigmoid, Tanh, Softmax and SwiGlu on Host, with oneDNN and without.

#include <cstdint>

#include <tandem/kernels/host/smooth_activation.hpp>
#include <tandem/kernels/host/softmax.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

template <class Function, class Precision>
class ActivationOp {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit ActivationOp(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = !Function::gradient_from_output, .output = Function::gradient_from_output};
  }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    activation_forward<Function>(p.device.team, o.x[0], o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    activation_gradient<Function>(p.device.team, Function::gradient_from_output ? o.y : o.x[0],
                                  o.dy, o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
};

}  // namespace host

template <class Kernels, class Precision>
struct Op<Gelu, BasicHost<Kernels, Precision>> : host::ActivationOp<GeluFunction, Precision> {
  using host::ActivationOp<GeluFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<GeluTanh, BasicHost<Kernels, Precision>>
    : host::ActivationOp<GeluTanhFunction, Precision> {
  using host::ActivationOp<GeluTanhFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<SiLU, BasicHost<Kernels, Precision>> : host::ActivationOp<SiluFunction, Precision> {
  using host::ActivationOp<SiluFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<Sigmoid, BasicHost<Kernels, Precision>> : host::ActivationOp<SigmoidFunction, Precision> {
  using host::ActivationOp<SigmoidFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<Tanh, BasicHost<Kernels, Precision>> : host::ActivationOp<TanhFunction, Precision> {
  using host::ActivationOp<TanhFunction, Precision>::ActivationOp;
};

template <class Kernels, class Precision>
class Op<Softmax, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::softmax_forward(p.device.team, p.rows(shape_), detail::row_size(shape_), o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::softmax_gradient(p.device.team, p.rows(shape_), detail::row_size(shape_), o.y, o.dy,
                           o.dx[0]);
  }

 private:
  Shape shape_;
};

template <class Kernels, class Precision>
class Op<SwiGlu, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::swiglu_forward(p.device.team, p.rows(shape_), detail::row_size(shape_), o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::swiglu_gradient(p.device.team, p.rows(shape_), detail::row_size(shape_), o.x[0], o.dy,
                          o.dx[0]);
  }

 private:
  Shape shape_;
};

}  // namespace tandem
