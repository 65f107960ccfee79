// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MaxPool2d, AvgPool2d, GlobalAvgPool and Subsample2d on Cuda.

#include <tandem/kernels/cuda/avg_pool.cuh>
#include <tandem/kernels/cuda/global_avg_pool.cuh>
#include <tandem/kernels/cuda/max_pool.cuh>
#include <tandem/kernels/cuda/subsample.cuh>
#include <tandem/kernels/functors/window_cells.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/subsample2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// saved holds the winning cell of every window, so neither x nor y is read by backward: one byte
/// each, or four for windows of more than 255 cells. y may be a slice of wider pixels.
template <class T, class P>
class MaxPoolOp {
 public:
  MaxPoolOp(OpSetup const& setup, PoolGeometry const& geometry)
      : geometry_{geometry},
        y_stride_{setup.y_stride},
        saved_{setup.batch * setup.node.out.elements() *
               (cell_fits_byte(geometry.window) ? 1 : 4)} {}

  [[nodiscard]] OpNeeds needs() const { return {.saved_bytes = saved_}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    with_cells(o, [&](auto* chosen) {
      max_pool_forward(p.device.compute, geometry_, p.batch, o.x[0], o.y, chosen, y_stride_);
    });
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    with_cells(o, [&](auto* chosen) {
      max_pool_gradient(p.device.compute, geometry_, p.batch, o.dy, chosen, o.dx[0], y_stride_);
    });
  }

 private:
  template <class F>
  void with_cells(Operands<T, P> const& o, F const& f) const {
    if (cell_fits_byte(geometry_.window)) {
      f(reinterpret_cast<std::uint8_t*>(o.saved));
    } else {
      f(reinterpret_cast<std::int32_t*>(o.saved));
    }
  }

  PoolGeometry geometry_;
  int y_stride_;
  std::int64_t saved_;
};

template <class T, class P>
class AvgPoolOp {
 public:
  AvgPoolOp(OpSetup const& setup, PoolGeometry const& geometry, bool count_padding)
      : geometry_{geometry}, y_stride_{setup.y_stride}, count_padding_{count_padding} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    avg_pool_forward(p.device.compute, geometry_, p.batch, count_padding_, o.x[0], o.y, y_stride_);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    avg_pool_gradient(p.device.compute, geometry_, p.batch, count_padding_, o.dy, o.dx[0],
                      y_stride_);
  }

 private:
  PoolGeometry geometry_;
  int y_stride_;
  bool count_padding_;
};

template <class T, class P>
class GlobalAvgPoolOp {
 public:
  GlobalAvgPoolOp(OpSetup const& setup, RankDevice&)
      : channels_{setup.node.in[0]}, pixels_{setup.node.in[1] * setup.node.in[2]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    global_avg_pool_forward(p.device.compute, p.batch, channels_, pixels_, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    global_avg_pool_gradient(p.device.compute, p.batch, channels_, pixels_, o.dy, o.dx[0]);
  }

 private:
  int channels_;
  int pixels_;
};

template <class T, class P>
class SubsampleOp {
 public:
  SubsampleOp(OpSetup const& setup, int step)
      : geometry_{setup.node.in[0], setup.node.out[0], {setup.node.in[1], setup.node.in[2]}, step} {
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    subsample_forward(p.device.compute, geometry_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    subsample_gradient(p.device.compute, geometry_, p.batch, o.dy, o.dx[0]);
  }

 private:
  SubsampleGeometry geometry_;
};

}  // namespace cuda

template <class... Options, class Kernels, class Precision>
struct Op<MaxPool2d<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::MaxPoolOp<typename Precision::Scalar, typename Precision::Master> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::MaxPoolOp<typename Precision::Scalar, typename Precision::Master>{
            setup, tandem::detail::own_geometry(MaxPool2d<Options...>::geometry(setup.node.in),
                                                setup.node)} {}
};

template <class... Options, class Kernels, class Precision>
struct Op<AvgPool2d<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::AvgPoolOp<typename Precision::Scalar, typename Precision::Master> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::AvgPoolOp<typename Precision::Scalar, typename Precision::Master>{
            setup,
            tandem::detail::own_geometry(AvgPool2d<Options...>::geometry(setup.node.in),
                                         setup.node),
            AvgPool2d<Options...>::options.count_padding} {}
};

template <class Kernels, class Precision>
struct Op<GlobalAvgPool, BasicCuda<Kernels, Precision>>
    : cuda::GlobalAvgPoolOp<typename Precision::Scalar, typename Precision::Master> {
  using cuda::GlobalAvgPoolOp<typename Precision::Scalar,
                              typename Precision::Master>::GlobalAvgPoolOp;
};

template <int Out, int Step, class Kernels, class Precision>
struct Op<Subsample2d<Out, Step>, BasicCuda<Kernels, Precision>>
    : cuda::SubsampleOp<typename Precision::Scalar, typename Precision::Master> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::SubsampleOp<typename Precision::Scalar, typename Precision::Master>{setup, Step} {}
};

}  // namespace tandem
