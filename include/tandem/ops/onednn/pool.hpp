// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MaxPool2d, AvgPool2d, GlobalAvgPool and Subsample2d on Host, channels-last.
///
/// The pools read and write slices of channels of wider pixels.

#include <tandem/kernels/channels_last/avg_pool.hpp>
#include <tandem/kernels/channels_last/global_avg_pool.hpp>
#include <tandem/kernels/channels_last/max_pool.hpp>
#include <tandem/kernels/channels_last/subsample.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/subsample2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

/// Elements from pixel to pixel of an op's input and output.
struct Strides {
  explicit Strides(OpSetup const& setup)
      : x{setup.x_stride > 0 ? setup.x_stride : setup.node.in[0]},
        y{setup.y_stride > 0 ? setup.y_stride : setup.node.out[0]} {}

  std::int64_t x;
  std::int64_t y;
};

/// saved holds the winning cell of every window, so neither x nor y is read by backward: one byte
/// each, or four for windows of more than 255 cells.
template <class T, class P>
class MaxPoolOp {
 public:
  MaxPoolOp(OpSetup const& setup, PoolGeometry const& geometry)
      : geometry_{geometry},
        strides_{setup},
        saved_{setup.batch * setup.node.out.elements() *
               (cell_fits_byte(geometry.window) ? 1 : 4)} {}

  [[nodiscard]] OpNeeds needs() const { return {.saved_bytes = saved_}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    with_cells(o, [&](auto* cells) {
      channels_last::max_pool_forward(p.device.team, geometry_, p.batch, o.x[0], strides_.x, o.y,
                                      strides_.y, cells);
    });
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    with_cells(o, [&](auto const* cells) {
      channels_last::max_pool_gradient(p.device.team, geometry_, p.batch, o.dy, strides_.y, cells,
                                       o.dx[0], strides_.x);
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
  Strides strides_;
  std::int64_t saved_;
};

template <class T, class P>
class AvgPoolOp {
 public:
  AvgPoolOp(OpSetup const& setup, PoolGeometry const& geometry, bool count_padding)
      : geometry_{geometry}, strides_{setup}, count_padding_{count_padding} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::avg_pool_forward(p.device.team, geometry_, p.batch, count_padding_, o.x[0],
                                    strides_.x, o.y, strides_.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::avg_pool_gradient(p.device.team, geometry_, p.batch, count_padding_, o.dy,
                                     strides_.y, o.dx[0], strides_.x);
  }

 private:
  PoolGeometry geometry_;
  Strides strides_;
  bool count_padding_;
};

template <class T, class P>
class GlobalAvgPoolOp {
 public:
  explicit GlobalAvgPoolOp(OpSetup const& setup)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        stride_{Strides{setup}.x} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::global_avg_pool_forward(p.device.team, p.batch, channels_, pixels_, o.x[0],
                                           stride_, o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::global_avg_pool_gradient(p.device.team, p.batch, channels_, pixels_, o.dy,
                                            o.dx[0], stride_);
  }

 private:
  int channels_;
  std::int64_t pixels_;
  std::int64_t stride_;
};

template <class T, class P>
class SubsampleOp {
 public:
  SubsampleOp(OpSetup const& setup, int step)
      : geometry_{setup.node.in[0], setup.node.out[0], {setup.node.in[1], setup.node.in[2]}, step} {
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::subsample_forward(p.device.team, geometry_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::subsample_gradient(p.device.team, geometry_, p.batch, o.dy, o.dx[0]);
  }

 private:
  SubsampleGeometry geometry_;
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<MaxPool2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::MaxPoolOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::MaxPoolOp<typename Precision::Scalar, typename Precision::Master>{
            setup,
            detail::own_geometry(MaxPool2d<Options...>::geometry(setup.node.in), setup.node)} {}
};

template <class... Options, class Precision>
struct Op<AvgPool2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::AvgPoolOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::AvgPoolOp<typename Precision::Scalar, typename Precision::Master>{
            setup, detail::own_geometry(AvgPool2d<Options...>::geometry(setup.node.in), setup.node),
            AvgPool2d<Options...>::options.count_padding} {}
};

template <class Precision>
struct Op<GlobalAvgPool, BasicHost<OneDnn, Precision>>
    : host::channels_last::GlobalAvgPoolOp<typename Precision::Scalar, typename Precision::Master> {
  using host::channels_last::GlobalAvgPoolOp<typename Precision::Scalar,
                                             typename Precision::Master>::GlobalAvgPoolOp;
};

template <int Out, int Step, class Precision>
struct Op<Subsample2d<Out, Step>, BasicHost<OneDnn, Precision>>
    : host::channels_last::SubsampleOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::SubsampleOp<typename Precision::Scalar, typename Precision::Master>{
            setup, Step} {}
};

}  // namespace tandem
