// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own rules of Join on Host: an ElementJoin, with oneDNN and without; and a rule that
/// brings its passes, static functions of the type itself.
///
/// Such a rule gives `forward(auto const& call)` and `input_gradient(auto const& call)`, where call
/// is a JoinCall<float> or <double>.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/layers/own_join.hpp>
#include <tandem/ops/host/user_layer.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// What a user's join sees of one pass over one microbatch of `batch` samples.
///
/// forward writes y; input_gradient writes dx(i), each that is not empty: an input that needs no
/// gradient has none. x and y are there in both.
template <class T>
struct JoinCall {
  int batch = 0;
  int inputs = 0;  ///< as many as branches
  bool training = true;
  Shape out{};
  std::span<T> y{};         ///< (batch, out)
  std::span<T const> dy{};  ///< (batch, out)
  Shape const* shapes = nullptr;
  T const* const* values = nullptr;
  T* const* gradients = nullptr;
  host::Team* team = nullptr;  ///< the device's threads; null: the caller's alone

  [[nodiscard]] Shape const& in(int i) const { return shapes[i]; }
  [[nodiscard]] std::span<T const> x(int i) const { return {values[i], elements(i)}; }
  [[nodiscard]] std::span<T> dx(int i) const {
    T* const data = gradients != nullptr ? gradients[i] : nullptr;
    return {data, data != nullptr ? elements(i) : 0};
  }

  /// As those of LayerCall.
  template <class F>
  void for_each(std::size_t n, F const& f) const {
    LayerCall<T>{.team = team}.for_each(n, f);
  }
  template <class F>
  void for_each_sample(F const& f) const {
    for_each(static_cast<std::size_t>(batch), f);
  }

 private:
  [[nodiscard]] std::size_t elements(int i) const {
    return static_cast<std::size_t>(batch * shapes[i].elements());
  }
};

/// A rule that brings its own passes for Host.
template <class J, class T>
concept HostJoin = JoinRule<J> && requires(JoinCall<T> const& call) {
  J::forward(call);
  J::input_gradient(call);
};

template <class J, class Precision>
  requires HostJoin<J, typename Precision::Scalar>
class Op<J, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup)
      : in_(setup.inputs, setup.inputs + setup.node.edges), at_{in_}, out_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .output = true}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) { J::forward(call(o, p)); }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) {
    J::input_gradient(call(o, p));
  }

 private:
  JoinCall<T> call(Operands<T> const& o, Pass<host::Device> const& p) {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      at_[i] = detail::at_time(in_[i], p.time);
    }
    auto const out = static_cast<std::size_t>(p.elements(out_));
    return {.batch = p.batch,
            .inputs = static_cast<int>(in_.size()),
            .training = p.training,
            .out = detail::at_time(out_, p.time),
            .y = {o.y, out},
            .dy = {o.dy, o.dy != nullptr ? out : 0},
            .shapes = at_.data(),
            .values = o.x,
            .gradients = o.dx,
            .team = &p.device.team};
  }

  std::vector<Shape> in_;
  std::vector<Shape> at_;  // with this step's time
  Shape out_;
};

template <OwnElementJoin J, class Kernels, class Precision>
class Op<J, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::transform(p.device.team, p.elements(shape_),
                    [a = o.x[0], b = o.x[1], y = o.y](std::int64_t i) {
                      y[i] = static_cast<T>(J::value(static_cast<P>(a[i]), static_cast<P>(b[i])));
                    });
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    gradient(o, p, o.dx[0], [](P a, P b) { return J::first_slope(a, b); });
    gradient(o, p, o.dx[1], [](P a, P b) { return J::second_slope(a, b); });
  }

 private:
  template <class Slope>
  void gradient(Operands<T, P> const& o, Pass<host::Device> const& p, T* dx,
                Slope const& slope) const {
    if (dx != nullptr) {
      host::transform(p.device.team, p.elements(shape_),
                      [a = o.x[0], b = o.x[1], dy = o.dy, dx, slope](std::int64_t i) {
                        P const at = slope(static_cast<P>(a[i]), static_cast<P>(b[i]));
                        dx[i] = static_cast<T>(static_cast<P>(dy[i]) * at);
                      });
    }
  }

  Shape shape_;
};

}  // namespace tandem
