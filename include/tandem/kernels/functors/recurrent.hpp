// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One number of the state of an LSTM and of a GRU, and its gradients, the same on every backend.
///
/// V is float or double; Host has the same formulas on vectors in kernels/channels_last/
/// recurrent.hpp. What comes in are sums of products and biases, before any σ or tanh.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/elementary.hpp>

namespace tandem {

/// The sizes of one Lstm or Gru.
struct RecurrentShape {
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t handed = 0;   ///< numbers of h: as many, but behind a projection
  std::int64_t longest = 0;  ///< rows of a sample, at most
  int directions = 1;
  int biases = 2;
  int forget_bias = 0;
  bool projected = false;
};

/// One row of all samples. Where a sample has ended state and gradients are 0.
struct RecurrentRow {
  std::int64_t batch = 0;
  std::int64_t hidden = 0;
  int time = 0;  ///< of the row
  std::int32_t const* lengths = nullptr;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool counts(std::int64_t sample) const {
    return lengths == nullptr || time < lengths[sample];
  }
  /// Whether it is the last that counts. Without lengths only the last of all is asked.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool ends(std::int64_t sample) const {
    return lengths == nullptr || time + 1 == lengths[sample];
  }
};

/// c = σ(f) c_before + σ(i) tanh(g), h = σ(o) tanh(c).
struct LstmFunction {
  static constexpr int gates = 4;

  /// The gates behind their σ and tanh, the state, and what is given out.
  template <class V>
  struct State {
    V i, f, g, o;
    V c, h;
  };
  /// Of what went into the gates, and of c_before.
  template <class V>
  struct Gradient {
    V i, f, g, o;
    V c;
  };

  template <class V>
  TANDEM_HOST_DEVICE static State<V> value(V const& i, V const& f, V const& g, V const& o,
                                           V const& before) {
    State<V> s{elementary::logistic(i),
               elementary::logistic(f),
               elementary::hyperbolic_tangent(g),
               elementary::logistic(o),
               V{},
               V{}};
    s.c = s.f * before + s.i * s.g;
    s.h = s.o * elementary::hyperbolic_tangent(s.c);
    return s;
  }
  /// @param s   gates and c; h is not read
  /// @param dc  of c, from later rows
  template <class V>
  TANDEM_HOST_DEVICE static Gradient<V> gradient(State<V> const& s, V const& before, V const& dh,
                                                 V const& dc) {
    V const one{1};
    V const t = elementary::hyperbolic_tangent(s.c);
    V const of_c = dc + dh * s.o * (one - t * t);
    return {of_c * s.g * s.i * (one - s.i), of_c * before * s.f * (one - s.f),
            of_c * s.i * (one - s.g * s.g), dh * t * s.o * (one - s.o), of_c * s.f};
  }
};

/// h = (1 - z) n + z before, n = tanh(x_n + r h_n), r and z sigmoids.
struct GruFunction {
  static constexpr int gates = 3;

  /// r, z and n behind their σ and tanh; `of_state` is h_n.
  template <class V>
  struct State {
    V r, z, n;
    V of_state;
    V h;
  };
  /// Of what went into the gates, of h_n, and of before where it is not read by products.
  template <class V>
  struct Gradient {
    V r, z, n;
    V of_state;
    V before;
  };

  template <class V>
  TANDEM_HOST_DEVICE static State<V> value(V const& r, V const& z, V const& of_input,
                                           V const& of_state, V const& before) {
    State<V> s{elementary::logistic(r), elementary::logistic(z), V{}, of_state, V{}};
    s.n = elementary::hyperbolic_tangent(of_input + s.r * of_state);
    s.h = s.n + s.z * (before - s.n);
    return s;
  }
  /// @param s  h is not read
  template <class V>
  TANDEM_HOST_DEVICE static Gradient<V> gradient(State<V> const& s, V const& before, V const& dh) {
    V const one{1};
    V const of_n = dh * (one - s.z) * (one - s.n * s.n);
    return {of_n * s.of_state * s.r * (one - s.r), dh * (before - s.n) * s.z * (one - s.z), of_n,
            of_n * s.r, dh * s.z};
  }
};

}  // namespace tandem
