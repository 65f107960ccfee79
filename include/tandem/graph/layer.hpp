// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a layer says of itself: its output shape, its parameters, its cost, and what it refuses.
///
/// A layer is an empty type of static constexpr functions of its input's Shape. It has no kernels
/// (ops/ has them), so that planners and tables need no machine.

#include <concepts>
#include <cstdint>
#include <string_view>

#include <tandem/core/contract.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/neighbourhood.hpp>

namespace tandem {

/// How a parameter changes: a weight by the optimizer, a statistic by its running average.
enum class Role : std::uint8_t { weight, statistic };

/// Initial values of one parameter.
struct Init {
  enum class Law : std::uint8_t { constant, uniform_fan_in, uniform, normal };
  Law law = Law::constant;
  float value = 0.0F;       ///< constant: every element; uniform: the bound; normal: the deviation
  std::int64_t fan_in = 1;  ///< uniform_fan_in: uniform in ±1/sqrt(fan_in), as PyTorch's layers
  float middle = 0.0F;      ///< uniform: what the bound is on both sides of

  static constexpr Init constant(float value) { return {Law::constant, value, 1}; }
  static constexpr Init uniform_fan_in(std::int64_t fan_in) {
    return {Law::uniform_fan_in, 0.0F, fan_in};
  }
  /// Uniform in ±@p bound.
  static constexpr Init uniform(float bound) { return {Law::uniform, bound, 1}; }
  static constexpr Init uniform(float low, float high) {
    return {Law::uniform, 0.5F * (high - low), 1, 0.5F * (high + low)};
  }
  /// Mean 0 and standard deviation @p deviation.
  static constexpr Init normal(float deviation) { return {Law::normal, deviation, 1}; }

  friend constexpr bool operator==(Init const&, Init const&) = default;
};

/// One parameter of a layer, named as PyTorch names it ("weight", "bias", "running_mean", …).
struct Parameter {
  char const* name = "";
  Shape shape{};
  Init init{};
  Role role = Role::weight;
  float rate = 0.0F;  ///< of a statistic: weight of the newest step in its running average
  /// Where its gradient is GradientRows: the rows that a pass touches at most; else none.
  RowsTouched touched{};

  friend constexpr bool operator==(Parameter const&, Parameter const&) = default;
};

/// What backward reads of a layer's forward pass of one sample, for whoever plans memory before
/// there are ops. A layer that does not say is taken to keep all.
struct Kept {
  bool known = false;
  bool input = true;         ///< its input
  bool output = true;        ///< its output
  std::int64_t scalars = 0;  ///< elements of its own, of the type of activations
  std::int64_t numbers = 0;  ///< the same, of the type of parameters
  std::int64_t sums = 0;     ///< likewise, once whatever the number of samples
  int arrays = 1;            ///< of all these, each of which begins on a line of the cache

  /// Of a layer that reads its input, its output, or neither, and saves nothing but what is said.
  static constexpr Kept of(bool input, bool output, std::int64_t scalars = 0,
                           std::int64_t numbers = 0, std::int64_t sums = 0, int arrays = 1) {
    return {true, input, output, scalars, numbers, sums, arrays};
  }

  friend constexpr bool operator==(Kept const&, Kept const&) = default;
};

/// The parameters of a layer, in the order in which its op sees them; at most ten.
struct Parameters {
  int count = 0;
  Parameter item[10] = {};

  constexpr Parameters() = default;

