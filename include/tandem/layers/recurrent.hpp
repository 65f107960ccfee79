// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lstm and Gru: rows of a sequence, each with a state that the rows before it left.

#include <concepts>
#include <cstdint>
#include <string_view>

#include <tandem/graph/layer.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

/// One bias instead of PyTorch's two, whose sum is all that counts.
struct OneBias {
  static constexpr int biases = 1;
};

/// The state of an Lstm that is handed on and given out is a product, of so many numbers.
template <int Size>
struct Projection {
  static constexpr int projection = detail::at_least(1, Size);
  static_assert(Size >= 1, "Projection<Size>: give a positive number");
};

/// Added to the forget gate of an Lstm before its sigmoid, always, and not learnt.
template <int Value>
struct ForgetBias {
  static constexpr int forget_bias = Value;
};

/// A second recurrence from the end of each sample to its beginning, its numbers behind those of
/// the first.
struct Bidirectional {
  static constexpr bool bidirectional = true;
};

/// The state lives on from step to step (truncated backpropagation through time): sample b of a
/// step begins with the state that sample b of the step before has left behind its last row, and no
/// gradient goes back into that one. States begin at 0, at the beginning of each epoch of train(),
/// and with Trainer::reset_state(). See docs/sequences.md, "States that live on".
///
/// PyTorch: `y, state = lstm(x, state)` with `state = [s.detach() for s in state]` before each
/// step.
struct Stateful {
  static constexpr bool stateful = true;
};

template <class Option>
concept GruOption = std::same_as<Option, OneBias> || std::same_as<Option, NoBias> ||
    std::same_as<Option, Bidirectional> || std::same_as<Option, Stateful> || InitOption<Option> ||
    BiasInitOption<Option>;

template <class Option>
concept LstmOption = GruOption<Option> || requires {
  { Option::projection } -> std::convertible_to<int>;
} || requires {
  { Option::forget_bias } -> std::convertible_to<int>;
};

namespace detail {

struct RecurrentOptions {
  int hidden = 1;
  int gates = 4;
  int biases = 2;
  int projection = 0;  // 0: none
  int forget_bias = 0;
  int directions = 1;
  bool stateful = false;

  // Numbers of a direction that are handed on and given out.
  [[nodiscard]] constexpr int handed() const { return projection > 0 ? projection : hidden; }
  [[nodiscard]] constexpr int out() const { return directions * handed(); }
  // Parameters of a direction.
  [[nodiscard]] constexpr int parameters() const { return 2 + biases + (projection > 0 ? 1 : 0); }
};

template <int Hidden, int Gates, class... Options>
constexpr RecurrentOptions recurrent_options() {
  RecurrentOptions all{Hidden, Gates};
  (
      [&] {
        if constexpr (requires { Options::biases; }) {
          all.biases = Options::biases;
        } else if constexpr (requires { Options::bias; }) {
          all.biases = 0;
        } else if constexpr (requires { Options::projection; }) {
          all.projection = Options::projection;
        } else if constexpr (requires { Options::forget_bias; }) {
          all.forget_bias = Options::forget_bias;
        } else if constexpr (requires { Options::bidirectional; }) {
          all.directions = 2;
        } else if constexpr (requires { Options::stateful; }) {
          all.stateful = true;
        }
      }(),
      ...);
  return all;
}

// Of PyTorch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, and the
// same with _reverse.
constexpr Parameters recurrent_parameters(RecurrentOptions const& o, int inputs, Init usual,
                                          Init first_bias, Init second_bias) {
  constexpr char const* names[2][5] = {
      {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"},
      {"weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse",
       "weight_hr_l0_reverse"}};
  Parameters all;
  for (int d = 0; d < o.directions; ++d) {
    int const rows = o.gates * o.hidden;
    all.item[all.count++] = Parameter{names[d][0], {2, {rows, inputs}}, usual};
    all.item[all.count++] = Parameter{names[d][1], {2, {rows, o.handed()}}, usual};
    for (int b = 0; b < o.biases; ++b) {
      all.item[all.count++] =
          Parameter{names[d][2 + b], vector_shape(rows), b == 0 ? first_bias : second_bias};
    }
    if (o.projection > 0) {
      all.item[all.count++] = Parameter{names[d][4], {2, {o.projection, o.hidden}}, usual};
    }
  }
  return all;
}

// What Lstm and Gru have in common.
template <RecurrentOptions O, class... Options>
struct Recurrent {
  static constexpr RecurrentOptions options = O;
  // c of an LSTM, and h.
  static constexpr bool in_chunks = O.directions == 1;
  static constexpr CarriedState hands_on{O.gates == 4 ? O.hidden : 0, O.handed()};
  static constexpr CarriedState carried = O.stateful ? hands_on : CarriedState{};

  static constexpr Fault fault(Shape in) {
    return in.timed && in.rank == 2 ? Fault::none : Fault::not_timed;
  }
  static constexpr Shape output(Shape in) { return timed_shape(in[0], O.out()); }
  static constexpr Parameters parameters(Shape in) {
    Init const usual = Init::uniform_fan_in(O.hidden);
    Init const zero = Init::constant(0.0F);
    Init const bias = (InitOption<Options> || ...) ? zero : usual;
    return recurrent_parameters(O, in[1], init_of<Options...>(usual),
                                bias_init_of<Options...>(bias),
                                (BiasInitOption<Options> || ...) ? zero : bias);
  }
  static constexpr std::int64_t macs(Shape in) {
    std::int64_t const row = std::int64_t{O.gates} * O.hidden * (in[1] + O.handed()) +
                             std::int64_t{O.projection} * O.hidden;
    return in[0] * row * O.directions;
  }
};

// Functions, not the concepts themselves, whose every part clang would explain.
template <int Hidden, class... Options>
constexpr bool lstm_is_sound() {
  return Hidden >= 1 && (LstmOption<Options> && ...);
}
template <class... Options>
constexpr bool state_goes_forward() {
  return !(std::same_as<Options, Stateful> || ...) ||
         !(std::same_as<Options, Bidirectional> || ...);
}
template <int Hidden, class... Options>
constexpr bool gru_is_sound() {
  return Hidden >= 1 && (GruOption<Options> && ...);
}

template <int Hidden, class... Options>
struct LstmIsSound {
  static constexpr bool value = true;
  static_assert(lstm_is_sound<Hidden, Options...>(),
                "Lstm<Hidden, Options...>: give a positive number; options are OneBias or NoBias, "
                "Projection<P>, ForgetBias<1>, Bidirectional, Stateful, InitNormal, InitUniform "
                "and InitBias");
};

template <int Hidden, class... Options>
struct GruIsSound {
  static constexpr bool value = true;
  static_assert(gru_is_sound<Hidden, Options...>(),
                "Gru<Hidden, Options...>: give a positive number; options are OneBias or NoBias, "
                "Bidirectional, Stateful, InitNormal, InitUniform and InitBias");
};

template <class... Options>
struct StateGoesForward {
  static constexpr bool value = true;
  static_assert(state_goes_forward<Options...>(),
                "Stateful with Bidirectional: the other direction begins at the end of a text that "
                "has not come yet, so that no step can leave it a state; leave one of both out");
};

}  // namespace detail

/// A long short-term memory, as PyTorch's nn.LSTM of one layer: with the gates i, f, g, o from
/// W_ih x + b_ih + W_hh h + b_hh, c = σ(f) c + σ(i) tanh(g) and h = σ(o) tanh(c), both 0 before the
/// first row. Options: OneBias or NoBias, Projection<P> (h = W_hr σ(o) tanh(c)), ForgetBias<1>,
/// Bidirectional or Stateful, an initial law, as InitNormal.
///
/// Shapes: x (B, T, In), weight_ih (4 H, In), weight_hh (4 H, P), biases (4 H), weight_hr (P, H);
///         y (B, T, P), P being H without a projection, twice that in two directions. Rows behind a
///         sample's length give 0, and the other direction begins at that length.
/// Saves:  the gates, c and h of all rows until backward, and a view of x.
/// Cost:   4 H (In + P) + P H multiply-accumulates a row, each of three passes: all rows in one
///         product with weight_ih, then a row of all samples at a time with weight_hh.
/// Init:   uniform in ±1/sqrt(H), as PyTorch; with a law of the weights' the biases are 0, or as
///         InitBias says.
/// Source: Hochreiter, Schmidhuber, Neural Computation 9(8), 1997; Sak et al., arXiv:1402.1128
///         (projection)
/// The primary template is the error path.
template <int Hidden, class... Options>
struct Lstm {
  static constexpr std::string_view name = "Lstm";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::LstmIsSound<Hidden, Options...>::value);
};

