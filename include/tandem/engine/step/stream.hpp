// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepStream: the steps on their way from the program to the ranks of a pipeline that knows no
/// barrier between them, and their results on the way back.
///
/// A ring. The program's thread copies a batch into a place, each rank takes the steps in their
/// order when it comes to them, and a place is free again when all ranks are done with it.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/runtime/host/buffer.hpp>

namespace tandem {

/// What a StepStream must have room for.
struct StreamSizes {
  int steps = 1;  ///< places
  int ranks = 1;
  StallLimit limit{.timeout = {}};  ///< for the program's thread to wait for the ranks
  std::int64_t samples = 0;         ///< of the largest batch
  Shape input{};                    ///< of a sample
  Shape second{};                   ///< the second one; of no shape where there is none
  Shape targets{};                  ///< likewise
};

/// A gradient that is not finite, though the step's loss was.
struct BadGradient {
  std::int64_t step = 0;  ///< as the trainer counts
  int parameter = -1;     ///< of the network; below 0: there is none
};

/// Steps are numbered from 0 since open(). Nothing here allocates but the constructor.
template <class BatchType>
class StepStream {
 public:
  using Batch = BatchType;
  using Input = typename Batch::Input;
  using Target = typename Batch::TargetType;

  TANDEM_COLD explicit StepStream(StreamSizes const& sizes)
      : sizes_{sizes}, places_(static_cast<std::size_t>(sizes.steps)) {
    auto const samples = static_cast<std::size_t>(sizes.samples);
    for (Place& place : places_) {
      auto const bytes = [&](Shape const& shape, std::size_t element) {
        return samples * static_cast<std::size_t>(shape.elements()) * element;
      };
      place.x = host::Buffer{bytes(sizes.input, sizeof(Input))};
      place.targets = host::Buffer{bytes(sizes.targets, sizeof(Target))};
      place.second = host::Buffer{bytes(sizes.second, sizeof(Input))};
      place.second_lengths = host::Buffer{sizes.second.timed ? samples * sizeof(std::int32_t) : 0};
      place.lengths = host::Buffer{sizes.input.timed ? samples * sizeof(std::int32_t) : 0};
    }
  }

  /// Bytes of the batches.
  [[nodiscard]] std::int64_t bytes() const {
    std::size_t sum = 0;
    for (Place const& place : places_) {
      sum += place.x.bytes() + place.targets.bytes() + place.lengths.bytes() +
             place.second.bytes() + place.second_lengths.bytes();
    }
    return static_cast<std::int64_t>(sum);
  }

  // Of the program's thread.

  /// @pre no rank is at work
  void open() {
    std::lock_guard const lock{mutex_};
    pushed_ = collected_ = finished_ = 0;
    closed_ = aborted_ = wanted_ = false;
    first_bad_ = none;
    bad_gradient_ = {};
  }

  /// Copies a batch, when there is a place for it; whether there was one, or else the stream was
  /// aborted. @pre collect() leaves fewer results waiting than there are places
  /// @param look  look() is called now and then while it waits
  template <class Look>
  bool push(StepState const& state, Batch const& batch, Look const& look) {
    std::unique_lock lock{mutex_};
    Place& place = at(pushed_);
    auto const count = static_cast<std::int64_t>(places_.size());
    detail::wait_looking(
        lock, program_, sizes_.limit,
        [&] { return aborted_ || pushed_ < count || place.released == sizes_.ranks; }, look);
    if (aborted_) {
      return false;
    }
    lock.unlock();  // nobody else knows of it yet
    auto* const x = place.x.template as<Input>();
    auto* const y = place.targets.template as<Target>();
    std::copy_n(batch.x, batch.size * sizes_.input.elements(batch.time), x);
    Times const time{{batch.time, batch.second.time}};
    std::copy_n(batch.targets, batch.size * sizes_.targets.elements(time[sizes_.targets]), y);
    place.state = state;
    place.batch = Batch{};
    place.batch.x = x;
    place.batch.targets = y;
    place.batch.size = batch.size;
    place.batch.time = batch.time;
    place.batch.lengths = copied_lengths(batch.lengths, batch.size, place.lengths);
    if (batch.second.x != nullptr) {
      auto* const second = place.second.template as<Input>();
      std::copy_n(batch.second.x, batch.size * sizes_.second.elements(batch.second.time), second);
      place.batch.second = {second, batch.second.time,
                            copied_lengths(batch.second.lengths, batch.size, place.second_lengths)};
    }
    lock.lock();
    place.released = 0;
    place.followed = Followed::unknown;
    ++pushed_;
    lock.unlock();
    stage_.notify_all();
    return true;
  }

  /// Waits for the result of the oldest step that has not been collected; false if the stream was
  /// aborted before there was one. @param look  as push()'s
  template <class Look>
  bool collect(StepResult& result, Look const& look) {
    std::unique_lock lock{mutex_};
    wanted_ = true;
    stage_.notify_all();
    detail::wait_looking(
        lock, program_, sizes_.limit, [&] { return aborted_ || finished_ > collected_; }, look);
    wanted_ = false;
    if (finished_ == collected_) {
      return false;
    }
    result = at(collected_).result;
    if (bad_gradient_.parameter >= 0 && first_bad_.load() <= collected_) {
      result.non_finite = 0;
      result.bad_gradient = bad_gradient_.parameter;
    }
    ++collected_;
    return true;
  }

