// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The words of a network type: Sequential, Concat, Multiply, Residual, Join, Repeat, Frozen, Let,
/// Use, and Network, which adds the input.
///
/// These types are empty. `struct Net : Network<Image<3, 32, 32>, Sequential<…>> {};` gives a
/// network a short name of its own, which keeps symbols and compiler messages short; do the same
/// for blocks.

#include <concepts>
#include <span>
#include <string_view>

#include <tandem/graph/layer.hpp>

namespace tandem {

namespace detail {
struct Composite {};  // base of everything below that is built from parts
}  // namespace detail

/// A layer, or parts put together by Sequential, Concat, Residual or Frozen.
template <class P>
concept NetworkPart = Layer<P> || std::derived_from<P, detail::Composite>;

namespace detail {

// Concepts, because the second is not looked at where the first fails: a fold has its limits.
template <class... Parts>
concept FewParts = sizeof...(Parts) <= 256;
template <class... Parts>
concept AllParts = (NetworkPart<Parts> && ...);
template <class... Parts>
concept TooManyOrAllParts = !FewParts<Parts...> || AllParts<Parts...>;
template <class... Parts>
inline constexpr bool too_many_or_all_parts = TooManyOrAllParts<Parts...>;  // said in one line

// The sentences stand in types of their own: a composite at fault remains a part, so that what
// holds it does not complain too.
template <class... Parts>
struct SequentialIsSound {
  static constexpr bool value = true;
  static_assert(FewParts<Parts...>,
                "Sequential<Parts...>: at most 256 parts; nest a Sequential for more");
  static_assert(too_many_or_all_parts<Parts...>,
                "Sequential<Parts...>: every part must be a layer (a type with `name` and "
                "`output(Shape)`), or Sequential, Concat, Residual or Frozen of such parts");
};

template <class... Branches>
struct ConcatIsSound {
  static constexpr bool value = true;
  static_assert((NetworkPart<Branches> && ...) && sizeof...(Branches) >= 2,
                "Concat<Branches...>: give two or more branches, each a layer, or Sequential, "
                "Concat, Residual or Frozen of such parts");
};

template <class... Branches>
struct MultiplyIsSound {
  static constexpr bool value = true;
  static_assert((NetworkPart<Branches> && ...) && sizeof...(Branches) >= 2,
                "Multiply<Branches...>: give two or more branches, each a layer, or Sequential, "
                "Concat, Residual or Frozen of such parts");
};

template <class Body, class Shortcut>
struct ResidualIsSound {
  static constexpr bool value = true;
  static_assert(
      NetworkPart<Body> && NetworkPart<Shortcut>,
      "Residual<Body, Shortcut>: both must be a layer, or Sequential, Concat, Residual or "
      "Frozen of such parts");
};

template <int Count, class Part>
struct RepeatIsSound {
  static constexpr bool value = true;
  static_assert(Count >= 1 && NetworkPart<Part>,
                "Repeat<Count, Part>: give a positive number, and a layer, or Sequential, Concat, "
                "Residual, Repeat or Frozen of layers");
};

template <class Body>
struct FrozenIsSound {
  static constexpr bool value = true;
  static_assert(NetworkPart<Body>,
                "Frozen<Body>: Body must be a layer, or Sequential, Concat or Residual of layers");
};

}  // namespace detail

/// The parts one after another. Parameters of part i are named "i.…".
/// The primary template is the error path.
template <class... Parts>
struct Sequential : detail::Composite {
  static_assert(detail::SequentialIsSound<Parts...>::value);
};

template <class... Parts>
  requires detail::FewParts<Parts...> && detail::AllParts<Parts...>
struct Sequential<Parts...> : detail::Composite {
};

/// The branches on one input, their outputs joined along the channels: Inception's block.
/// Every branch must give the same height and width. Parameters of branch i are named "i.…".
template <class... Branches>
struct Concat : detail::Composite {
  static_assert(detail::ConcatIsSound<Branches...>::value);
};

template <class... Branches>
  requires(detail::AllParts<Branches...> && sizeof...(Branches) >= 2)
struct Concat<Branches...> : detail::Composite {};

/// The branches on one input, their outputs multiplied element by element: a gate, as in
/// Multiply<Linear<8>, Sequential<Linear<8>, Sigmoid>>; the empty Sequential is the input itself.
/// Every branch must give the same shape. Parameters of branch i are named "i.…".
template <class... Branches>
struct Multiply : detail::Composite {
  static_assert(detail::MultiplyIsSound<Branches...>::value);
};

template <class... Branches>
  requires(detail::AllParts<Branches...> && sizeof...(Branches) >= 2)
struct Multiply<Branches...> : detail::Composite {};

/// Body(x) + Shortcut(x); the empty Sequential is the identity. Named "body.…" and "shortcut.…".
template <class Body, class Shortcut = Sequential<>>
struct Residual : detail::Composite {
  static_assert(detail::ResidualIsSound<Body, Shortcut>::value);
};

template <class Body, class Shortcut>
  requires(NetworkPart<Body>&& NetworkPart<Shortcut>)
struct Residual<Body, Shortcut> : detail::Composite {};

/// How a Join joins: `name`, and `output(std::span<Shape const>)` of the branches' outputs, which
/// is no shape where it cannot join these. A rule without parameters; its ops are Op<Rule,
/// Backend>. See ElementJoin and ops/host/own_join.hpp for a program's own.
template <class R>
concept JoinRule = requires(std::span<Shape const> in) {
  { R::name } -> std::convertible_to<std::string_view>;
  { R::output(in) } -> std::same_as<Shape>;
};

namespace detail {

template <class Branch>
inline constexpr Shape shape_of_branch{};  // of no branch: what an output() is asked with

}  // namespace detail

/// A layer of several inputs: a Layer whose `output(Shape, ...)`, and `parameters`, `macs`, `kept`
/// and `fault`, where it has them, take the shapes of all Branches. Its output has the time of the
/// first.
template <class L, class... Branches>
concept JoinLayer = sizeof...(Branches) >= 2 && requires {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::output(detail::shape_of_branch<Branches>...) } -> std::same_as<Shape>;
};

