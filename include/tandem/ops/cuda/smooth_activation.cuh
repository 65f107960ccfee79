// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gelu, GeluTanh, SiLU, Sigmoid, Tanh, Softmax and SwiGlu on Cuda.

#include <tandem/kernels/cuda/activations.cuh>
#include <tandem/kernels/cuda/softmax.cuh>
#include <tandem/layers/rows.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// y is there already where the Linear before it applies it; then x is not, and what that one has
/// saved takes its place.
template <class Function, class Precision>
class ActivationOp {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  ActivationOp(OpSetup const& setup, RankDevice&)
      : shape_{setup.node.out}, applied_{setup.node.fusion.activated_by >= 0} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = !Function::gradient_from_output && !applied_,
            .output = Function::gradient_from_output};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (!applied_) {
      activation_forward<Function>(p.device.compute, o.x[0], o.y, p.elements(shape_));
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    T const* const kept = Function::gradient_from_output ? o.y
                          : applied_ ? reinterpret_cast<T const*>(o.fused.activation)
                                     : o.x[0];
    activation_gradient<Function>(p.device.compute, kept, o.dy, o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
  bool applied_;
};

}  // namespace cuda

template <class Kernels, class Precision>
struct Op<Gelu, BasicCuda<Kernels, Precision>> : cuda::ActivationOp<GeluFunction, Precision> {
  using cuda::ActivationOp<GeluFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<GeluTanh, BasicCuda<Kernels, Precision>>
    : cuda::ActivationOp<GeluTanhFunction, Precision> {
  using cuda::ActivationOp<GeluTanhFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<SiLU, BasicCuda<Kernels, Precision>> : cuda::ActivationOp<SiluFunction, Precision> {
  using cuda::ActivationOp<SiluFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<Sigmoid, BasicCuda<Kernels, Precision>> : cuda::ActivationOp<SigmoidFunction, Precision> {
  using cuda::ActivationOp<SigmoidFunction, Precision>::ActivationOp;
};
template <class Kernels, class Precision>
struct Op<Tanh, BasicCuda<Kernels, Precision>> : cuda::ActivationOp<TanhFunction, Precision> {
  using cuda::ActivationOp<TanhFunction, Precision>::ActivationOp;
};

template <class Kernels, class Precision>
class Op<Softmax, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::softmax_forward(p.device.compute, o.x[0], p.rows(shape_), detail::row_size(shape_), o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::softmax_gradient(p.device.compute, static_cast<T const*>(o.y), o.dy, p.rows(shape_),
                           detail::row_size(shape_), o.dx[0]);
  }

 private:
  Shape shape_;
};

template <class Kernels, class Precision>
class Op<SwiGlu, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::swiglu_forward(p.device.compute, o.x[0], p.rows(shape_), detail::row_size(shape_), o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::swiglu_gradient(p.device.compute, o.x[0], o.dy, p.rows(shape_), detail::row_size(shape_),
                          o.dx[0]);
  }

 private:
  Shape shape_;
};

}  // namespace tandem
