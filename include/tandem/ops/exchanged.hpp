// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ExchangedConvolution: a transposed convolution, without its bias, by the op of the convolution
/// whose gradient it is.

#include <cstdint>

#include <tandem/core/geometry.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

namespace detail {

/// What that convolution is prepared for: both of its gradients are wanted, in any network.
inline OpSetup exchanged(OpSetup setup) {
  setup.wants_input_gradient = true;
  return setup;
}

/// Our y is its dx, our x is its dy, our dy its x and our dx its y.
template <class Convolution, class T, class P>
class ExchangedConvolution {
 public:
  template <class... Arguments>
  explicit ExchangedConvolution(OpSetup const& setup, Arguments&&... arguments)
      : convolution_{exchanged(setup), arguments...} {}

  [[nodiscard]] OpNeeds needs() const { return convolution_.needs(); }

  template <class Device>
  void pack(Operands<T, P> const& o, Device& device) {
    convolution_.pack(o, device);
  }
  template <class AnyPass>
  void forward(Operands<T, P> const& o, AnyPass const& p) {
    T* const dx[] = {o.y};
    Operands<T, P> its = o;
    its.dy = o.x[0];
    its.dx = dx;
    convolution_.input_gradient(its, p);
  }
  template <class AnyPass>
  void input_gradient(Operands<T, P> const& o, AnyPass const& p) {
    T const* const x[] = {o.dy};
    Operands<T, P> its = o;
    its.x = x;
    its.y = o.dx[0];
    convolution_.forward(its, p);
  }
  template <class AnyPass>
  void weight_gradient(Operands<T, P> const& o, AnyPass const& p) {
    T const* const x[] = {o.dy};
    Operands<T, P> its = o;
    its.x = x;
    its.dy = o.x[0];
    convolution_.weight_gradient(its, p);
  }

 private:
  Convolution convolution_;
};

}  // namespace detail

}  // namespace tandem
