// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Cut, Halo and Gather of a graph of tiles on Cuda.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/tile_box.hpp>
#include <tandem/kernels/cuda/boxes.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/tile_routes.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// As on Host: forward brings what TileRoutes says, and what is outside the image is filled;
/// backward adds what comes, in the order of the ranks. A kernel packs what is sent, another one
/// reads what has come.
template <class T, class P>
class TileExchangeOp {
 public:
  explicit TileExchangeOp(OpSetup const& setup)
      : forward_{setup.node, setup.slice.number, false},
        backward_{setup.node, setup.slice.number, true},
        self_{setup.slice.number},
        largest_{std::max(setup.batch, 1)},
        channels_{setup.node.in[0]},
        lowest_{setup.node.sharing.halo.lowest} {
    auto const ranks = static_cast<std::size_t>(setup.slice.count);
    messages_.reserve(ranks);
    sources_.reserve(ranks);
    packed_.reserve(ranks);
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.scratch_bytes = largest_ * channels_ *
                             std::max(forward_.pixels(), backward_.pixels()) *
                             static_cast<std::int64_t>(sizeof(T))};
  }

  void begin_forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    begin(p, forward_, o.x[0]);
  }
  void finish_forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    T const outside = lowest_ ? static_cast<T>(-std::numeric_limits<float>::infinity()) : T{};
    place_boxes<T>(p.device.compute, p.batch, channels_, {o.y, forward_.there()},
                   sources(forward_, o.x[0], 0), outside);
  }

  void begin_input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    begin(p, backward_, o.dy);
  }
  void finish_input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    add_boxes<T>(p.device.compute, p.batch, channels_, {o.dx[0], backward_.there()},
                 sources(backward_, o.dy, self_));
  }

  /// Of the pass that has begun.
  [[nodiscard]] std::span<TileMessage<T> const> messages() const { return messages_; }

 private:
  void begin(Pass<RankDevice> const& p, TileRoutes const& routes, T const* data) {
    std::int64_t const numbers = p.batch * std::int64_t{channels_};
    T* const scratch = p.device.scratch_as<T>();
    routes.write_messages(data, scratch, numbers, messages_);
    packed_.clear();
    for (TileRoute const& route : routes.routes()) {
      if (route.packs) {
        packed_.push_back({scratch + route.out_at * numbers, route.out});
      }
    }
    pack_boxes<T>(p.device.compute, p.batch, channels_, {data, routes.here()}, packed_);
  }

  // What the pass has got, and in its place before the peers from @p number on what the rank had.
  std::span<BoxImages<T const> const> sources(TileRoutes const& routes, T const* data, int number) {
    sources_.clear();
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (!routes.routes()[i].in.empty()) {
        sources_.push_back({messages_[i].in, routes.routes()[i].in});
      }
    }
    std::size_t place = 0;
    for (TileRoute const& route : routes.routes()) {
      place += route.peer < number && !route.in.empty() ? 1 : 0;
    }
    sources_.insert(sources_.begin() + static_cast<std::ptrdiff_t>(place), {data, routes.here()});
    return sources_;
  }

  TileRoutes forward_;
  TileRoutes backward_;
  int self_;
  std::int64_t largest_;
  int channels_;
  bool lowest_;
  std::vector<TileMessage<T>> messages_;  // of the pass, one a route
  std::vector<BoxImages<T const>> sources_;
  std::vector<BoxImages<T>> packed_;
};

}  // namespace cuda

template <class Kernels, class Precision>
struct Op<TileExchange, BasicCuda<Kernels, Precision>>
    : cuda::TileExchangeOp<typename Precision::Scalar, typename Precision::Master> {
  using cuda::TileExchangeOp<typename Precision::Scalar,
                             typename Precision::Master>::TileExchangeOp;
};

}  // namespace tandem
