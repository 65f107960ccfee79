// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::GroupWait: how ranks that are threads wait for each other; detail::SharedFailure: what
/// ends all their waiting.
///
/// Each group has a mutex and a condition of its own, so that no rank is woken by what happens in
/// another group; only a failure is common to all groups of a program.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tandem/comm/threads/chain.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

class GroupWait;

/// A wait of a rank, in the list of its group; on the stack of the thread that waits.
class AwaitedBase {
 public:
  explicit AwaitedBase(void (*f)(AwaitedBase const&, WaitingRank&)) : describe_{f} {}
  AwaitedBase(AwaitedBase const&) = delete;
  AwaitedBase& operator=(AwaitedBase const&) = delete;

  /// @pre the caller has the group's lock
  void describe(WaitingRank& wait) const { describe_(*this, wait); }

 private:
  friend class GroupWait;

  void (*describe_)(AwaitedBase const&, WaitingRank&);
  AwaitedBase* before_ = nullptr;
  AwaitedBase* behind_ = nullptr;
};

/// @tparam F  f(wait) says who waits for whom, if it comes to that
template <class F>
class Awaited : public AwaitedBase {
 public:
  explicit Awaited(F const& f)
      : AwaitedBase{[](AwaitedBase const& self, WaitingRank& wait) {
          static_cast<Awaited const&>(self).f_(wait);
        }},
        f_{f} {}

 private:
  F f_;
};

/// The failure of all groups that share it. The first one counts, later ones change nothing.
/// Where a group's lock and that of its message are both taken, the group's is taken first.
class SharedFailure {
 public:
  enum class Kind { none, aborted, timed_out };

  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  /// Tells nobody: wake() does. Allocates nothing.
  /// @param message  "" where there was no memory for one
  TANDEM_ONCE TANDEM_COLD void set(Kind kind, std::string message) noexcept;

  /// Makes every rank that waits look again. @pre the caller has no group's lock
  TANDEM_ONCE TANDEM_COLD void wake() const;

  /// All waits of the ranks of this process, and which of them is @p first.
  /// @pre the caller has no group's lock
  /// @throws std::bad_alloc
  TANDEM_ONCE std::vector<WaitingRank> waits(AwaitedBase const* first = nullptr,
                                             std::size_t* place = nullptr) const;

  /// Who is to blame that @p first has waited too long; "" if there is no memory for it.
  /// @param rank  the one that has waited, set
  /// @pre the caller has no group's lock
  TANDEM_ONCE TANDEM_COLD std::string blame(AwaitedBase const& first, int& rank) const noexcept;

  /// How time-outs are told: by set() and wake(), or by what is called here, which returns when all
  /// that wait have heard of them. To be set before ranks wait.
  struct Escalation {
    void (*call)(void* context, int rank, std::string const& text) = nullptr;
    void* context = nullptr;
  };
  void escalate_by(Escalation escalation) noexcept { escalation_ = escalation; }
  [[nodiscard]] Escalation const& escalation() const noexcept { return escalation_; }

  /// @throws TimeoutError  the failure is a time-out; or AbortedError: see @p as_aborted
  /// @param as_aborted  for ranks that did not wait when it happened: always AbortedError
  TANDEM_ONCE [[noreturn]] TANDEM_COLD void raise(bool as_aborted) const;

  TANDEM_ONCE void reset();

  /// Groups come and go while no rank is at work, but another process may fail meanwhile.
  TANDEM_ONCE void add(GroupWait& group);
  TANDEM_ONCE void remove(GroupWait& group) noexcept;
  TANDEM_ONCE [[nodiscard]] bool shared() const noexcept;

 private:
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string text() const;

  mutable std::mutex mutex_;  // guards kind_ and message_
  std::atomic<bool> failed_{false};
  Kind kind_ = Kind::none;
  std::string message_;
  Escalation escalation_;
  mutable std::mutex groups_mutex_;  // taken before a group's lock, where both are
  std::vector<GroupWait*> groups_;   // by groups_mutex_
};

