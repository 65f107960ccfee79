// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LastRow and MeanOverTime on Host, with oneDNN and without.

#include <type_traits>

#include <tandem/kernels/functors/time_pool.hpp>
#include <tandem/kernels/host/time_pool.hpp>
#include <tandem/layers/time_pool.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Neither reads x or y in backward.
template <class T, class P, bool Mean>
class TimePoolOp {
 public:
  explicit TimePoolOp(OpSetup const& setup) : channels_{setup.node.in[1]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    if constexpr (Mean) {
      mean_over_time_forward(p.device.team, rows(p), o.x[0], o.y);
    } else {
      last_row_forward(p.device.team, rows(p), o.x[0], o.y);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    using Share = std::conditional_t<Mean, MeanShare, LastRowShare>;
    time_pool_gradient<Share>(p.device.team, rows(p), o.dy, o.dx[0]);
  }

 private:
  [[nodiscard]] TimeRows rows(Pass<Device> const& p) const {
    return {p.batch, p.time, channels_, p.lengths};
  }

  int channels_;
};

}  // namespace host

template <class Kernels, class Precision>
struct Op<LastRow, BasicHost<Kernels, Precision>>
    : host::TimePoolOp<typename Precision::Scalar, typename Precision::Master, false> {
  using host::TimePoolOp<typename Precision::Scalar, typename Precision::Master, false>::TimePoolOp;
};

template <class Kernels, class Precision>
struct Op<MeanOverTime, BasicHost<Kernels, Precision>>
    : host::TimePoolOp<typename Precision::Scalar, typename Precision::Master, true> {
  using host::TimePoolOp<typename Precision::Scalar, typename Precision::Master, true>::TimePoolOp;
};

}  // namespace tandem
