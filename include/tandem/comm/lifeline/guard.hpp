// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineGuard: a process's lifeline, whose verdict ends the waiting of its ranks, and the
/// process itself where its ranks do not return.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/lifeline.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/threads/chain.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// What a transport between processes has beside its Group: made before it, so that a process that
/// ends while the ranks connect is known to the others. A single process has no lifeline.
///
/// Whoever hands the ranks work says so by enter() and leave(). Where they are at work 3 s after
/// the verdict, in a call that does not return, say, the sentence is printed and the process ends.
/// @tparam Group  abort(rank, reason) makes its ranks here throw; from any thread, without waiting.
///                Where it has them, time_out(sentence) does so for a time-out, and waits() lists
///                the ranks here that wait for others; or reached() how far they have come in
///                groups that have members(group).
template <class Group>
class LifelineGuard {
 public:
  /// Words for what a rank of this process, numbered among all, is at; "" for nothing.
  using Where = std::function<std::string(int rank)>;

  /// From the verdict on, until a process whose ranks are at work is ended.
  static constexpr std::chrono::milliseconds grace{3000};

  /// @param local    ranks of each process
  /// @param timeout  of the ranks; a process that is silent for 2 s longer, 30 s at most, is given
  ///                 up: a rank that has waited for it says more
  /// @param hook     what to do about ranks that do not return
  /// @throws as Lifeline does
  LifelineGuard(World const& world, int local, std::chrono::milliseconds timeout, OnStall hook = {})
      : first_{world.process * local}, local_{local}, hook_{hook} {
    if (world.processes > 1) {
      lifeline_.emplace(
          world,
          LifelineCalls{.on_verdict = [this](LifelineVerdict const& verdict) { end(verdict); },
                        .after_verdict = [this] { look(); },
                        .board = [this] { return board(); },
                        .waits = [this] { return waits(); },
                        .reached = [this] { return reached(); },
                        .members = [this](int group) { return members(group); }},
          LifelineOptions{
              .timeout = timeout,
              .beat = std::clamp<std::chrono::milliseconds>(
                  timeout / 8, std::chrono::milliseconds{100}, std::chrono::seconds{1}),
              .silence = std::clamp<std::chrono::milliseconds>(timeout, std::chrono::seconds{1},
                                                               std::chrono::seconds{28}) +
                         std::chrono::seconds{2},
              .local_ranks = local});
    }
  }

  /// @p group is aborted, once, by what goes wrong elsewhere, or has already, until release().
  void guard(Group& group, Where where = {}) {
    std::lock_guard const lock{mutex_};
    group_ = &group;
    where_ = std::move(where);
    if (verdict_) {
      abort();
    }
  }
  /// The group is about to go.
  void release() {
    std::lock_guard const lock{mutex_};
    group_ = nullptr;
  }

  /// "rank 3 failed: on node7, process 1: the disk is full"; "" where nothing has gone wrong. From
  /// any thread: for whoever waits before guard().
  [[nodiscard]] std::string failure() const {
    auto const known = lifeline_ ? lifeline_->verdict() : std::nullopt;
    return known ? sentence_of(*known) : std::string{};
  }

  /// As Lifeline's.
  void leave_in_order() noexcept {
    if (lifeline_) {
      lifeline_->leave_in_order();
    }
  }

  /// The others learn that a rank of this process has failed, and what it was at.
  void report(int rank, std::string_view what) {
    if (lifeline_) {
      std::string const at = place_of(rank);
      lifeline_->report(rank, at.empty() ? std::string{what} : at + ": " + std::string{what});
    }
  }
  /// A rank of this process has waited too long, and still waits until the verdict is there.
  void report_time_out(int rank, std::string_view what) {
    if (lifeline_) {
      lifeline_->report_time_out(rank, what);
    }
  }

  /// As Lifeline's.
  void begin_work() noexcept {
    if (lifeline_) {
      lifeline_->begin_work();
    }
  }
  /// exit() was called, which leaves the ranks where they are: the others learn whether this
  /// process ends in order or in the middle of a work.
  /// @returns whether it ends in order
  bool end_by_exit() {
    bool const in_order = since_.load(std::memory_order_relaxed) == idle;
    if (lifeline_ && in_order) {
      lifeline_->leave();
    } else if (lifeline_) {
      lifeline_->report_process("has called exit() " + board());
    }
    return in_order;
  }

  /// The ranks have begun this step, counted from 1.
  void at_step(std::int64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }

