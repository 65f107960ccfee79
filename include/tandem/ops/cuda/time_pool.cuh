// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LastRow and MeanOverTime on Cuda.

#include <type_traits>

#include <tandem/kernels/cuda/time_pool.cuh>
#include <tandem/kernels/functors/time_pool.hpp>
#include <tandem/layers/time_pool.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Neither reads x or y in backward.
template <class Precision, bool Mean>
class TimePoolOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  TimePoolOp(OpSetup const& setup, RankDevice&) : channels_{setup.node.in[1]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if constexpr (Mean) {
      mean_over_time_forward(p.device.compute, rows(p), o.x[0], o.y);
    } else {
      last_row_forward(p.device.compute, rows(p), o.x[0], o.y);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    using Share = std::conditional_t<Mean, MeanShare, LastRowShare>;
    time_pool_gradient<Share>(p.device.compute, rows(p), o.dy, o.dx[0]);
  }

 private:
  [[nodiscard]] TimeRows rows(Pass<RankDevice> const& p) const {
    return {p.batch, p.time, channels_, p.lengths};
  }

  int channels_;
};

}  // namespace cuda

template <class Kernels, class Precision>
struct Op<LastRow, BasicCuda<Kernels, Precision>> : cuda::TimePoolOp<Precision, false> {
  using cuda::TimePoolOp<Precision, false>::TimePoolOp;
};

template <class Kernels, class Precision>
struct Op<MeanOverTime, BasicCuda<Kernels, Precision>> : cuda::TimePoolOp<Precision, true> {
  using cuda::TimePoolOp<Precision, true>::TimePoolOp;
};

}  // namespace tandem
