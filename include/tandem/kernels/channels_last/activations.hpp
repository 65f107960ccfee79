// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// InVectors<Function>: the functions of kernels/functors/activations.hpp on Floats.
///
/// The same formulas once more: nvcc lets no function that a device may call see a vector.

#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/activations.hpp>

namespace tandem::host::channels_last {

template <class Function>
struct InVectors;

template <>
struct InVectors<GeluFunction> {
  [[gnu::always_inline]] static Floats value(Floats const& x) { return x * normal(x).cumulative; }
  [[gnu::always_inline]] static Floats gradient(Floats const& x, Floats const& dy) {
    elementary::Normal<Floats> const at = normal(x);
    return dy * multiply_add(x, at.density, at.cumulative);
  }
};

template <>
struct InVectors<GeluTanhFunction> {
  [[gnu::always_inline]] static Floats value(Floats const& x) { return x * logistic(twice_u(x)); }
  [[gnu::always_inline]] static Floats gradient(Floats const& x, Floats const& dy) {
    Floats const slope = multiply_add(x * x, constant(3 * GeluTanhFunction::cubic),
                                      constant(GeluTanhFunction::linear));
    Floats const s = logistic(twice_u(x));
    return dy * (s + x * (s * (Floats{1.0F} - s)) * slope);
  }

 private:
  [[gnu::always_inline]] static Floats constant(double value) {
    return Floats{static_cast<float>(value)};
  }
  [[gnu::always_inline]] static Floats twice_u(Floats const& x) {
    return x * multiply_add(x * x, constant(GeluTanhFunction::cubic),
                            constant(GeluTanhFunction::linear));
  }
};

template <>
struct InVectors<SiluFunction> {
  [[gnu::always_inline]] static Floats value(Floats const& x) { return x * logistic(x); }
  [[gnu::always_inline]] static Floats gradient(Floats const& x, Floats const& dy) {
    Floats const one{1.0F};
    Floats const s = logistic(x);
    return dy * (s * multiply_add(x, one - s, one));
  }
};

template <>
struct InVectors<SigmoidFunction> {
  [[gnu::always_inline]] static Floats value(Floats const& x) { return logistic(x); }
  [[gnu::always_inline]] static Floats gradient(Floats const& y, Floats const& dy) {
    return dy * (y * (Floats{1.0F} - y));
  }
};

template <>
struct InVectors<TanhFunction> {
  [[gnu::always_inline]] static Floats value(Floats const& x) { return hyperbolic_tangent(x); }
  [[gnu::always_inline]] static Floats gradient(Floats const& y, Floats const& dy) {
    return dy * (Floats{1.0F} - y * y);
  }
};

template <>
struct InVectors<SwiGluFunction> {
  [[gnu::always_inline]] static Floats value(Floats const& gate, Floats const& up) {
    return InVectors<SiluFunction>::value(gate) * up;
  }
  [[gnu::always_inline]] static SwiGluFunction::Gradient<Floats> gradient(Floats const& gate,
                                                                          Floats const& up,
                                                                          Floats const& dy) {
    return {InVectors<SiluFunction>::gradient(gate, dy * up),
            dy * InVectors<SiluFunction>::value(gate)};
  }
};

}  // namespace tandem::host::channels_last
