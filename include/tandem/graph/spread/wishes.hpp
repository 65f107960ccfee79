// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SpreadWishes: what is asked of some layers of a network whose layers ranks share, whatever
/// plan_spread would do.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tandem/graph/graph.hpp>

namespace tandem {

/// Where a layer stands, as describe prints it: "4.body.0", or 4 for "4".
struct LayerPlace {
  Path path{};
  bool sound = true;  ///< it was read

  constexpr LayerPlace() = default;
  constexpr LayerPlace(int top)  // NOLINT(google-explicit-constructor)
      : sound{0 <= top && top < largest} {
    path.push(sound ? top : 0);
  }
  template <std::size_t Size>
  constexpr LayerPlace(char const (&text)[Size]) {  // NOLINT(google-explicit-constructor)
    take(text, Size - 1);
  }
  /// A path as the constructor reads it, of text that is known at run time only.
  [[nodiscard]] static constexpr LayerPlace read(std::string_view text) {
    LayerPlace place;
    place.take(text.data(), text.size());
    return place;
  }

  friend constexpr bool operator==(LayerPlace const&, LayerPlace const&) = default;

 private:
  static constexpr int largest = 1 << 15;
  static constexpr int unread = largest;

  constexpr void take(char const* text, std::size_t size) {
    std::size_t at = 0;
    while (sound && at < size) {
      std::size_t end = at;
      while (end < size && text[end] != '.') {
        ++end;
      }
      int const part = number(text, at, end);
      sound = part != unread && path.depth < Path::most && end + 1 != size;  // no dot at the end
      if (sound) {
        path.push(part);
      }
      at = end + 1;
    }
    sound = sound && path.depth > 0;
  }
  static constexpr bool is(char const* text, std::size_t size, char const* word) {
    std::size_t i = 0;
    while (i < size && word[i] == text[i]) {
      ++i;
    }
    return i == size && word[i] == '\0';
  }
  static constexpr int number(char const* text, std::size_t begin, std::size_t end) {
    if (is(text + begin, end - begin, "body")) {
      return Path::body;
    }
    if (is(text + begin, end - begin, "shortcut")) {
      return Path::shortcut;
    }
    int value = 0;
    for (std::size_t i = begin; i < end && value < largest; ++i) {
      value = text[i] >= '0' && text[i] <= '9' ? 10 * value + (text[i] - '0') : unread;
    }
    return begin == end || value > unread ? unread : value;
  }
};

/// What is asked of a layer.
enum class Wish : std::uint8_t {
  none,
  outputs,  ///< a rank has a slice of its outputs
  inputs,   ///< of its inputs
  whole     ///< each rank has all of it
};

struct SpreadWish {
  LayerPlace place{};
  Wish wish = Wish::none;

  friend constexpr bool operator==(SpreadWish const&, SpreadWish const&) = default;
};

/// The wishes, and which tables of words they leave to be dealt out, once that is decided.
struct SpreadWishes {
  static constexpr int most = 32;
  int count = 0;
  SpreadWish item[most] = {};
  bool decided = false;
  int tables = 0;
  int table[most] = {};  ///< each one's owner in the network's graph

  constexpr void add(LayerPlace place, Wish wish) {
    expects(count < most, "at most 32 layers may be named");
    item[count++] = {place, wish};
  }
  constexpr void add_table(int owner) {
    if (!has_table(owner) && tables < most) {
      table[tables++] = owner;
    }
  }
  [[nodiscard]] constexpr bool has_table(int owner) const {
    bool has = false;
    for (int i = 0; i < tables; ++i) {
      has = has || table[i] == owner;
    }
    return has;
  }

  /// Of the layer at @p path: the last that names it, or, to be whole, a part that it is in.
  [[nodiscard]] constexpr Wish of(Path const& path) const {
    Wish found = Wish::none;
    for (int i = 0; i < count; ++i) {
      found = names(i, path) ? item[i].wish : found;
    }
    return found;
  }
  /// Whether wish @p i is of the layer at @p path.
  [[nodiscard]] constexpr bool names(int i, Path const& path) const {
    Path const& own = item[i].place.path;
    bool same = item[i].place.sound && own.depth <= path.depth &&
                (own.depth == path.depth || item[i].wish == Wish::whole);
    for (int k = 0; k < own.depth && same; ++k) {
      same = own.part[k] == path.part[k];
    }
    return same;
  }

  friend constexpr bool operator==(SpreadWishes const&, SpreadWishes const&) = default;
};

}  // namespace tandem