namespace detail {

template <class Rule, class... Branches>
concept JoinsBranches = JoinRule<Rule> || JoinLayer<Rule, Branches...>;

template <class Rule, class... Branches>
struct JoinIsSound {
  static constexpr bool value = true;
  static_assert(JoinsBranches<Rule, Branches...>,
                "Join<Rule, Branches...>: Rule must be a type with `name` and "
                "`output(std::span<Shape const>)`, derive it from ElementJoin; or a layer with "
                "`output(Shape, ...)` of as many shapes as there are branches");
  static_assert(
      !JoinsBranches<Rule, Branches...> ||
          ((NetworkPart<Branches> && ...) && sizeof...(Branches) >= 2),
      "Join<Rule, Branches...>: give two or more branches, each a layer, or Sequential, "
      "Concat, Residual or Frozen of such parts; the empty Sequential passes the input on");
};

}  // namespace detail

/// The branches on one input, their outputs joined by Rule, or read by a layer of several inputs;
/// the empty Sequential is the identity. Parameters of branch i are named "i.…", those of the layer
/// as ever.
/// The primary template is the error path.
template <class Rule, class... Branches>
struct Join : detail::Composite {
  static_assert(detail::JoinIsSound<Rule, Branches...>::value);
};

template <class Rule, class... Branches>
  requires(detail::JoinsBranches<Rule, Branches...>&& detail::AllParts<Branches...> &&
           sizeof...(Branches) >= 2)
struct Join<Rule, Branches...> : detail::Composite {};

