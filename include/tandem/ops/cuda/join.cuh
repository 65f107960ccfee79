// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The joins of a graph on Cuda: Concat copies channels, Add sums its inputs,
/// Multiply multiplies them.

#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/concat.cuh>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/product.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <class Kernels, class Precision>
class Op<ConcatJoin, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  /// @throws ContractError  it joins more than 64 inputs
  Op(OpSetup const& setup, cuda::RankDevice&) : out_{setup.node.out} {
    expects(setup.node.edges <= cuda::most_pointers,
            "Concat on Cuda: join at most 64 branches; nest Concats for more");
    for (int i = 0; i < setup.node.edges; ++i) {
      channels_.push_back(setup.inputs[i][channels_axis()]);
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::concat_forward(p.device.compute, pixels(p), cuda::pointers(o.x, parts()),
                         channels_.data(), o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::concat_gradient(p.device.compute, pixels(p), cuda::pointers(o.dx, parts()),
                          channels_.data(), o.dy);
  }

 private:
  [[nodiscard]] int parts() const { return static_cast<int>(channels_.size()); }
  [[nodiscard]] int channels_axis() const { return out_.timed ? 1 : 0; }
  // What has channels of its own: pixels, vectors, rows of time.
  [[nodiscard]] std::int64_t pixels(Pass<cuda::RankDevice> const& p) const {
    return p.rows(out_) * (out_.row_elements() / out_[channels_axis()]);
  }

  Shape out_;
  std::vector<int> channels_;  // of each input
};

/// Its gradient is a view: the engine gives both inputs the gradient of the sum.
template <class Kernels, class Precision>
class Op<AddJoin, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&)
      : shape_{setup.node.out}, summed_{setup.node.fusion.summed_by >= 0} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    if (!summed_) {
      cuda::sum(p.device.compute, o.x, 2, o.y, p.elements(shape_));
    }
  }

 private:
  Shape shape_;
  bool summed_;  // by the norm behind it
};

template <class Kernels, class Precision>
class Op<MultiplyJoin, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  /// @throws ContractError  it joins more than 64 inputs
  Op(OpSetup const& setup, cuda::RankDevice&) : shape_{setup.node.out}, factors_{setup.node.edges} {
    expects(factors_ <= cuda::most_pointers,
            "Multiply on Cuda: join at most 64 branches; nest Multiplies for more");
  }

  [[nodiscard]] OpNeeds needs() const { return {.input = true}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::product(p.device.compute, cuda::pointers(o.x, factors_), o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::product_gradient(p.device.compute, o.x, factors_, o.dy, o.dx, p.elements(shape_));
  }

 private:
  Shape shape_;
  int factors_;
};

}  // namespace tandem
