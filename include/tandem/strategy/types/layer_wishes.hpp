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

}  // namespace detail

}  // namespace tandem
