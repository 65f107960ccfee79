// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MaxPool2d, AvgPool2d, GlobalAvgPool and Subsample2d on Host, portable kernels.

#include <tandem/kernels/host/avg_pool.hpp>
#include <tandem/kernels/host/global_avg_pool.hpp>
#include <tandem/kernels/host/max_pool.hpp>
#include <tandem/kernels/host/subsample.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/subsample2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// saved holds the winning cell of every window, so neither x nor y is read by backward.
template <class T>
class MaxPoolOp {
 public:
  MaxPoolOp(OpSetup const& setup, PoolGeometry const& geometry)
      : geometry_{geometry},
        saved_{setup.batch * setup.node.out.elements() *
               static_cast<std::int64_t>(sizeof(std::int32_t))} {}

  [[nodiscard]] OpNeeds needs() const { return {.saved_bytes = saved_}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    max_pool_forward(p.device.team, geometry_, p.batch, o.x[0], o.y,
                     reinterpret_cast<std::int32_t*>(o.saved));
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    max_pool_gradient(p.device.team, geometry_, p.batch, o.dy,
                      reinterpret_cast<std::int32_t const*>(o.saved), o.dx[0]);
  }

 private:
  PoolGeometry geometry_;
  std::int64_t saved_;
};

template <class T>
class AvgPoolOp {
 public:
  AvgPoolOp(PoolGeometry const& geometry, bool count_padding)
      : geometry_{geometry}, count_padding_{count_padding} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    avg_pool_forward(p.device.team, geometry_, p.batch, count_padding_, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    avg_pool_gradient(p.device.team, geometry_, p.batch, count_padding_, o.dy, o.dx[0]);
  }

 private:
  PoolGeometry geometry_;
  bool count_padding_;
};

template <class T>
class GlobalAvgPoolOp {
 public:
  explicit GlobalAvgPoolOp(OpSetup const& setup)
      : channels_{setup.node.in[0]}, pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    global_avg_pool_forward(p.device.team, p.batch, channels_, pixels_, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    global_avg_pool_gradient(p.device.team, p.batch, channels_, pixels_, o.dy, o.dx[0]);
  }

 private:
  int channels_;
  std::int64_t pixels_;
};

template <class T>
class SubsampleOp {
 public:
  SubsampleOp(OpSetup const& setup, int step)
      : geometry_{setup.node.in[0], setup.node.out[0], {setup.node.in[1], setup.node.in[2]}, step} {
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    subsample_forward(p.device.team, geometry_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    subsample_gradient(p.device.team, geometry_, p.batch, o.dy, o.dx[0]);
  }

 private:
  SubsampleGeometry geometry_;
};

}  // namespace host

template <class... Options, class Precision>
struct Op<MaxPool2d<Options...>, BasicHost<Portable, Precision>>
    : host::MaxPoolOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::MaxPoolOp<typename Precision::Scalar>{
            setup,
            detail::own_geometry(MaxPool2d<Options...>::geometry(setup.node.in), setup.node)} {}
};

template <class... Options, class Precision>
struct Op<AvgPool2d<Options...>, BasicHost<Portable, Precision>>
    : host::AvgPoolOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::AvgPoolOp<typename Precision::Scalar>{
            detail::own_geometry(AvgPool2d<Options...>::geometry(setup.node.in), setup.node),
            AvgPool2d<Options...>::options.count_padding} {}
};

template <class Precision>
struct Op<GlobalAvgPool, BasicHost<Portable, Precision>>
    : host::GlobalAvgPoolOp<typename Precision::Scalar> {
  using host::GlobalAvgPoolOp<typename Precision::Scalar>::GlobalAvgPoolOp;
};

template <int Out, int Step, class Precision>
struct Op<Subsample2d<Out, Step>, BasicHost<Portable, Precision>>
    : host::SubsampleOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup) : host::SubsampleOp<typename Precision::Scalar>{setup, Step} {}
};

}  // namespace tandem