/// How the ranks of one group wait: until it is so, a failure, or time is up.
class GroupWait {
  /// In the list for as long as it lives; made and destroyed under the lock.
  class [[nodiscard]] Listed {
   public:
    TANDEM_ONCE Listed(GroupWait& group, AwaitedBase& awaited);
    Listed(Listed const&) = delete;
    Listed& operator=(Listed const&) = delete;
    ~Listed() {
      (awaited_.before_ != nullptr ? awaited_.before_->behind_ : group_.first_) = awaited_.behind_;
      if (awaited_.behind_ != nullptr) {
        awaited_.behind_->before_ = awaited_.before_;
      }
    }

   private:
    GroupWait& group_;
    AwaitedBase& awaited_;
  };

 public:
  using Lock = std::unique_lock<std::mutex>;

  TANDEM_ONCE TANDEM_COLD GroupWait(std::chrono::milliseconds timeout,
                                    std::shared_ptr<SharedFailure> failure);
  GroupWait(GroupWait const&) = delete;
  GroupWait& operator=(GroupWait const&) = delete;
  ~GroupWait() { failure_->remove(*this); }

  [[nodiscard]] Lock lock() { return Lock{mutex_}; }
  void notify() { changed_.notify_all(); }
  [[nodiscard]] std::shared_ptr<SharedFailure> const& failure() const { return failure_; }

  /// Ends all waiting, here and in the groups that share the failure.
  /// @pre the caller has no group's lock
  TANDEM_ONCE TANDEM_COLD void abort(std::string message) noexcept;

  // All below: @pre the caller has the lock.

  /// @throws AbortedError  there is a failure
  void check() const {
    if (failure_->failed()) {
      failure_->raise(true);
    }
  }

  /// Blocks until done(), which the caller's lock guards. If time is up first, it fails for every
  /// rank that waits, with the sentence for who is to blame.
  /// @throws AbortedError  the group was aborted
  /// @throws TimeoutError  time is up, for this rank or another one that waited
  template <class Done>
  void wait(Lock& lock, Done const& done, AwaitedBase&& awaited) {
    if (done()) {
      return;
    }
    Listed const listed{*this, awaited};
    auto const limit = std::min<std::chrono::milliseconds>(timeout_, std::chrono::hours{8760});
    bool const woken = changed_.wait_until(lock, std::chrono::steady_clock::now() + limit,
                                           [&] { return done() || failure_->failed(); });
    if (done()) {
      return;
    }
    if (!woken) {
      lock.unlock();
      int rank = -1;
      std::string text = failure_->blame(awaited, rank);
      lock.lock();
      if (done()) {
        return;
      }
      auto const& escalation = failure_->escalation();
      if (escalation.call == nullptr) {
        failure_->set(SharedFailure::Kind::timed_out, std::move(text));
      }
      lock.unlock();  // nobody comes any more: who enters from now on sees the failure
      if (escalation.call == nullptr) {
        failure_->wake();
      } else {
        escalation.call(escalation.context, rank, text);
      }
      lock.lock();
    }
    failure_->raise(false);
  }

  /// A wait for what other processes do, so that those who ask who waits for whom hear of it. Its
  /// awaited outlives it.
  class Elsewhere;

  /// Blocks until done(), whatever else happens.
  template <class Done>
  void wait_without_limit(Lock& lock, Done const& done) {
    changed_.wait(lock, done);
  }

  /// f(awaited) for each rank that waits here.
  template <class F>
  void each(F const& f) const {
    for (AwaitedBase const* one = first_; one != nullptr; one = one->behind_) {
      f(*one);
    }
  }

 private:
  std::chrono::milliseconds timeout_;
  std::shared_ptr<SharedFailure> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  AwaitedBase* first_ = nullptr;  // of those that wait
};

