// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Spreads: how a tensor and its gradient are dealt out over the ranks that share a layer, and what
/// each kind of node takes and gives.
///
///   whole      equal on all ranks
///   columns    a rank has its slice of each row, or of the channels of an image
///   rows       a rank has its part of the rows of all samples
///   partial    the sum over the slices is the tensor
///   tiles      a rank has its tile of each image
///   widened    a rank has its tile and the pixels around it, which others have, too: of a gradient
///              the sum over all that have a pixel is its gradient
///
/// A rank has one slice of each layer that is dealt out, or several one behind the other.

#include <cstdint>

namespace tandem {

enum class Spread : std::uint8_t { whole, columns, rows, partial, tiles, widened };

/// Of a value and of its gradient.
struct SpreadPair {
  Spread value = Spread::whole;
  Spread gradient = Spread::whole;

  friend constexpr bool operator==(SpreadPair const&, SpreadPair const&) = default;
};

/// What a node is of a network that is dealt out over ranks.
enum class Dealt : std::uint8_t {
  whole,       ///< all ranks compute all of it
  columns,     ///< a product's slice of the outputs
  inside,      ///< a layer behind such a one, on the slice's columns
  rows,        ///< a product's slice of the inputs; its bias is a node of its own
  embedding,   ///< an Embedding of which a rank has its slice of the words: what others have is 0
  vocabulary,  ///< a Vocabulary likewise: the ranks bring together what they find of each row
  copy,        ///< the gradients of the ranks are added: an all-reduce in backward
  half,        ///< what one half of the slices reads of a copy, or of such a half
  join,        ///< the values of two neighbouring halves are added, on the rank
  reduce,      ///< the values of the ranks are added: an all-reduce in forward
  between,     ///< a layer of whole rows, on a rank's rows (SequenceRows)
  enter,       ///< all-gathers rows for columns; their gradients are added: a reduce-scatter
  leave,       ///< values are added, and each rank has its rows: a reduce-scatter; all-gathers back
  deal,        ///< takes a rank's rows of what all have; all-gathers their gradients
  collect,     ///< all-gathers rows; takes a rank's rows of the gradient
  cut,         ///< a rank takes its tile: in backward all exchange the tiles of the gradient
  cut_widened,  ///< likewise, with a halo
  halo,         ///< the ranks exchange what is around their tiles
  gather,       ///< the ranks exchange their tiles: all have the image
  tiled,        ///< a layer or a join, on a rank's tile
  windowed      ///< a layer whose window reaches over its tile into a halo
};

/// Whether ranks exchange pixels there.
constexpr bool exchanges_pixels(Dealt dealt) {
  return dealt == Dealt::cut || dealt == Dealt::cut_widened || dealt == Dealt::halo ||
         dealt == Dealt::gather;
}

/// What decides on the op of a node: `whole`, unless it needs another one than where all of it is
/// on each rank.
constexpr Dealt own_op(Dealt dealt) {
  bool const own = dealt == Dealt::rows || dealt == Dealt::embedding || dealt == Dealt::vocabulary;
  return own ? dealt : Dealt::whole;
}

/// What a node wants of each of its inputs, and what its readers find.
struct SpreadRule {
  SpreadPair in{};
  SpreadPair out{};
};

/// | node       | takes              | gives              |
/// | ---------- | ------------------ | ------------------ |
/// | whole      | whole, whole       | whole, whole       |
/// | copy       | whole, whole       | whole, partial     |
/// | half       | whole, partial     | whole, partial     |
/// | columns    | whole, partial     | columns, columns   |
/// | inside     | columns, columns   | columns, columns   |
/// | rows       | columns, columns   | partial, whole     |
/// | join       | partial, whole     | partial, whole     |
/// | embedding  | whole, whole       | partial, whole     |
/// | vocabulary | whole, partial     | whole, whole       |
/// | reduce     | partial, whole     | whole, whole       |
/// | between    | rows, rows         | rows, rows         |
/// | enter      | rows, rows         | whole, partial     |
/// | leave      | partial, whole     | rows, rows         |
/// | deal       | whole, whole       | rows, rows         |
/// | collect    | rows, rows         | whole, whole       |
///
/// and of tiles, of which value and gradient are alike:
///
/// | node        | takes   | gives   |
/// | ----------- | ------- | ------- |
/// | cut         | whole   | tiles   |
/// | cut_widened | whole   | widened |
/// | halo        | tiles   | widened |
/// | gather      | tiles   | whole   |
/// | tiled       | tiles   | tiles   |
/// | windowed    | widened | tiles   |
constexpr SpreadRule spread_rule(Dealt dealt) {
  constexpr SpreadPair whole{};
  constexpr SpreadPair copied{Spread::whole, Spread::partial};
  constexpr SpreadPair columns{Spread::columns, Spread::columns};
  constexpr SpreadPair rows{Spread::rows, Spread::rows};
  constexpr SpreadPair partial{Spread::partial, Spread::whole};
  constexpr SpreadPair tiles{Spread::tiles, Spread::tiles};
  constexpr SpreadPair widened{Spread::widened, Spread::widened};
  switch (dealt) {
    case Dealt::copy:
      return {whole, copied};
    case Dealt::half:
      return {copied, copied};
    case Dealt::columns:
      return {copied, columns};
    case Dealt::inside:
      return {columns, columns};
    case Dealt::rows:
      return {columns, partial};
    case Dealt::embedding:
      return {whole, partial};
    case Dealt::vocabulary:
      return {copied, whole};
    case Dealt::join:
      return {partial, partial};
    case Dealt::reduce:
      return {partial, whole};
    case Dealt::between:
      return {rows, rows};
    case Dealt::enter:
      return {rows, copied};
    case Dealt::leave:
      return {partial, rows};
    case Dealt::deal:
      return {whole, rows};
    case Dealt::collect:
      return {rows, whole};
    case Dealt::cut:
      return {whole, tiles};
    case Dealt::cut_widened:
      return {whole, widened};
    case Dealt::halo:
      return {tiles, widened};
    case Dealt::gather:
      return {tiles, whole};
    case Dealt::tiled:
      return {tiles, tiles};
    case Dealt::windowed:
      return {widened, tiles};
    case Dealt::whole:
      break;
  }
  return {whole, whole};
}

constexpr char const* name(Spread spread) {
  switch (spread) {
    case Spread::columns:
      return "columns";
    case Spread::rows:
      return "rows";
    case Spread::partial:
      return "partial";
    case Spread::tiles:
      return "tiles";
    case Spread::widened:
      return "widened";
    case Spread::whole:
      break;
  }
  return "whole";
}

}  // namespace tandem