  /// The first that a rank has met; from then on there is none.
  BadGradient take_bad_gradient() {
    std::lock_guard const lock{mutex_};
    return std::exchange(bad_gradient_, {});
  }

  /// No step comes any more.
  void close() {
    {
      std::lock_guard const lock{mutex_};
      closed_ = true;
    }
    stage_.notify_all();
  }

  /// Wakes everybody who waits here, since a rank has failed; on any thread.
  void abort() noexcept {
    {
      std::lock_guard const lock{mutex_};
      aborted_ = true;
    }
    stage_.notify_all();
    program_.notify_all();
  }

  // Of the ranks.

  /// Waits for a step as long as it takes; false where none comes any more.
  /// @throws AbortedError  another rank has failed
  bool await(std::int64_t step) {
    std::unique_lock lock{mutex_};
    stage_.wait(lock, [&] { return aborted_ || closed_ || pushed_ > step; });
    if (aborted_) {
      throw AbortedError{"another rank has failed"};
    }
    return pushed_ > step;
  }

  /// Whether another step follows @p step at once; all ranks are told alike. Waits until one has
  /// come, or none can: the program closes the stream, or waits for the result of this one.
  /// @pre    await(step), and the rank has not released it
  /// @throws AbortedError  another rank has failed
  bool follows(std::int64_t step) {
    std::unique_lock lock{mutex_};
    Followed& followed = at(step).followed;
    stage_.wait(lock, [&] {
      return aborted_ || followed != Followed::unknown || pushed_ > step + 1 || closed_ ||
             (wanted_ && collected_ == step);
    });
    if (aborted_) {
      throw AbortedError{"another rank has failed"};
    }
    if (followed == Followed::unknown) {
      followed = pushed_ > step + 1 ? Followed::yes : Followed::no;
    }
    return followed == Followed::yes;
  }

  /// @pre await(step), and the rank has not released it
  [[nodiscard]] StepState const& state(std::int64_t step) const { return at(step).state; }
  [[nodiscard]] Batch const& batch(std::int64_t step) const { return at(step).batch; }

  /// The rank's last word on a step.
  void release(std::int64_t step) {
    bool free = false;
    {
      std::lock_guard const lock{mutex_};
      free = ++at(step).released == sizes_.ranks;
    }
    if (free) {
      program_.notify_one();
    }
  }

  /// By one rank, step by step: in an asynchronous pipeline the last stage, before it sends the
  /// gradient of the step's last microbatch, so that every stage knows before its update whether
  /// there is one; elsewhere any, when the step's sums are known.
  void finish(StepResult const& result) {
    {
      std::lock_guard const lock{mutex_};
      if (result.non_finite >= 0 && finished_ < first_bad_.load()) {
        first_bad_.store(finished_);
      }
      at(finished_++).result = result;
    }
    program_.notify_one();
  }

  /// Nobody makes this step's update, or a later one, who has not done so.
  void stop(std::int64_t step, BadGradient const& why) {
    std::lock_guard const lock{mutex_};
    if (step < first_bad_.load()) {
      first_bad_.store(step);
      bad_gradient_ = why;
    }
  }

  /// Whether losses and gradients of this step and of all before it were finite, as far as is
  /// known.
  /// @pre the caller has the gradient of its last microbatch
  [[nodiscard]] bool updates(std::int64_t step) const { return step < first_bad_.load(); }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

  enum class Followed { unknown, no, yes };

  struct Place {
    host::Buffer x;
    host::Buffer targets;
    host::Buffer lengths;
    host::Buffer second;
    host::Buffer second_lengths;
    StepState state{};
    Batch batch{};
    StepResult result{};
    int released = 0;  // ranks that are done with it
    Followed followed = Followed::unknown;
  };

  static std::int32_t const* copied_lengths(std::int32_t const* from, int size,
                                            host::Buffer const& to) {
    if (from == nullptr) {
      return nullptr;
    }
    auto* const lengths = to.template as<std::int32_t>();
    std::copy_n(from, size, lengths);
    return lengths;
  }

  Place& at(std::int64_t step) { return places_[static_cast<std::size_t>(step) % places_.size()]; }
  [[nodiscard]] Place const& at(std::int64_t step) const {
    return places_[static_cast<std::size_t>(step) % places_.size()];
  }

  StreamSizes sizes_;
  std::vector<Place> places_;
  std::mutex mutex_;  // guards all below; a place that was pushed does not change until it is free
  std::condition_variable stage_;    // ranks wait here
  std::condition_variable program_;  // and the program's thread here
  std::int64_t pushed_ = 0;          // steps since open()
  std::int64_t finished_ = 0;
  std::int64_t collected_ = 0;
  bool closed_ = false;
  bool aborted_ = false;
  bool wanted_ = false;  // the program waits for the result of step collected_
  std::atomic<std::int64_t> first_bad_{none};
  BadGradient bad_gradient_{};
};

}  // namespace tandem