  template <std::same_as<Parameter>... Items>
    requires(sizeof...(Items) >= 1 && sizeof...(Items) <= 10)
  constexpr explicit Parameters(Items... items) : count{sizeof...(Items)}, item{items...} {}
};

/// Why a layer or a network cannot be: each has its sentence in graph/lower.hpp.
enum class Fault : std::uint8_t {
  none,
  reported,          ///< its sentence stands where the type is
  no_input,          ///< the network's input has no elements
  rejected,          ///< the layer's output(shape) is no shape
  not_an_image,      ///< wants (C, H, W)
  not_a_vector,      ///< wants (N)
  window_too_large,  ///< kernel larger than the padded input
  all_padding,       ///< a transposed convolution leaves out all of its output
  groups,            ///< channels are no multiple of the groups
  padding,           ///< a pool's padding exceeds half of its kernel
  border,            ///< a mirrored or wrapped border is wider than the image
  concat_shapes,     ///< branches differ in height or width
  multiply_shapes,   ///< branches differ in shape
  residual_shapes,   ///< body and shortcut differ in shape
  join_shapes,       ///< the rule of a Join does not join these
  channels,          ///< a shortcut that would drop channels
  not_tokens,        ///< wants indices, (T)
  indices,           ///< a layer of numbers has indices as its input
  not_timed,         ///< wants a sequence, (T, C)
  a_sequence,        ///< wants an image or a vector
  heads,             ///< a row is no multiple of the heads
  no_second_input,   ///< Input<1> of a network that has one
  unread,            ///< a value that no layer reads
  no_let,            ///< Use<Tag>: no Let<Tag> stands before it
  let_twice,         ///< a second Let of a tag
  many_lets,         ///< more names than a network may have
  clocks,            ///< branches are of different times
  not_last,          ///< a criterion that is not the network's last layer
  no_owner,          ///< Shares<W>: no W stands before it
  shared_shapes,     ///< Shares<W>: the parameter of W has another shape
  shared_frozen,     ///< Shares<W>: one of both is frozen and the other is trained
};

/// What a rewrite of a graph must know a layer to be.
enum class LayerKind : std::uint8_t {
  other,
  batch_norm,
  relu,
  dropout,
  flatten,
  pool,
  pointwise,    ///< a convolution of one group, 1x1, that visits every pixel
  convolution,  ///< any other
  linear,
  gelu_tanh,
  row_norm,   ///< of each row's elements
  embedding,  ///< whose first parameter is a table with a row for each index
  vocabulary  ///< whose parameters have a row for each class, over all of which a softmax goes
};

/// Of either kind; its parameters are the weights and then, unless it has none, the bias.
constexpr bool is_convolution(LayerKind kind) {
  return kind == LayerKind::pointwise || kind == LayerKind::convolution;
}

/// What a layer hands on, of each sample: from step to step none, but of one that is Stateful; from
/// chunk to chunk of time what its next row needs of the rows before. c and then h, each at a
/// multiple of 16 bytes, as products on a GPU want what they read.
struct CarriedState {
  int c = 0;  ///< numbers of the type of parameters
  int h = 0;  ///< numbers of the type of activations

  [[nodiscard]] constexpr bool any() const { return c + h > 0; }
  /// Where h begins, and from sample to sample, in bytes.
  /// @param master  bytes of a number of c
  /// @param scalar  bytes of a number of h
  [[nodiscard]] constexpr std::int64_t h_at(std::int64_t master) const { return whole(c * master); }
  [[nodiscard]] constexpr std::int64_t bytes(std::int64_t master, std::int64_t scalar) const {
    return h_at(master) + whole(h * scalar);
  }

  friend constexpr bool operator==(CarriedState const&, CarriedState const&) = default;

