// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One number of one row of all samples through an LSTM or a GRU, forward and backward, but for its
/// products: functors for each(), called with sample * hidden + number.
///
/// Products are sums of ComputeType<T>, what is kept and multiplied is T, as on Host. No CUDA
/// header is needed: the tests of the host run them against kernels/host/recurrent.hpp.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/functors/recurrent.hpp>

namespace tandem::cuda {

/// A row of each sample: number j of sample b is first[b * stride + j]. No row where first is null.
template <class E>
struct StateRows {
  E* first = nullptr;
  std::int64_t stride = 0;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr E* of(std::int64_t sample) const {
    return first + sample * stride;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool is() const { return first != nullptr; }
  [[nodiscard]] constexpr StateRows<E const> read() const { return {first, stride}; }
};

/// A flat index as sample and number; the numbers of a row are fewer than 2³².
struct StatePlace {
  std::int64_t sample;
  std::int64_t j;

  TANDEM_HOST_DEVICE constexpr StatePlace(std::int64_t i, std::int64_t width)
      : sample{static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(width)},
        j{static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(width)} {}
};

namespace detail {

/// What of the biases is added to number k of the gates; null: none.
template <class R>
TANDEM_HOST_DEVICE constexpr R with_biases(R sum, R const* const (&bias)[2], std::int64_t k) {
  sum += bias[0] != nullptr ? bias[0][k] : R{0};
  return sum + (bias[1] != nullptr ? bias[1][k] : R{0});
}

}  // namespace detail

/// Cost: reads 5 B H and writes 7 B H elements; five elementary functions each. `c` may be
///       `before`; where T is its own ComputeType `gates` may be `sums`.
template <class T>
struct LstmRow {
  using R = ComputeType<T>;
  RecurrentRow row;
  StateRows<R const> sums{};    ///< (B, 4 H) of products
  R const* bias[2]{};           ///< (4 H) each, or null
  R forget{};                   ///< added to f
  StateRows<T> gates{};         ///< (B, 4 H) i, f, g, o for backward, or none
  StateRows<R const> before{};  ///< (B, H) c of the row before; none: 0
  StateRows<R> c{};             ///< (B, H)
  StateRows<T> h{};             ///< (B, H)
  StateRows<T> also{};          ///< h once more, or none
  StateRows<R> left_c{};        ///< (B, H) behind a sample's last row, or none: may be `before`
  StateRows<T> left_h{};        ///< (B, H) likewise, or none

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const n = row.hidden;
    StatePlace const at{i, n};
    R const* const own = sums.of(at.sample) + at.j;
    R const of_i = detail::with_biases(own[0], bias, at.j);
    R const of_f = detail::with_biases(own[n], bias, n + at.j) + forget;
    R const of_g = detail::with_biases(own[2 * n], bias, 2 * n + at.j);
    R const of_o = detail::with_biases(own[3 * n], bias, 3 * n + at.j);
    R const old = before.is() ? before.of(at.sample)[at.j] : R{0};
    auto s = LstmFunction::value<R>(of_i, of_f, of_g, of_o, old);
    if (!row.counts(at.sample)) {
      s.c = R{0};
      s.h = R{0};
    }
    if (gates.is()) {
      T* const to = gates.of(at.sample) + at.j;
      to[0] = store<T>(s.i);
      to[n] = store<T>(s.f);
      to[2 * n] = store<T>(s.g);
      to[3 * n] = store<T>(s.o);
    }
    c.of(at.sample)[at.j] = s.c;
    h.of(at.sample)[at.j] = store<T>(s.h);
    if (also.is()) {
      also.of(at.sample)[at.j] = store<T>(s.h);
    }
    if (left_c.is() && row.ends(at.sample)) {
      left_c.of(at.sample)[at.j] = s.c;
      if (left_h.is()) {
        left_h.of(at.sample)[at.j] = store<T>(s.h);
      }
    }
  }
};

/// Cost: reads 9 B H and writes 5 B H elements; one elementary function each.
template <class T>
struct LstmRowGradient {
  using R = ComputeType<T>;
  RecurrentRow row;
  StateRows<T> gates{};         ///< (B, 4 H) as LstmRow left them; become their gradients
  StateRows<R const> before{};  ///< (B, H) c of the row before; none: 0
  StateRows<R const> c{};       ///< (B, H)
  StateRows<R const> dh{};      ///< (B, H) of h, from later rows; none: 0
  StateRows<T const> dy{};      ///< (B, H) of h, besides; or none
  R const* later = nullptr;     ///< (B, H) of c, from later rows; null: 0
  R* dc = nullptr;              ///< (B, H) of the row before, which may be `later`

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const n = row.hidden;
    StatePlace const at{i, n};
    T* const own = gates.of(at.sample) + at.j;
    LstmFunction::Gradient<R> d{};
    if (row.counts(at.sample)) {
      LstmFunction::State<R> const s{load(own[0]),     load(own[n]),          load(own[2 * n]),
                                     load(own[3 * n]), c.of(at.sample)[at.j], R{0}};
      R const sum = (dh.is() ? dh.of(at.sample)[at.j] : R{0}) +
                    (dy.is() ? load(dy.of(at.sample)[at.j]) : R{0});
      d = LstmFunction::gradient<R>(s, before.is() ? before.of(at.sample)[at.j] : R{0}, sum,
                                    later != nullptr ? later[i] : R{0});
    }
    own[0] = store<T>(d.i);
    own[n] = store<T>(d.f);
    own[2 * n] = store<T>(d.g);
    own[3 * n] = store<T>(d.o);
    dc[i] = d.c;
  }
};

