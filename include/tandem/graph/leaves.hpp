// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Leaves: the layer types of a network in the order of their nodes, and Leaf, the I-th of them.

#include <cstddef>
#include <utility>

#include <tandem/graph/network.hpp>

namespace tandem {

template <class... Types>
struct TypeList {
  static constexpr int size = sizeof...(Types);
};

namespace detail {

template <class... A, class... B>
constexpr TypeList<A..., B...> operator+(TypeList<A...>, TypeList<B...>) {
  return {};
}

// A layer under another name (`struct Conv3x3 : Conv2d<…> {}`) has the ops of the layer it is.
template <class L>
struct Canonical {
  using type = L;
};
template <class L>
  requires requires { typename L::layer; }
struct Canonical<L> {
  using type = typename L::layer;
};

// Declared before use: each part of a composite may be any of the others.
struct Flatten {
  template <Layer L>
  static TypeList<typename Canonical<L>::type> of(L const*);
  template <class... Parts>
    requires FewParts<Parts...>
  static auto of(Sequential<Parts...> const*) {
    return (TypeList<>{} + ... + decltype(of(static_cast<Parts const*>(nullptr))){});
  }
  template <class... Branches>
  static auto of(Concat<Branches...> const*) {
    return (TypeList<>{} + ... + decltype(of(static_cast<Branches const*>(nullptr))){});
  }
  template <class... Branches>
  static auto of(Multiply<Branches...> const*) {
    return (TypeList<>{} + ... + decltype(of(static_cast<Branches const*>(nullptr))){});
  }
  template <class Rule, class... Branches>
    requires JoinsBranches<Rule, Branches...>
  static auto of(Join<Rule, Branches...> const*) {
    return (TypeList<>{} + ... + decltype(of(static_cast<Branches const*>(nullptr))){}) +
           TypeList<typename Canonical<Rule>::type>{};
  }
  template <class Body, class Shortcut>
  static auto of(Residual<Body, Shortcut> const*) {
    return decltype(of(static_cast<Body const*>(nullptr))){} +
           decltype(of(static_cast<Shortcut const*>(nullptr))){};
  }
  template <int Count, class Part>
  static auto of(Repeat<Count, Part> const*) {  // its copies have the same layers
    return decltype(of(static_cast<Part const*>(nullptr))){};
  }
  template <int Index>
  static TypeList<> of(Input<Index> const*);
  template <class Tag>
  static TypeList<> of(Let<Tag> const*);
  template <class Tag>
  static TypeList<> of(Use<Tag> const*);
  template <class Body>
  static auto of(Frozen<Body> const*) {
    return decltype(of(static_cast<Body const*>(nullptr))){};
  }
  static TypeList<> of(void const*);  // no part: has its sentence elsewhere
};

template <std::size_t I, class Type>
struct Indexed {
  using type = Type;
};

template <class Indices, class List>
struct IndexedList;

template <std::size_t... I, class... Types>
struct IndexedList<std::index_sequence<I...>, TypeList<Types...>> : Indexed<I, Types>... {};

template <std::size_t I, class Type>
Indexed<I, Type> pick(Indexed<I, Type> const*);

}  // namespace detail

/// The layer types of @p Part, in the order in which their nodes stand in the graph.
template <class Part>
using Leaves = decltype(detail::Flatten::of(static_cast<Part const*>(nullptr)));

/// The leaves of a network under a short name, for look-up by index in O(1) instantiations.
template <class Net>
struct LeafTable : detail::IndexedList<std::make_index_sequence<Leaves<typename Net::body>::size>,
                                       Leaves<typename Net::body>> {};

/// The @p I-th layer type of a network.
template <class Net, int I>
using Leaf = typename decltype(detail::pick<static_cast<std::size_t>(I)>(
    static_cast<LeafTable<Net> const*>(nullptr)))::type;

}  // namespace tandem
