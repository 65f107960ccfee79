// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankStream: the ranks of a pipeline without a barrier between steps at work on a StepStream, and
/// their end.

#include <memory>
#include <utility>
#include <vector>

#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/engine/step/stream.hpp>
#include <tandem/train/ranks/launch.hpp>

namespace tandem {

/// The ranks run from the first push() until finish(), and know no steps' ends but their own.
/// @tparam RankType  has run_stream()
template <class RankType>
class RankStream {
 public:
  using Rank = RankType;
  using Batch = typename Rank::Batch;
  using Ranks = std::vector<std::unique_ptr<Rank>>;

  /// @param ranks  outlive this, and are not moved
  RankStream(Ranks const& ranks, StreamSizes const& sizes)
      : run_{&ranks, &stream_}, stream_{sizes} {}

  RankStream(RankStream const&) = delete;
  RankStream& operator=(RankStream const&) = delete;

  [[nodiscard]] std::int64_t bytes() const { return stream_.bytes(); }

  /// Hands over a step. False if a rank has failed: then finish() says what happened.
  bool push(RankThreads& threads, StepState const& state, Batch const& batch) {
    if (!std::exchange(running_, true)) {
      stream_.open();
      threads.start(run_, "training");
    }
    return stream_.push(state, batch, [&threads] { threads.look(); });
  }

  /// Waits for the result of the oldest step that has not been collected; false as of push().
  bool collect(RankThreads& threads, StepResult& result) {
    return stream_.collect(result, [&threads] { threads.look(); });
  }

  /// Lets the ranks finish all steps that were pushed.
  /// @throws RankError  a rank has thrown
  void finish(RankThreads& threads) {
    if (std::exchange(running_, false)) {
      stream_.close();
      threads.wait();
    }
  }

  /// See StepStream.
  BadGradient take_bad_gradient() { return stream_.take_bad_gradient(); }

  /// A rank has failed: nobody waits for another step. On any thread.
  void abort() noexcept { stream_.abort(); }

 private:
  struct Run {
    Ranks const* ranks;
    StepStream<Batch>* stream;
    void operator()(int local) const {
      (*ranks)[static_cast<std::size_t>(local)]->run_stream(*stream);
    }
  };

  Run run_;
  StepStream<Batch> stream_;
  bool running_ = false;
};

}  // namespace tandem