 private:
  static constexpr std::int64_t whole(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
};

/// A layer: `static constexpr std::string_view name` and `static constexpr Shape output(Shape in)`.
/// It may add `parameters(in)`, `macs(in)`, `fault(in)`, `is_view` (y is x under another shape),
/// `kind`, `kept(in)`, `takes_indices` (its input are indices), `is_criterion` (its rows are
/// losses, made with the targets, which are in [0, `classes`) or -1: a network's last layer, whose
/// `Divisor` is the loss), `carried` and `hands_on` (see CarriedState), `columns(in)` (it needs no
/// whole rows), `neighbourhood(in)` (no whole images), `in_chunks` (see takes_chunks()),
/// `hands_back(in)`, and `shares` (see Shares).
template <class L>
concept Layer = requires(Shape in) {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::output(in) } -> std::same_as<Shape>;
};

template <class L>
constexpr Parameters parameters_of(Shape in) {
  if constexpr (requires { L::parameters(in); }) {
    return L::parameters(in);
  } else {
    return {};
  }
}

/// Multiply-accumulates of one sample's forward pass; 0 where the layer does not say.
template <class L>
constexpr std::int64_t macs_of(Shape in) {
  if constexpr (requires { L::macs(in); }) {
    return L::macs(in);
  } else {
    return 0;
  }
}

template <class L>
constexpr Kept kept_of(Shape in) {
  if constexpr (requires { L::kept(in); }) {
    return L::kept(in);
  } else {
    return {};
  }
}

template <class L>
constexpr Columns columns_of(Shape in) {
  if constexpr (requires { L::columns(in); }) {
    return L::columns(in);
  } else {
    return {};
  }
}

template <class L>
constexpr Neighbourhood neighbourhood_of(Shape in) {
  if constexpr (requires { L::neighbourhood(in); }) {
    return L::neighbourhood(in);
  } else {
    return {};
  }
}

template <class L>
constexpr CarriedState carried_of() {
  if constexpr (requires { L::carried; }) {
    return L::carried;
  } else {
    return {};
  }
}

template <class L>
constexpr CarriedState hands_on_of() {
  if constexpr (requires { L::hands_on; }) {
    return L::hands_on;
  } else {
    return {};
  }
}

/// Numbers of a sample's gradient of earlier rows, of the type of parameters, that backward passes
/// over chunks of time hand from the last one on, where forward reads these rows themselves.
template <class L>
constexpr std::int64_t hands_back_of(Shape in) {
  if constexpr (requires { L::hands_back(in); }) {
    return L::hands_back(in);
  } else {
    return 0;
  }
}

template <class L>
constexpr LayerKind kind_of() {
  if constexpr (requires { L::kind; }) {
    return L::kind;
  } else {
    return LayerKind::other;
  }
}

/// Whether its op has passes over chunks of a sequence's rows, the gradients of later chunks first:
/// it makes each row of that row alone, of what SequenceOperands::carry has of earlier ones, or of
/// those themselves, see SequenceOperands::apart. A layer that is neither of a kind that does, nor
/// says `in_chunks`, does not.
template <class L>
constexpr bool takes_chunks(Shape in) {
  if constexpr (requires { L::in_chunks; }) {
    return L::in_chunks;
  } else {
    LayerKind const kind = kind_of<L>();
    return kind == LayerKind::linear || kind == LayerKind::relu || kind == LayerKind::gelu_tanh ||
           kind == LayerKind::dropout || kind == LayerKind::row_norm || columns_of<L>(in).each;
  }
}

template <class L>
constexpr Fault fault_of(Shape in) {
  if constexpr (requires { L::fault(in); }) {
    if (L::fault(in) != Fault::none) {
      return L::fault(in);
    }
  }
  return L::output(in).valid() ? Fault::none : Fault::rejected;
}

/// Whether its input are indices, std::int32_t in [0, limit) of the network's input.
template <class L>
constexpr bool takes_indices() {
  return requires { requires L::takes_indices; };
}

/// Whether it reads the targets and gives the loss of each row.
template <class L>
constexpr bool is_criterion() {
  return requires { requires L::is_criterion; };
}

/// The layer whose first parameter is also this one's: `using shares = W` of a layer; void: none.
template <class L>
struct SharedBy {
  using type = void;
};
template <class L>
  requires requires { typename L::shares; }
struct SharedBy<L> {
  using type = typename L::shares;
};

template <class L>
inline constexpr bool is_view = [] {
  if constexpr (requires { L::is_view; }) {
    return bool{L::is_view};
  } else {
    return false;
  }
}();

}  // namespace tandem