/// Cost: reads 7 B H and writes 6 B H elements; three elementary functions each. Where T is its own
///       ComputeType `gates` may be `of_input`.
template <class T>
struct GruRow {
  using R = ComputeType<T>;
  RecurrentRow row;
  StateRows<R const> of_input{};  ///< (B, 3 H) of products
  StateRows<R const> of_state{};  ///< (B, 3 H) of products; none: 0
  R const* bias[2]{};             ///< (3 H) of the input's, of the state's, or null
  StateRows<T> gates{};           ///< (B, 3 H) r, z, n for backward, or none
  StateRows<T> kept{};            ///< (B, 3 H) of whose last third is h_n; or none
  StateRows<T const> before{};    ///< (B, H) h of the row before; none: 0
  StateRows<T> h{};               ///< (B, H)
  StateRows<T> also{};            ///< h once more, or none; may be `before`
  StateRows<T> left{};            ///< (B, H) h behind a sample's last row, or none

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const n = row.hidden;
    StatePlace const at{i, n};
    R of_x[3];
    R of_h[3];
    for (int k = 0; k < 3; ++k) {
      std::int64_t const gate = k * n + at.j;
      of_x[k] = of_input.of(at.sample)[gate] + (bias[0] != nullptr ? bias[0][gate] : R{0});
      of_h[k] = (of_state.is() ? of_state.of(at.sample)[gate] : R{0}) +
                (bias[1] != nullptr ? bias[1][gate] : R{0});
    }
    R const old = before.is() ? load(before.of(at.sample)[at.j]) : R{0};
    auto s = GruFunction::value<R>(of_x[0] + of_h[0], of_x[1] + of_h[1], of_x[2], of_h[2], old);
    if (!row.counts(at.sample)) {
      s.h = R{0};
    }
    if (gates.is()) {
      T* const to = gates.of(at.sample) + at.j;
      to[0] = store<T>(s.r);
      to[n] = store<T>(s.z);
      to[2 * n] = store<T>(s.n);
      kept.of(at.sample)[2 * n + at.j] = store<T>(s.of_state);
    }
    h.of(at.sample)[at.j] = store<T>(s.h);
    if (also.is()) {
      also.of(at.sample)[at.j] = store<T>(s.h);
    }
    if (left.is() && row.ends(at.sample)) {
      left.of(at.sample)[at.j] = store<T>(s.h);
    }
  }
};

/// Cost: reads 7 B H and writes 7 B H elements.
template <class T>
struct GruRowGradient {
  using R = ComputeType<T>;
  RecurrentRow row;
  StateRows<T> gates{};         ///< (B, 3 H) as GruRow left them; become gradients of `of_input`
  StateRows<T> kept{};          ///< (B, 3 H) likewise; those of `of_state`
  StateRows<T const> before{};  ///< (B, H) h of the row before
  R const* later = nullptr;     ///< (B, H) of h, from later rows; null: 0
  StateRows<T const> dy{};      ///< (B, H) of h, besides
  R* dh = nullptr;  ///< (B, H) what goes to the row before without a product; may be `later`

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const n = row.hidden;
    StatePlace const at{i, n};
    T* const own = gates.of(at.sample) + at.j;
    T* const of_state = kept.of(at.sample) + at.j;
    GruFunction::Gradient<R> d{};
    if (row.counts(at.sample)) {
      GruFunction::State<R> const s{load(own[0]), load(own[n]), load(own[2 * n]),
                                    load(of_state[2 * n]), R{0}};
      R const sum = (later != nullptr ? later[i] : R{0}) + load(dy.of(at.sample)[at.j]);
      d = GruFunction::gradient<R>(s, load(before.of(at.sample)[at.j]), sum);
    }
    own[0] = store<T>(d.r);
    own[n] = store<T>(d.z);
    own[2 * n] = store<T>(d.n);
    of_state[0] = store<T>(d.r);
    of_state[n] = store<T>(d.z);
    of_state[2 * n] = store<T>(d.of_state);
    dh[i] = d.before;
  }
};

/// A row as it is handed on: rounded, in one place or two; 0 where there is none.
template <class T>
struct HandOn {
  std::int64_t width;
  ComputeType<T> const* x = nullptr;  ///< (B, width); null: 0
  StateRows<T> to{};
  StateRows<T> also{};  ///< or none
  RecurrentRow row{};   ///< of `left`
  StateRows<T> left{};  ///< behind a sample's last row, or none

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    StatePlace const at{i, width};
    T const value = store<T>(x != nullptr ? x[i] : ComputeType<T>{0});
    to.of(at.sample)[at.j] = value;
    if (also.is()) {
      also.of(at.sample)[at.j] = value;
    }
    if (left.is() && row.ends(at.sample)) {
      left.of(at.sample)[at.j] = value;
    }
  }
};

/// A row as the step before has left it, or the chunk before; 0 of samples of which `row` does not
/// count.
template <class T>
struct TakeUp {
  std::int64_t width;
  StateRows<T const> from{};
  StateRows<T> to{};
  RecurrentRow row{};

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    StatePlace const at{i, width};
    to.of(at.sample)[at.j] = row.counts(at.sample) ? from.of(at.sample)[at.j] : T{};
  }
};

/// out = dh + dy where a sample counts, else 0: the gradient of what a projection gives.
template <class T>
struct StateGradientSum {
  RecurrentRow row;
  std::int64_t width;
  ComputeType<T> const* dh = nullptr;  ///< (B, width), from later rows; null: 0
  StateRows<T const> dy{};
  StateRows<T> out{};

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    using R = ComputeType<T>;
    StatePlace const at{i, width};
    R sum{0};
    if (row.counts(at.sample)) {
      sum = (dh != nullptr ? dh[i] : R{0}) + load(dy.of(at.sample)[at.j]);
    }
    out.of(at.sample)[at.j] = store<T>(sum);
  }
};

}  // namespace tandem::cuda
