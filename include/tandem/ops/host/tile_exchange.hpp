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

#include <tandem/core/tile_box.hpp>
#include <tandem/kernels/host/boxes.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/tile_routes.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Forward brings what TileRoutes says; what is outside the image is filled. Backward adds what
/// comes, in the order of the ranks.
template <class T, class P, bool ChannelsLast>
class TileExchangeOp {
 public:
  explicit TileExchangeOp(OpSetup const& setup)
      : node_{setup.node},
        forward_{setup.node, setup.slice.number, false},
        backward_{setup.node, setup.slice.number, true},
        self_{setup.slice.number},
        largest_{std::max(setup.batch, 1)},
        channels_{setup.node.in[0]} {
    messages_.reserve(static_cast<std::size_t>(setup.slice.count));
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.scratch_bytes = largest_ * channels_ *
                             std::max(forward_.pixels(), backward_.pixels()) *
                             static_cast<std::int64_t>(sizeof(T))};
  }

  void begin_forward(Operands<T, P> const& o, Pass<Device> const& p) { begin(p, forward_, o.x[0]); }
  void finish_forward(Operands<T, P> const& o, Pass<Device> const& p) {
    TileBox const own = forward_.there();
    if (node_.sharing.halo.any()) {
      T const outside =
          node_.sharing.halo.lowest ? static_cast<T>(-std::numeric_limits<float>::infinity()) : T{};
      fill(p.device.team, o.y, p.batch * node_.out.elements(), outside);
    }
    move<false>(p, o.x[0], forward_.here(), o.y, own, common_box(forward_.here(), own));
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      TileBox const& in = forward_.routes()[i].in;
      if (!in.empty()) {
        move<false>(p, messages_[i].in, in, o.y, own, in);
      }
    }
  }

  void begin_input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    begin(p, backward_, o.dy);
  }
  void finish_input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    TileBox const own = backward_.there();
    fill(p.device.team, o.dx[0], p.batch * node_.in.elements(), T{});
    bool added = false;  // the rank's own, in its place among the others'
    auto const add_own = [&] {
      added = true;
      move<true>(p, o.dy, backward_.here(), o.dx[0], own, common_box(backward_.here(), own));
    };
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      TileRoute const& route = backward_.routes()[i];
      if (!added && route.peer > self_) {
        add_own();
      }
      if (!route.in.empty()) {
        move<true>(p, messages_[i].in, route.in, o.dx[0], own, route.in);
      }
    }
    if (!added) {
      add_own();
    }
  }

  /// Of the pass that has begun.
  [[nodiscard]] std::span<TileMessage<T> const> messages() const { return messages_; }

 private:
  void begin(Pass<Device> const& p, TileRoutes const& routes, T const* data) {
    std::int64_t const numbers = p.batch * std::int64_t{channels_};
    T* const scratch = p.device.scratch_as<T>();
    routes.write_messages(data, scratch, numbers, messages_);
    for (TileRoute const& route : routes.routes()) {
      if (route.packs) {
        move<false>(p, data, routes.here(), scratch + route.out_at * numbers, route.out, route.out);
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
  TileRoutes forward_;
  TileRoutes backward_;
  int self_;
  std::int64_t largest_;
  int channels_;
  std::vector<TileMessage<T>> messages_;  // of the pass, one a route
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
