// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own ElementJoin on Cuda.

#include <tandem/kernels/cuda/own_join.cuh>
#include <tandem/layers/own_join.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <OwnElementJoin J, class Kernels, class Precision>
class Op<J, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::element_join_forward<J>(p.device.compute, o.x[0], o.x[1], o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    if (o.dx[0] != nullptr) {
      cuda::element_join_gradient<J, true>(p.device.compute, o.x[0], o.x[1], o.dy, o.dx[0],
                                           p.elements(shape_));
    }
    if (o.dx[1] != nullptr) {
      cuda::element_join_gradient<J, false>(p.device.compute, o.x[0], o.x[1], o.dy, o.dx[1],
                                            p.elements(shape_));
    }
  }

 private:
  Shape shape_;
};

}  // namespace tandem