template <int H, class... Options>
  requires(H >= 1 && (LstmOption<Options> && ...))
struct Lstm<H, Options...>
    : detail::Recurrent<detail::recurrent_options<H, 4, Options...>(), Options...> {
  using layer = Lstm;
  static_assert(detail::StateGoesForward<Options...>::value);
  using Base = detail::Recurrent<detail::recurrent_options<H, 4, Options...>(), Options...>;
  static constexpr std::string_view name = "Lstm";

  // Gates and h; with a projection what it is of, and its gradient. c is of the type of parameters.
  static constexpr Kept kept(Shape in) {
    constexpr detail::RecurrentOptions o = Base::options;
    std::int64_t const time = in[0];
    std::int64_t const more = o.projection > 0 ? time * (H + o.handed()) : 0;
    return Kept::of(true, false, o.directions * (time * 4 * H + (time + 1) * o.handed() + more),
                    o.directions * (time + 1) * H);
  }
};

/// A gated recurrent unit, as PyTorch's nn.GRU of one layer: r and z are σ of W_ih x + b_ih +
/// W_hh h + b_hh, n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h = (1 - z) n + z h, 0 before the
/// first row. Options: OneBias or NoBias, Bidirectional or Stateful, an initial law, as InitNormal.
///
/// Shapes: x (B, T, In), weight_ih (3 H, In), weight_hh (3 H, H), biases (3 H): of r, z, n; y (B,
///         T, H), in two directions (B, T, 2 H). Rows behind a sample's length as with Lstm.
/// Saves:  the gates, W_hh h and h of all rows until backward, and a view of x.
/// Cost:   3 H (In + H) multiply-accumulates a row, each of three passes.
/// Init:   as Lstm.
/// Source: Cho et al., arXiv:1406.1078; the place of b_hn is PyTorch's
/// The primary template is the error path.
template <int Hidden, class... Options>
struct Gru {
  static constexpr std::string_view name = "Gru";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::GruIsSound<Hidden, Options...>::value);
};

template <int H, class... Options>
  requires(H >= 1 && (GruOption<Options> && ...))
struct Gru<H, Options...>
    : detail::Recurrent<detail::recurrent_options<H, 3, Options...>(), Options...> {
  using layer = Gru;
  static_assert(detail::StateGoesForward<Options...>::value);
  using Base = detail::Recurrent<detail::recurrent_options<H, 3, Options...>(), Options...>;
  static constexpr std::string_view name = "Gru";

  static constexpr Kept kept(Shape in) {
    std::int64_t const time = in[0];
    return Kept::of(true, false, Base::options.directions * (time * 6 * H + (time + 1) * H));
  }
};

}  // namespace tandem
