// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReLU and Dropout on Cuda.

#include <tandem/kernels/cuda/dropout.cuh>
#include <tandem/kernels/cuda/relu.cuh>
#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/ops/dropout_columns.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

namespace cuda {

/// y is there already where the Linear before it applies it.
template <class T, class P>
class ReluOp {
 public:
  ReluOp(OpSetup const& setup, RankDevice&)
      : shape_{setup.node.out}, applied_{setup.node.fusion.activated_by >= 0} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (!applied_) {
      relu_forward(p.device.compute, o.x[0], o.y, p.elements(shape_));
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    relu_gradient(p.device.compute, o.y, o.dy, o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
  bool applied_;
};

/// Elements of a sequence count as (t, c), so that a short step or padding changes no mask.
template <class T, class P>
class DropoutOp {
 public:
  DropoutOp(OpSetup const& setup, double rate)
      : shape_{setup.node.out},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)},
        columns_{dropout_columns(setup)},
        summed_{setup.node.fusion.summed_by >= 0} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (!summed_) {
      drop(p, p.training ? rate_ : 0.0F, o.x[0], o.y);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    drop(p, rate_, o.dy, o.dx[0]);
  }

 private:
  void drop(Pass<RankDevice> const& p, float rate, T const* from, T* to) const {
    Stream const& stream = p.device.compute;
    if (p.sequence.is_chunk()) {
      drop_columns(stream, dropout_rows(shape_, p), chunk_columns(columns_, shape_, p), source(p),
                   rate, from, to);
    } else if (columns_.runs > 0 && shape_.rank != 3) {
      drop_columns(stream, dropout_rows(shape_, p), columns_, source(p), rate, from, to);
    } else {
      dropout_forward(stream, p.batch, channels(p), pixels(), source(p), rate, from, to);
    }
  }
  [[nodiscard]] DropoutSource source(Pass<RankDevice> const& p) const {
    // Of an image a rank has neighbouring channels; runs of rows have places of their own.
    std::int64_t const first = shape_.rank == 3 ? columns_.at[0] : 0;
    return {&p.state->seed, &p.state->step, layer_, static_cast<std::uint32_t>(p.first_sample),
            first};
  }

  // Of a map; 1 for a vector and for a sequence, whose elements are channels.
  [[nodiscard]] int pixels() const { return shape_.rank == 3 ? shape_[1] * shape_[2] : 1; }
  [[nodiscard]] int channels(Pass<RankDevice> const& p) const {
    return static_cast<int>(shape_.elements(p.time) / pixels());
  }

  Shape shape_;
  std::uint32_t layer_;
  float rate_;
  DropoutColumns columns_;
  bool summed_;  // y is x, which the norm behind the sum drops from
};

}  // namespace cuda

template <class Kernels, class Precision>
struct Op<ReLU, BasicCuda<Kernels, Precision>>
    : cuda::ReluOp<typename Precision::Scalar, typename Precision::Master> {
  using cuda::ReluOp<typename Precision::Scalar, typename Precision::Master>::ReluOp;
};

template <class Rate, class Kernels, class Precision>
struct Op<Dropout<Rate>, BasicCuda<Kernels, Precision>>
    : cuda::DropoutOp<typename Precision::Scalar, typename Precision::Master> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::DropoutOp<typename Precision::Scalar, typename Precision::Master>{
            setup, Dropout<Rate>::rate} {}
};

}  // namespace tandem