class [[nodiscard]] GroupWait::Elsewhere {
 public:
  Elsewhere(GroupWait& group, AwaitedBase& awaited) : group_{group} {
    auto const lock = group.lock();
    listed_.emplace(group, awaited);
  }
  Elsewhere(Elsewhere const&) = delete;
  Elsewhere& operator=(Elsewhere const&) = delete;
  ~Elsewhere() {
    auto const lock = group_.lock();
    listed_.reset();
  }

 private:
  GroupWait& group_;
  std::optional<Listed> listed_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

#include <exception>
#include <utility>

namespace tandem::detail {

TANDEM_ONCE void SharedFailure::wake() const {
  std::lock_guard const all{groups_mutex_};
  for (GroupWait* const group : groups_) {
    { auto const lock = group->lock(); }  // who saw no failure is asleep now, and hears
    group->notify();
  }
}

TANDEM_ONCE std::vector<WaitingRank> SharedFailure::waits(AwaitedBase const* first,
                                                          std::size_t* place) const {
  std::vector<WaitingRank> waits;
  std::lock_guard const all{groups_mutex_};
  for (GroupWait* const group : groups_) {
    auto const lock = group->lock();
    group->each([&](AwaitedBase const& awaited) {
      if (&awaited == first) {
        *place = waits.size();
      }
      awaited.describe(waits.emplace_back());
    });
  }
  return waits;
}

TANDEM_ONCE std::string SharedFailure::blame(AwaitedBase const& first, int& rank) const noexcept {
  try {
    std::size_t own = 0;
    std::vector<WaitingRank> const all = waits(&first, &own);
    rank = all[own].rank;
    return WaitChain{all}.sentence_for(all[own]);
  } catch (std::exception const&) {
    return {};
  }
}

TANDEM_ONCE void SharedFailure::set(Kind kind, std::string message) noexcept {
  std::lock_guard const lock{mutex_};
  if (kind_ == Kind::none) {
    kind_ = kind;
    message_ = std::move(message);
    failed_.store(true, std::memory_order_release);
  }
}

TANDEM_ONCE void SharedFailure::raise(bool as_aborted) const {
  std::lock_guard const lock{mutex_};
  if (kind_ == Kind::timed_out && !as_aborted) {
    throw TimeoutError{text()};
  }
  throw AbortedError{text()};
}

TANDEM_ONCE void SharedFailure::reset() {
  std::lock_guard const lock{mutex_};
  kind_ = Kind::none;
  failed_.store(false, std::memory_order_release);
}

TANDEM_ONCE void SharedFailure::add(GroupWait& group) {
  std::lock_guard const lock{groups_mutex_};
  groups_.push_back(&group);
}

TANDEM_ONCE void SharedFailure::remove(GroupWait& group) noexcept {
  std::lock_guard const lock{groups_mutex_};
  groups_.erase(std::remove(groups_.begin(), groups_.end(), &group), groups_.end());
}

TANDEM_ONCE bool SharedFailure::shared() const noexcept {
  std::lock_guard const lock{groups_mutex_};
  return groups_.size() > 1;
}

TANDEM_ONCE std::string SharedFailure::text() const {
  return message_.empty() ? "another rank has failed, without the memory to say how" : message_;
}

TANDEM_ONCE GroupWait::GroupWait(std::chrono::milliseconds timeout,
                                 std::shared_ptr<SharedFailure> failure)
    : timeout_{timeout}, failure_{std::move(failure)} {
  failure_->add(*this);
}

TANDEM_ONCE void GroupWait::abort(std::string message) noexcept {
  failure_->set(SharedFailure::Kind::aborted, std::move(message));
  failure_->wake();
}

TANDEM_ONCE GroupWait::Listed::Listed(GroupWait& group, AwaitedBase& awaited)
    : group_{group}, awaited_{awaited} {
  awaited_.behind_ = group_.first_;
  if (group_.first_ != nullptr) {
    group_.first_->before_ = &awaited_;
  }
  group_.first_ = &awaited_;
}

}  // namespace tandem::detail

#endif