/// Count copies of Part one after another, each with parameters of its own, named "i.…". A part of
/// the network's outermost Sequential, each copy is a top-level part of its own, as Split counts
/// them.
///
/// Cost: the compiler looks at Part once, whatever Count is, where it only needs its shapes.
/// The primary template is the error path.
template <int Count, class Part>
struct Repeat : detail::Composite {
  static_assert(detail::RepeatIsSound<Count, Part>::value);
};

template <int Count, class Part>
  requires(Count >= 1 && NetworkPart<Part>)
struct Repeat<Count, Part> : detail::Composite {};

/// The network's input number Index, whatever stands before it: Input<1> of a network on
/// Inputs<A, B>. Where two inputs meet, in a Concat or a Residual, they must be of one time, or
/// have none any more (MeanOverTime).
template <int Index>
struct Input : detail::Composite {
  static_assert(Index == 0 || Index == 1, "Input<Index>: a network has inputs 0 and 1");
};

/// Passes its input on, and gives it the name Tag, any type, by which Use reads it further on. A
/// tag names one value of a network; one that nobody uses costs nothing.
///
///   struct Memory;  // declared, and no more
///   Sequential<Tower, Let<Memory>, …, Concat<Sequential<>, Use<Memory>>, …>
///
/// Neither Let nor Use is a top-level part, as Split counts them. Where the network is cut between
/// both, the value goes from stage to stage together with what these hand on anyway, and its
/// gradient comes back likewise, each stage adding what its own readers give.
template <class Tag>
struct Let : detail::Composite {};

/// The value that Let<Tag>, which stands before it, has named, whatever stands directly before it.
template <class Tag>
struct Use : detail::Composite {};

/// Of a layer that takes it as an option: its weight is the first parameter of W, a layer type of
/// its own (`struct Words : Embedding<V, C> {};`) that stands before it. Both have one initial
/// value, one name, one entry in a checkpoint, and one gradient, the sum over all that hold it.
template <class W>
struct Shares {
  using shares = W;
};

namespace detail {

template <class Option>
inline constexpr bool is_shares = requires {
  typename Option::shares;
};

// A base with the `shares` of the first option that has one.
template <class... Options>
struct SharesOf {};
template <class First, class... Others>
struct SharesOf<First, Others...> : SharesOf<Others...> {};
template <class First, class... Others>
  requires is_shares<First>
struct SharesOf<First, Others...> {
  using shares = typename First::shares;
};

}  // namespace detail

/// Body with parameters and statistics that training leaves as they are; a frozen batch norm
/// normalises by its running statistics. No gradient of them is computed, stored or reduced.
template <class Body>
struct Frozen : detail::Composite {
  static_assert(detail::FrozenIsSound<Body>::value);
};

template <class Body>
  requires NetworkPart<Body>
struct Frozen<Body> : detail::Composite {
};

/// What goes into a network: `static constexpr Shape shape`, of one sample.
template <class I>
concept NetworkInput = requires {
  { I::shape } -> std::convertible_to<Shape>;
};

namespace detail {

template <class Input, class Body>
struct NetworkHasParts {
  static constexpr bool value = true;
  static constexpr bool is_input = NetworkInput<Input>;  // no term, which compilers would explain
  static constexpr bool is_part = NetworkPart<Body>;
  static_assert(is_input && is_part,
                "Network<Input, Body>: Input must be Image<C, H, W>, Vector<N>, Tokens<T, V> or "
                "Inputs of two Tokens (two inputs of numbers are one: Vector<N + M>), and Body a "
                "layer, or Sequential, Concat, Residual, Repeat or Frozen of such parts");
};

}  // namespace detail

/// A network: what goes in, such as Image<3, 32, 32>, and the parts it goes through.
/// The primary template is the error path.
template <class Input, class Body>
struct Network {
  using Refused = void;
  using input = Vector<1>;
  using body = Sequential<>;
  static_assert(detail::NetworkHasParts<Input, Body>::value);
};

template <class Input, class Body>
  requires(NetworkInput<Input>&& NetworkPart<Body>)
struct Network<Input, Body> {
  using input = Input;
  using body = Body;
};

}  // namespace tandem
