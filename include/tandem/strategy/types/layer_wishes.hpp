// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SplitOutputs, SplitInputs, KeepWhole: options of TensorParallel that say of layers how devices
/// share them.

#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/wishes.hpp>

namespace tandem {

namespace detail {

template <Wish What, LayerPlace... Layers>
struct LayerWish {
  static constexpr void add_to(SpreadWishes& all) { (all.add(Layers, What), ...); }
};

template <class Option>
concept IsLayerWish = requires(SpreadWishes& all) {
  Option::add_to(all);
};

template <class... Options>
concept AreLayerWishes = (IsLayerWish<Options> && ...);

}  // namespace detail

/// Of each of these layers a device has a slice of the outputs: of a Linear that begins a pair, or
/// of a Vocabulary. A layer is its path as describe prints it: "4.body.0", or 4 for "4".
template <LayerPlace... Layers>
struct SplitOutputs : detail::LayerWish<Wish::outputs, Layers...> {};

/// Likewise of the inputs: of a Linear that ends a pair, or of an Embedding, whose inputs are
/// words.
template <LayerPlace... Layers>
struct SplitInputs : detail::LayerWish<Wish::inputs, Layers...> {};

/// Of each of these layers, and of all in such a part, each device has all.
template <LayerPlace... Layers>
struct KeepWhole : detail::LayerWish<Wish::whole, Layers...> {};

namespace detail {

template <class... Options>
constexpr SpreadWishes gather_wishes() {
  SpreadWishes all;
  [[maybe_unused]] auto const take = [&]<class Option>(Option const*) {
    if constexpr (IsLayerWish<Option>) {
      Option::add_to(all);
    }
  };
  (take(static_cast<Options const*>(nullptr)), ...);
  return all;
}

/// Of a strategy; most have none.
template <class S>
constexpr SpreadWishes wishes_of() {
  if constexpr (requires { S::wishes; }) {
    return S::wishes;
  } else {
    return SpreadWishes{};
  }
}

/// What the ranks of a program share.
struct SharedLayers {
  int count = 0;  ///< pairs, and tables of words
  WishFault fault = WishFault::none;
  int wish = 0;  ///< at fault
};

/// Of a network where @p places, or of a part of it.
template <GraphSize Size>
constexpr SharedLayers shared_layers(Graph<Size> const& graph, int slices,
                                     SpreadWishes const& wishes, bool places) {
  if (slices == 1 || graph.fault != Fault::none) {
    return {.count = 1};
  }
  int const misplaced = places ? misplaced_wish(graph, wishes) : -1;
  if (misplaced >= 0) {
    return {1, WishFault::place, misplaced};
  }
  auto const plan = plan_spread(graph, slices, wishes);
  return {plan.pairs + plan.tables, plan.fault, plan.wish};
}

/// @tparam Which  of the layers that the options name, from 0
template <WishFault Why, int Which>
struct WishesAreSound {
  static constexpr bool value = true;
  static_assert(Why != WishFault::place,
                "TensorParallel<N, SplitOutputs<...>, SplitInputs<...>, KeepWhole<...>>: no layer "
                "stands where one of these says; write its path as describe prints it, "
                "\"4.body.0\" or 4 (WishesAreSound names which of the layers, from 0)");
  static_assert(
      Why != WishFault::outputs,
      "TensorParallel<N, SplitOutputs<...>>: the outputs of this layer cannot be dealt "
      "out: they can of a Vocabulary over all words, and of a Linear of which another one on the "
      "same device reads, through layers that need no whole rows, as many columns, or heads, as N "
      "divides (WishesAreSound names which of the layers)");
  static_assert(Why != WishFault::inputs,
                "TensorParallel<N, SplitInputs<...>>: the inputs of this layer cannot be dealt "
                "out: they can of an Embedding, and of a Linear that reads, on the same device and "
                "through layers that need no whole rows, what another one gives, as many columns, "
                "or heads, as N divides (WishesAreSound names which of the layers)");
  static_assert(Why != WishFault::tied,
                "TensorParallel<N, KeepWhole<...>>: layers that share a table of words have it "
                "whole or have slices of it together; name all of them, or one "
                "(WishesAreSound names which of the layers)");
};

}  // namespace detail

}  // namespace tandem
