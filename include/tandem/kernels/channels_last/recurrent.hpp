// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// InVectors of LstmFunction and GruFunction: their formulas once more, on Floats.

#include <tandem/kernels/channels_last/activations.hpp>
#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/recurrent.hpp>

namespace tandem::host::channels_last {

template <>
struct InVectors<LstmFunction> {
  using State = LstmFunction::State<Floats>;

  [[gnu::always_inline]] static State value(Floats const& i, Floats const& f, Floats const& g,
                                            Floats const& o, Floats const& before) {
    State s;
    s.i = logistic(i);
    s.f = logistic(f);
    s.g = hyperbolic_tangent(g);
    s.o = logistic(o);
    s.c = multiply_add(s.f, before, s.i * s.g);
    s.h = s.o * hyperbolic_tangent(s.c);
    return s;
  }
  [[gnu::always_inline]] static LstmFunction::Gradient<Floats> gradient(State const& s,
                                                                        Floats const& before,
                                                                        Floats const& dh,
                                                                        Floats const& dc) {
    Floats const one{1.0F};
    Floats const t = hyperbolic_tangent(s.c);
    Floats const of_c = multiply_add(dh * s.o, one - t * t, dc);
    return {of_c * s.g * s.i * (one - s.i), of_c * before * s.f * (one - s.f),
            of_c * s.i * (one - s.g * s.g), dh * t * s.o * (one - s.o), of_c * s.f};
  }
};

template <>
struct InVectors<GruFunction> {
  using State = GruFunction::State<Floats>;

  [[gnu::always_inline]] static State value(Floats const& r, Floats const& z,
                                            Floats const& of_input, Floats const& of_state,
                                            Floats const& before) {
    State s;
    s.r = logistic(r);
    s.z = logistic(z);
    s.of_state = of_state;
    s.n = hyperbolic_tangent(multiply_add(s.r, of_state, of_input));
    s.h = multiply_add(s.z, before - s.n, s.n);
    return s;
  }
  [[gnu::always_inline]] static GruFunction::Gradient<Floats> gradient(State const& s,
                                                                       Floats const& before,
                                                                       Floats const& dh) {
    Floats const one{1.0F};
    Floats const of_n = dh * (one - s.z) * (one - s.n * s.n);
    return {of_n * s.of_state * s.r * (one - s.r), dh * (before - s.n) * s.z * (one - s.z), of_n,
            of_n * s.r, dh * s.z};
  }
};

}  // namespace tandem::host::channels_last
