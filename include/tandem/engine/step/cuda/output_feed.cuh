// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OutputFeed: what a network makes of a step's samples, on the way from a GPU to the caller.

#include <cstddef>
#include <cstdint>

#include <tandem/engine/step/cuda/input_feed.cuh>
#include <tandem/engine/step/cuda/staging.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/kernels/cuda/layout.cuh>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// The network's outputs, and a criterion's scores, each where the step wants them: written by its
/// kernels, fetched behind it into one of two places, used in turn, given to the caller when it is
/// collected.
template <class Backend>
class OutputFeed {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Device = cuda::RankDevice;

  /// @param output   the network's
  /// @param samples  of the largest shard, if the device has the network's result, else 0
  OutputFeed(Device& device, Node const& output, std::int64_t samples)
      : shape_{output.out},
        limit_{output.limit},
        outputs_{device, output_bytes(samples, shape_.timed ? shape_[0] : 0)},
        places_{Place{{cuda::PinnedBuffer{outputs_.bytes(), device.device}}},
                Place{{cuda::PinnedBuffer{outputs_.bytes(), device.device}}}} {}

  /// Begins a step of samples @p result of the global batch, of @p time rows. There is memory for
  /// scores from the first step on that wants them.
  /// @param outputs  the caller's, of the global batch; null: not wanted; likewise @p scores
  void begin(Device& device, int place, FeedPart const& result, int time, P* outputs,
             float* scores) {
    result_ = result;
    time_ = time;
    wants_scores_ = scores != nullptr && result.count > 0;
    Place& at = places_[place];
    at.outputs.bytes = outputs != nullptr ? output_bytes(result.count, time) : 0;
    at.outputs.caller = outputs != nullptr ? outputs + result.first * each() : nullptr;
    at.scores.bytes =
        wants_scores_ ? static_cast<std::size_t>(result.count * limit_) * sizeof(float) : 0;
    at.scores.caller = wants_scores_ ? scores + result.first * limit_ : nullptr;
    if (at.scores.bytes > scores_.bytes()) {
      scores_ = cuda::Buffer{device, at.scores.bytes};
    }
    if (at.scores.bytes > at.scores.host.bytes()) {
      at.scores.host = cuda::PinnedBuffer{at.scores.bytes, device.device};
    }
  }

  /// Queues that a microbatch's outputs @p y are kept for the caller, in its order of axes.
  void store(Device const& device, T const* y, Microbatch const& m) const {
    int const channels = shape_.rank == 3 ? shape_[0] : 1;
    cuda::from_channels_last(device.compute, m.size, channels, static_cast<int>(each() / channels),
                             y, outputs_.template as<P>() + (m.first - result_.first) * each());
  }
  /// Where a criterion writes those of the microbatch; null: they are not wanted.
  [[nodiscard]] float* scores(Microbatch const& m) const {
    return wants_scores_ ? scores_.template as<float>() + (m.first - result_.first) * limit_
                         : nullptr;
  }

  void fetch(Device const& device, int place) const {
    places_[place].outputs.fetch(device, outputs_.data());
    places_[place].scores.fetch(device, scores_.data());
  }
  /// @pre what fetch() queued for this place is over
  void deliver(int place) const {
    places_[place].outputs.deliver();
    places_[place].scores.deliver();
  }

  /// Of the device's memory.
  [[nodiscard]] std::size_t bytes() const { return outputs_.bytes() + scores_.bytes(); }

 private:
  struct Place {
    cuda::Fetching outputs;
    cuda::Fetching scores{};
  };

  [[nodiscard]] std::int64_t each() const { return shape_.elements(time_); }
  [[nodiscard]] std::size_t output_bytes(std::int64_t samples, int time) const {
    return static_cast<std::size_t>(samples * shape_.elements(time)) * sizeof(P);
  }

  Shape shape_;
  std::int64_t limit_;
  cuda::Buffer outputs_;  // (samples, output), as the caller gets them
  cuda::Buffer scores_;   // (samples, limit)
  Place places_[2];
  FeedPart result_;  // of the step at work
  int time_ = 0;
  bool wants_scores_ = false;
};

}  // namespace tandem