  /// The ranks are at work until leave(). By one thread, in pairs, which may be nested.
  void enter() noexcept {
    if (++depth_ == 1) {
      since_.store(now(), std::memory_order_relaxed);
    }
  }
  void leave() noexcept {
    if (--depth_ == 0) {
      since_.store(idle, std::memory_order_relaxed);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::rep idle = 0;

  static Clock::rep now() noexcept { return Clock::now().time_since_epoch().count(); }

  void end(LifelineVerdict const& verdict) {
    std::lock_guard const lock{mutex_};
    ends_at_ = now() + Clock::duration{grace}.count();
    verdict_ = verdict;
    if (group_ != nullptr) {
      abort();
    }
  }

  void abort() {
    if constexpr (requires { group_->time_out(verdict_->reason()); }) {
      if (verdict_->timed_out) {
        group_->time_out(verdict_->reason());
        return;
      }
    }
    group_->abort(rank_of(*verdict_), verdict_->reason());
  }

  [[nodiscard]] int rank_of(LifelineVerdict const& verdict) const {
    return verdict.rank < 0 ? verdict.process * local_ : verdict.rank;
  }
  [[nodiscard]] std::string sentence_of(LifelineVerdict const& verdict) const {
    return verdict.timed_out
               ? verdict.reason()
               : "rank " + std::to_string(rank_of(verdict)) + " failed: " + verdict.reason();
  }

  // Whether the ranks have returned from what they were at.
  TANDEM_COLD void look() {
    Clock::rep const since = since_.load(std::memory_order_relaxed);
    Clock::rep const time = now();
    if (since == idle || time < ends_at_ || time - since < Clock::duration{grace}.count()) {
      return;
    }
    std::string const text = sentence_of(*verdict_) + "; the ranks of this process, " +
                             std::to_string(first_) +
                             (local_ > 1 ? " to " + std::to_string(first_ + local_ - 1) : "") +
                             ", have not returned within 3 s of it, so the process ends";
    bool const is_other = verdict_->timed_out || verdict_->process * local_ != first_;
    detail::report_stall(hook_, {.message = text.c_str(), .rank = first_, .idle = grace},
                         is_other ? ExitCode::peer_failed : ExitCode::error);
    ends_at_ = time + Clock::duration{grace}.count();
  }

  /// "step 5, at 0F1 (microbatch 1)"
  std::string place_of(int rank) {
    std::lock_guard const lock{mutex_};
    std::string const at = where_ ? where_(rank) : std::string{};
    std::string const step = step_text();
    return step + (step.empty() || at.empty() ? "" : ", ") + at;
  }
  /// "in step 5, rank 2 at 0F1 (microbatch 1), rank 3 at no action"
  std::string board() {
    std::lock_guard const lock{mutex_};
    std::string text = step_text();
    text = text.empty() ? "before its first step" : "in " + text;
    for (int local = 0; where_ && group_ != nullptr && local < local_; ++local) {
      std::string const at = where_(first_ + local);
      text += at.empty() ? "" : ", rank " + std::to_string(first_ + local) + " " + at;
    }
    return text;
  }
  [[nodiscard]] std::string step_text() const {
    auto const step = step_.load(std::memory_order_relaxed);
    return step > 0 ? "step " + std::to_string(step) : std::string{};
  }

  std::vector<detail::WaitingRank> waits() {
    std::lock_guard const lock{mutex_};
    if constexpr (requires { group_->waits(); }) {
      if (group_ != nullptr) {
        try {
          return group_->waits();
        } catch (std::exception const&) {  // of the memory: the others say whom they wait for
        }
      }
    }
    return {};
  }

  std::vector<detail::ReachedCall> reached() {
    std::lock_guard const lock{mutex_};
    if constexpr (requires { group_->reached(); }) {
      if (group_ != nullptr) {
        try {
          return group_->reached();
        } catch (std::exception const&) {  // of the memory, as above
        }
      }
    }
    return {};
  }
  std::vector<int> members([[maybe_unused]] int group) {
    std::lock_guard const lock{mutex_};
    if constexpr (requires { group_->members(group); }) {
      if (group_ != nullptr) {
        return group_->members(group);
      }
    }
    return {};
  }

  int first_;
  int local_;
  OnStall hook_;
  std::atomic<std::int64_t> step_{0};
  std::atomic<Clock::rep> since_{idle};  // the ranks are at work
  int depth_ = 0;
  std::mutex mutex_;
  Group* group_ = nullptr;  // by mutex_, and so where_
  Where where_;
  std::optional<LifelineVerdict> verdict_;  // written by the lifeline's thread, by mutex_
  Clock::rep ends_at_ = 0;                  // the lifeline's thread's own
  std::optional<Lifeline> lifeline_;        // last: its thread uses what is above
};

}  // namespace tandem
