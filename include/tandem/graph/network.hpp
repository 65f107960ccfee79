// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The words of a network type: Sequential, Concat, Residual, Frozen, and Network, which adds the
/// input.
///
/// These types are empty. `struct Net : Network<Image<3, 32, 32>, Sequential<…>> {};` gives a
/// network a short name of its own, which keeps symbols and compiler messages short; do the same
/// for blocks.

#include <tandem/graph/layer.hpp>

namespace tandem {

namespace detail {
struct Composite {};  // base of everything below that is built from parts
}  // namespace detail

/// A layer, or parts put together by Sequential, Concat, Residual or Frozen.
template <class P>
concept NetworkPart = Layer<P> || std::derived_from<P, detail::Composite>;

/// The parts one after another. Parameters of part i are named "i.…".
/// The primary template is the error path.
template <class... Parts>
struct Sequential : detail::Composite {
  static_assert((NetworkPart<Parts> && ...),
                "Sequential<Parts...>: every part must be a layer (a type with `name` and "
                "`output(Shape)`), or Sequential, Concat, Residual or Frozen of such parts");
};

template <class... Parts>
  requires(NetworkPart<Parts>&&...)
struct Sequential<Parts...> : detail::Composite {
  static_assert(sizeof...(Parts) <= 256,
                "Sequential<Parts...>: at most 256 parts; nest a Sequential for more");
};

/// The branches on one input, their outputs joined along the channels: Inception's block.
/// Every branch must give the same height and width. Parameters of branch i are named "i.…".
template <class... Branches>
struct Concat : detail::Composite {
  static_assert((NetworkPart<Branches> && ...) && sizeof...(Branches) >= 2,
                "Concat<Branches...>: give two or more branches, each a layer, or Sequential, "
                "Concat, Residual or Frozen of such parts");
};

template <class... Branches>
  requires((NetworkPart<Branches> && ...) && sizeof...(Branches) >= 2)
struct Concat<Branches...> : detail::Composite {};

/// Body(x) + Shortcut(x); the empty Sequential is the identity. Named "body.…" and "shortcut.…".
template <class Body, class Shortcut = Sequential<>>
struct Residual : detail::Composite {
  static_assert(
      NetworkPart<Body> && NetworkPart<Shortcut>,
      "Residual<Body, Shortcut>: both must be a layer, or Sequential, Concat, Residual or "
      "Frozen of such parts");
};

template <class Body, class Shortcut>
  requires(NetworkPart<Body>&& NetworkPart<Shortcut>)
struct Residual<Body, Shortcut> : detail::Composite {};

/// Body with parameters and statistics that training leaves as they are; a frozen batch norm
/// normalises by its running statistics. No gradient of them is computed, stored or reduced.
template <class Body>
struct Frozen : detail::Composite {
  static_assert(NetworkPart<Body>,
                "Frozen<Body>: Body must be a layer, or Sequential, Concat or Residual of layers");
};

template <class Body>
  requires NetworkPart<Body>
struct Frozen<Body> : detail::Composite {
};

/// A network: what goes in, such as Image<3, 32, 32>, and the parts it goes through.
template <class Input, class Body>
struct Network {
  using input = Input;
  using body = Body;
};

}  // namespace tandem
