// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineGuard: a process's lifeline, whose verdict ends the waiting of its ranks.

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>

#include <tandem/comm/lifeline/lifeline.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>

namespace tandem {

/// What a transport between processes has beside its Group: made before it, so that a process that
/// ends while the ranks connect is known to the others. A single process has no lifeline.
/// @tparam Group  abort(rank, reason) makes its ranks here throw; from any thread, without waiting
template <class Group>
class LifelineGuard {
 public:
  /// @param local    ranks of each process
  /// @param timeout  of the ranks; a process that is silent for so long, 30 s at most, is given up
  /// @throws as Lifeline does
  LifelineGuard(World const& world, int local, std::chrono::milliseconds timeout) : local_{local} {
    if (world.processes > 1) {
      lifeline_.emplace(
          world, [this](LifelineVerdict const& verdict) { end(verdict); },
          LifelineOptions{.timeout = timeout,
                          .silence = std::clamp<std::chrono::milliseconds>(
                              timeout, std::chrono::seconds{3}, std::chrono::seconds{30})});
    }
  }

  /// @p group is aborted by what goes wrong elsewhere, or has already, until release().
  void guard(Group& group) {
    std::lock_guard const lock{mutex_};
    group_ = &group;
    if (auto const known = lifeline_ ? lifeline_->verdict() : std::nullopt) {
      abort(*known);
    }
  }
  /// The group is about to go.
  void release() {
    std::lock_guard const lock{mutex_};
    group_ = nullptr;
  }

  /// As Lifeline's.
  void leave_in_order() noexcept {
    if (lifeline_) {
      lifeline_->leave_in_order();
    }
  }

  /// The others learn that a rank of this process has failed.
  void report(int rank, std::string_view what) {
    if (lifeline_) {
      lifeline_->report(rank, what);
    }
  }

 private:
  void end(LifelineVerdict const& verdict) {
    std::lock_guard const lock{mutex_};
    if (group_ != nullptr) {
      abort(verdict);
    }
  }

  void abort(LifelineVerdict const& verdict) {
    group_->abort(verdict.rank < 0 ? verdict.process * local_ : verdict.rank, verdict.reason());
  }

  int local_;
  std::mutex mutex_;
  Group* group_ = nullptr;            // by mutex_
  std::optional<Lifeline> lifeline_;  // last: its thread uses what is above
};

}  // namespace tandem
