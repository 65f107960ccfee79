// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GPT: a decoder-only Transformer, in the layout of GPT-2 and nanoGPT.

#include <type_traits>

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/layers/vocabulary.hpp>

namespace tandem::models {

namespace gpt {

/// Weights N(0, 0.02²); those before a residual sum less by the square root of how many there are.
using Init02 = InitNormal<2, 100>;
template <int Layers>
using InitResidual = InitNormal<2, 100, 2 * Layers>;

// Options: of each kind the first one, or what stands for none.
template <class... Options>
inline constexpr bool has_bias = !(std::is_same_v<Options, NoBias> || ...);
template <class... Options>
struct Activation {
  using type = GeluTanh;
};
template <class First, class... Others>
struct Activation<First, Others...> : Activation<Others...> {};
template <class... Others>
struct Activation<Gelu, Others...> {
  using type = Gelu;
};
template <class... Options>
struct DropoutAt {
  using type = void;
};
template <class First, class... Others>
struct DropoutAt<First, Others...> : DropoutAt<Others...> {};
template <DropoutRate First, class... Others>
struct DropoutAt<First, Others...> {
  using type = First;
};

/// What differs between GPTs of one size.
template <bool Bias, class ActivationLayer, class Rate>
struct Style {
  template <int Out, class Init>
  struct ProductOf {
    using type = Linear<Out, Init>;
  };
  template <int Out, class Init>
    requires(!Bias)
  struct ProductOf<Out, Init> {
    using type = Linear<Out, NoBias, Init>;
  };
  template <int Out, class Init>
  using Product = typename ProductOf<Out, Init>::type;
  using Norm = std::conditional_t<Bias, LayerNorm<>, LayerNorm<NoBias>>;
  using Nonlinearity = ActivationLayer;
  template <int Heads>
  using Look = Attention<Heads, Causal, Rate>;
  template <class... Parts>
  using Dropped = Sequential<Parts..., Dropout<Rate>>;
};
template <bool Bias, class ActivationLayer>
struct Style<Bias, ActivationLayer, void> : Style<Bias, ActivationLayer, Percent<0>> {
  template <int Heads>
  using Look = Attention<Heads, Causal>;
  template <class... Parts>
  using Dropped = Sequential<Parts...>;
};
template <class... Options>
using StyleOf = Style<has_bias<Options...>, typename Activation<Options...>::type,
                      typename DropoutAt<Options...>::type>;

template <int V, int C>
struct Wte : Embedding<V, C, Init02> {};

template <int C, int Heads, int Layers, class S>
struct Attend : S::template Dropped<typename S::Norm, typename S::template Product<3 * C, Init02>,
                                    typename S::template Look<Heads>,
                                    typename S::template Product<C, InitResidual<Layers>>> {};
template <int C, int Layers, class S>
struct Think : S::template Dropped<typename S::Norm, typename S::template Product<4 * C, Init02>,
                                   typename S::Nonlinearity,
                                   typename S::template Product<C, InitResidual<Layers>>> {};
template <int C, int Heads, int Layers, class S>
struct Block : Sequential<Residual<Attend<C, Heads, Layers, S>>, Residual<Think<C, Layers, S>>> {};

template <int V, int C, int Heads, int Layers, class S>
struct Body : Sequential<Wte<V, C>, typename S::template Dropped<Positions<Init02>>,
                         Repeat<Layers, Block<C, Heads, Layers, S>>, typename S::Norm,
                         Vocabulary<V, Shares<Wte<V, C>>, NoBias>> {};

}  // namespace gpt

/// A GPT of Layers blocks on C channels and so many heads, that reads T of V tokens. Options:
/// NoBias (in products and norms), Gelu (erf, nanoGPT's; the default is GPT-2's tanh), and a
/// dropout such as Percent<10>. The matrix of the words is shared with the criterion.
///
/// V C + T C + L (12 C² + 13 C) + 2 C parameters with biases: 124,439,808 of Gpt2.
/// Top-level parts, as Split counts them: the words, the positions, each block, the last norm, the
/// criterion.
/// Source: Radford et al. 2019; Karpathy, nanoGPT
template <int V, int T, int C, int Heads, int Layers, class... Options>
struct Gpt : Network<Tokens<T, V>, gpt::Body<V, C, Heads, Layers, gpt::StyleOf<Options...>>> {};

/// GPT-2 in its four sizes: 124,439,808, 354,823,168, 774,030,080 and 1,557,611,200 parameters.
template <class... Options>
struct Gpt2 : Gpt<50257, 1024, 768, 12, 12, Options...> {};
template <class... Options>
struct Gpt2Medium : Gpt<50257, 1024, 1024, 16, 24, Options...> {};
template <class... Options>
struct Gpt2Large : Gpt<50257, 1024, 1280, 20, 36, Options...> {};
template <class... Options>
struct Gpt2Xl : Gpt<50257, 1024, 1600, 25, 48, Options...> {};

}  // namespace tandem::models
