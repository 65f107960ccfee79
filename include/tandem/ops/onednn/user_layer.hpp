// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A user's own layer, loss and metric on Host, channels-last: they see (B, C, H, W) of P as on the
/// portable backend, by way of scratch memory.

#include <algorithm>
#include <span>
#include <utility>

#include <tandem/layers/loss.hpp>
#include <tandem/ops/host/user_layer.hpp>
#include <tandem/ops/onednn/user_order.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Cost: copies x and y (forward), and dy and dx (backward), where order or type differ.
template <class L, class Precision>
  requires HostLayer<L, typename Precision::Master>
class Op<L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup)
      : in_{setup.node.in},
        out_{setup.node.out},
        list_{parameters_of<L>(setup.node.in)},
        in_order_{in_},
        out_order_{out_},
        in_rows_{static_cast<int>(in_.rows(setup.batch, in_[0]))},
        out_rows_{static_cast<int>(out_.rows(setup.batch, out_[0]))} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .output = true,
            .scratch_bytes = 2 * (in_order_.elements(in_rows_) + out_order_.elements(out_rows_)) *
                             static_cast<std::int64_t>(sizeof(P))};
  }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    Memory const m = memory(p);
    LayerCall<P> call = empty_call(o, p);
    call.x = inputs(in_order_.read(p.device, rows(p, in_), o.x[0], m.x), p);
    call.y = outputs(out_order_.writable(o.y, m.y), p);
    L::forward(std::as_const(call));
    out_order_.write(p.device, rows(p, out_), m.y, o.y);
  }

  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    LayerCall<P> call = backward_call(o, p);
    Memory const m = memory(p);
    call.dx = inputs(in_order_.writable(o.dx[0], m.dx), p);
    L::input_gradient(std::as_const(call));
    in_order_.write(p.device, rows(p, in_), m.dx, o.dx[0]);
  }

  void weight_gradient(Operands<T, P> const& o,
                       Pass<host::Device> const& p) const requires HostLayerWithWeights<L, P> {
    LayerCall<P> const call = backward_call(o, p);
    if (!p.accumulate) {
      for (int i = 0; i < list_.count; ++i) {
        std::ranges::fill(call.gradient(i), P{0});
      }
    }
    L::weight_gradient(call);
  }

 private:
  struct Memory {
    P* x;
    P* y;
    P* dy;
    P* dx;
  };
  [[nodiscard]] static int rows(Pass<host::Device> const& p, Shape const& shape) {
    return static_cast<int>(p.rows(shape));
  }
  [[nodiscard]] Memory memory(Pass<host::Device> const& p) const {
    P* const x = p.device.template scratch_as<P>();
    P* const y = x + in_order_.elements(in_rows_);
    P* const dy = y + out_order_.elements(out_rows_);
    return {x, y, dy, dy + out_order_.elements(out_rows_)};
  }

  template <class E>
  [[nodiscard]] std::span<E> inputs(E* data, Pass<host::Device> const& p) const {
    return {data, data != nullptr ? static_cast<std::size_t>(p.elements(in_)) : 0};
  }
  template <class E>
  [[nodiscard]] std::span<E> outputs(E* data, Pass<host::Device> const& p) const {
    return {data, data != nullptr ? static_cast<std::size_t>(p.elements(out_)) : 0};
  }

  [[nodiscard]] LayerCall<P> empty_call(Operands<T, P> const& o,
                                        Pass<host::Device> const& p) const {
    return {.batch = p.batch,
            .in = detail::at_time(in_, p.time),
            .out = detail::at_time(out_, p.time),
            .training = p.training,
            .parameter_memory = o.parameter,
            .gradient_memory = o.gradient,
            .list = &list_,
            .team = &p.device.team};
  }

  // x, y and dy; in a pass that reads y nobody writes it.
  [[nodiscard]] LayerCall<P> backward_call(Operands<T, P> const& o,
                                           Pass<host::Device> const& p) const {
    Memory const m = memory(p);
    LayerCall<P> call = empty_call(o, p);
    call.x = inputs(in_order_.read(p.device, rows(p, in_), o.x[0], m.x), p);
    call.y = outputs(const_cast<P*>(out_order_.read(p.device, rows(p, out_), o.y, m.y)), p);
    call.dy = outputs(out_order_.read(p.device, rows(p, out_), o.dy, m.dy), p);
    return call;
  }

  Shape in_;
  Shape out_;
  Parameters list_;
  host::channels_last::UserOrder<T, P> in_order_;
  host::channels_last::UserOrder<T, P> out_order_;
  int in_rows_;  // at most
  int out_rows_;
};

template <class L, class Precision>
  requires HostLoss<L, typename Precision::Master>
class LossOp<L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int batch)
      : samples_{static_cast<std::size_t>(output.elements()),
                 static_cast<std::size_t>(L::targets(output))},
        order_{output},
        elements_{order_.elements(batch)} {}

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return 2 * elements_ * static_cast<std::int64_t>(sizeof(P));
  }

  void forward(Pass<host::Device> const& p, T const* output, Target const* target,
               double* loss) const {
    P const* const y = order_.read(p.device, p.batch, output, p.device.template scratch_as<P>());
    *loss = samples_.sum(p.batch, y, target);
  }
  void gradient(Pass<host::Device> const& p, T const* output, Target const* target, double scale,
                T* dy) const {
    P* const memory = p.device.template scratch_as<P>();
    P const* const y = order_.read(p.device, p.batch, output, memory);
    P* const gradient = order_.writable(dy, memory + elements_);
    samples_.gradient(p.batch, y, target, scale, gradient);
    order_.write(p.device, p.batch, memory + elements_, dy);
  }

 private:
  detail::OwnSamples<L, P, Target> samples_;
  host::channels_last::UserOrder<T, P> order_;
  std::int64_t elements_;
};

template <class M, class L, class Precision>
  requires HostMetric<M, L, typename Precision::Master>
class MetricOp<M, L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit MetricOp(Shape output)
      : samples_{static_cast<std::size_t>(output.elements()),
                 static_cast<std::size_t>(L::targets(output))},
        order_{output} {}

  /// For microbatches of at most @p batch samples.
  [[nodiscard]] std::int64_t scratch_bytes(int batch) const {
    return order_.elements(batch) * static_cast<std::int64_t>(sizeof(P));
  }

  void count(Pass<host::Device> const& p, T const* output, typename L::Target const* target,
             double* sum) const {
    P const* const y = order_.read(p.device, p.batch, output, p.device.template scratch_as<P>());
    *sum = samples_.template sum<L>(p.batch, y, target);
  }

 private:
  detail::OwnSamples<M, P, typename L::Target> samples_;
  host::channels_last::UserOrder<T, P> order_;
};

/// Nothing is converted for it.
template <class L, class Precision>
class MetricOp<NoMetric, L, BasicHost<OneDnn, Precision>> {
 public:
  explicit MetricOp(Shape /*output*/) {}

  void count(Pass<host::Device> const& /*p*/, typename Precision::Scalar const* /*output*/,
             typename L::Target const* /*target*/, double* sum) const {
    *sum = 0.0;
  }
};

}  // namespace tandem
