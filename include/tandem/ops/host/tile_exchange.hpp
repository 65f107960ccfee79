// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Cut, Halo and Gather of a graph of tiles on Host, with the portable kernels and channels-last.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <tandem/graph/neighbourhood.hpp>
#include <tandem/kernels/host/boxes.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// A rank holds a box of each image, its tile or all of it, and wants another one: forward brings
/// it, from the others what they hold of it; what is outside the image is filled. Backward takes
/// the gradient of what it wanted back to who holds it, and adds what comes, in the order of the
/// ranks; a whole image that all hold already they do not send each other.
template <class T, class P, bool ChannelsLast>
class TileExchangeOp {
 public:
  explicit TileExchangeOp(OpSetup const& setup)
      : node_{setup.node},
        self_{setup.slice.number},
        largest_{std::max(setup.batch, 1)},
        channels_{setup.node.in[0]} {
    messages_.resize(static_cast<std::size_t>(setup.slice.count));
    current_.reserve(messages_.size());
  }

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t pixels = 0;
    for (int other = 0; other < ranks(); ++other) {
      pixels += other == self_ ? 0
                               : common_box(held(self_), wanted(other)).pixels() +
                                     common_box(wanted(self_), held(other)).pixels();
    }
    return {.scratch_bytes = largest_ * channels_ * pixels * static_cast<std::int64_t>(sizeof(T))};
  }

  void begin_forward(Operands<T, P> const& o, Pass<Device> const& p) {
    lay_out(
        p, cuts(), [this](int a) { return held(a); }, [this](int a) { return wanted(a); });
    pack(p, o.x[0], held(self_));
  }
  void finish_forward(Operands<T, P> const& o, Pass<Device> const& p) {
    TileBox const own = wanted(self_);
    if (node_.halo.any()) {
      T const outside =
          node_.halo.lowest ? static_cast<T>(-std::numeric_limits<float>::infinity()) : T{};
      fill(p.device.team, o.y, p.batch * node_.out.elements(), outside);
    }
    move<false>(p, o.x[0], held(self_), o.y, own, common_box(held(self_), own));
    for (Piece const& piece : messages_) {
      if (!piece.in.empty()) {
        move<false>(p, piece.from, piece.in, o.y, own, piece.in);
      }
    }
  }

  void begin_input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    lay_out(
        p, gathers(), [this](int a) { return wanted(a); }, [this](int a) { return held(a); });
    pack(p, o.dy, wanted(self_));
  }
  void finish_input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    TileBox const own = held(self_);
    fill(p.device.team, o.dx[0], p.batch * node_.in.elements(), T{});
    for (int other = 0; other < ranks(); ++other) {
      Piece const& piece = messages_[static_cast<std::size_t>(other)];
      if (other == self_) {
        move<true>(p, o.dy, wanted(self_), o.dx[0], own, common_box(wanted(self_), own));
      } else if (!piece.in.empty()) {
        move<true>(p, piece.from, piece.in, o.dx[0], own, piece.in);
      }
    }
  }

  /// Of the pass that has begun.
  [[nodiscard]] std::span<TileMessage<T> const> messages() const { return current_; }

 private:
  // To and from one other rank, of each image.
  struct Piece {
    TileBox out{};
    TileBox in{};
    T* to = nullptr;
    T* from = nullptr;
  };

  [[nodiscard]] int ranks() const { return node_.tiles.height * node_.tiles.width; }
  [[nodiscard]] bool gathers() const { return node_.dealt == Dealt::gather; }
  [[nodiscard]] bool cuts() const {
    return node_.dealt == Dealt::cut || node_.dealt == Dealt::cut_widened;
  }
  static Extent2d extent(Shape const& image) { return {image[1], image[2]}; }
  [[nodiscard]] TileBox held(int rank) const {
    return cuts() ? TileBox{0, 0, extent(node_.in)} : tile_box(rank, node_.tiles, extent(node_.in));
  }
  [[nodiscard]] TileBox wanted(int rank) const {
    Extent2d const in = extent(node_.in);
    Extent2d const tile =
        cuts() ? Extent2d{in.height / node_.tiles.height, in.width / node_.tiles.width} : in;
    return gathers() ? TileBox{0, 0, extent(node_.out)}
                     : tile_box(rank, node_.tiles, tile, node_.halo);
  }

  // Of a pass in which each rank has here(rank) and comes to have there(rank).
  template <class Here, class There>
  void lay_out(Pass<Device> const& p, bool alone, Here const& here, There const& there) {
    current_.clear();
    T* next = p.device.scratch_as<T>();
    for (int other = 0; other < ranks(); ++other) {
      Piece& piece = messages_[static_cast<std::size_t>(other)];
      piece = {};
      if (alone || other == self_) {
        continue;
      }
      piece.out = common_box(here(self_), there(other));
      piece.in = common_box(here(other), there(self_));
      std::int64_t const sent = p.batch * std::int64_t{channels_} * piece.out.pixels();
      std::int64_t const received = p.batch * std::int64_t{channels_} * piece.in.pixels();
      piece.to = next;
      piece.from = next + sent;
      next += sent + received;
      if (sent + received > 0) {
        current_.push_back({other, piece.to, sent, piece.from, received});
      }
    }
  }
  void pack(Pass<Device> const& p, T const* data, TileBox const& box) const {
    for (Piece const& piece : messages_) {
      if (!piece.out.empty()) {
        move<false>(p, data, box, piece.to, piece.out, piece.out);
      }
    }
  }

  // What is in @p box, from where images are of box @p from to where they are of box @p to.
  template <bool Add>
  void move(Pass<Device> const& p, T const* data, TileBox const& from, T* into, TileBox const& to,
            TileBox const& box) const {
    move_boxes<Add, T>(p.device.team, ChannelsLast ? p.batch : std::int64_t{p.batch} * channels_,
                       ChannelsLast ? channels_ : 1, box.size,
                       {data, from.size, box.row - from.row, box.column - from.column},
                       {into, to.size, box.row - to.row, box.column - to.column});
  }

  Node node_;
  int self_;
  std::int64_t largest_;
  int channels_;
  std::vector<Piece> messages_;  // of each rank
  std::vector<TileMessage<T>> current_;
};

}  // namespace host

template <class Kernels, class Precision>
struct Op<TileExchange, BasicHost<Kernels, Precision>>
    : host::TileExchangeOp<typename Precision::Scalar, typename Precision::Master,
                           Kernels::rewrites.channels_last> {
  using host::TileExchangeOp<typename Precision::Scalar, typename Precision::Master,
                             Kernels::rewrites.channels_last>::TileExchangeOp;
};

}  // namespace tandem
