// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ThreadsGroup: where the ranks that are threads of one process meet.
///
/// A collective has two meetings. At the first all ranks have brought their buffers, and it can
/// fail: by abort(), by time-out, by calls that do not match. Between the meetings each rank works
/// on all ranks' buffers; nothing fails there, so nobody frees a buffer that another rank still
/// reads.
///
/// Ranks that are some of a larger group's may have a group of their own. It fails with the larger
/// one, and the larger one with it, so that nobody waits for a rank that has gone.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/mail.hpp>
#include <tandem/comm/threads/options.hpp>
#include <tandem/comm/threads/wait.hpp>
#include <tandem/comm/threads/words.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

class ThreadsCommunicator;
class VirtualCommunicator;

namespace detail {

class MpiGroup;

/// send(); where it fails for a reason of its own, fail(why) comes before the error.
template <class Send, class Fail>
void guarded_message(Send const& send, Fail const& fail) {
  try {
    send();
  } catch (AbortedError const&) {
    throw;
  } catch (TimeoutError const&) {
    throw;
  } catch (Error const& error) {
    fail(error.what());
    throw;
  } catch (std::bad_alloc const&) {
    fail("out of memory for a message; use a smaller batch or more microbatches");
    throw;
  }
}

}  // namespace detail

/// The shared state of n ranks. Made by the thread that starts them, and outlives them; each rank
/// uses its communicator(rank). Not copyable, not movable.
class ThreadsGroup {
 public:
  /// @throws ContractError  ranks is not in [1, 256], or the time-out is not positive
  TANDEM_ONCE explicit ThreadsGroup(int ranks, ThreadsOptions options = {});

  /// Some of the ranks of @p all, as a group of their own: messages name them as @p all does, a
  /// failure of one group is one of the other, and what a rank notes in progress() is the same.
  /// @param all  outlives this, and is no such group itself
  /// @throws ContractError  the set is empty, or names a rank twice or one that there is not
  TANDEM_ONCE TANDEM_COLD ThreadsGroup(ThreadsGroup& all, RankSet const& set);

  ThreadsGroup(ThreadsGroup const&) = delete;
  ThreadsGroup& operator=(ThreadsGroup const&) = delete;

  /// @throws ContractError  @p rank is not in [0, size())
  [[nodiscard]] ThreadsCommunicator communicator(int rank);

  /// Makes every rank that waits in a collective or for a message, or enters one later, throw
  /// AbortedError with @p reason, at once. The first failure of a group counts, later ones change
  /// nothing.
  TANDEM_ONCE TANDEM_COLD void abort(int rank, std::string_view reason) noexcept;

  /// @throws AbortedError  the group has failed
  TANDEM_ONCE void poll();

  /// Makes the group usable again after a failure; messages that nobody has received are lost.
  /// @throws ContractError  a rank is still inside a collective: discard() its stream first; or
  ///                        other groups share the failure
  TANDEM_ONCE void reset();

  /// Where @p rank notes what it is doing, for time-out messages; see describe_progress. Never read
  /// otherwise. @pre rank is in [0, size())
  [[nodiscard]] std::atomic<std::uint64_t>& progress(int rank) noexcept {
    return progress_of(rank);
  }

  [[nodiscard]] int size() const noexcept { return ranks_; }

 private:
  friend class ThreadsCommunicator;
  friend class VirtualCommunicator;
  friend class detail::MpiGroup;

  using Slot = detail::ThreadsSlot;

  TANDEM_ONCE static std::unique_ptr<detail::ThreadsSlot[]> make_slots(int ranks);

  /// First meeting. Afterwards call_of(r) may be read for every r, until leave().
  TANDEM_ONCE void meet(int rank, detail::Call const& call);

  /// Second meeting: all ranks are done with all buffers. Waits without a limit, for ranks that are
  /// all at work and cannot fail.
  TANDEM_ONCE void leave(int rank);

  [[nodiscard]] detail::Call const& call_of(int rank) const noexcept { return slot(rank).call; }

  /// fill(box) when the next place from @p rank to @p peer is free. Where there is no memory for
  /// the message the group fails: its sender may itself wait for what the receiver sends later.
  template <class Fill>
  void send(int rank, int peer, detail::Call const& call, Fill const& fill) {
    detail::guarded_message([&] { mail_.send(rank, peer, call, fill, Where{*this}); },
                            [&](char const* why) { abort(rank, why); });
  }

  /// drain(box) when a message from @p peer to @p rank has come.
  template <class Drain>
  void receive(int rank, int peer, detail::Call const& call, Drain const& drain) {
    mail_.receive(rank, peer, call, drain, Where{*this});
  }

  /// The last rank has come: all go on, with one verdict. The next one needs all of them again.
  TANDEM_ONCE void begin();

  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string disagreement(int rank) const;

  TANDEM_ONCE void wait_for_others(detail::GroupWait::Lock& lock, Slot& mine);

  TANDEM_ONCE TANDEM_COLD void missing_ranks(detail::WaitingRank& wait, Slot const& mine) const;

  [[nodiscard]] std::string last_seen(int rank) const {
    return words_.last_seen(rank, slot(rank), collectives_, progress_of(rank).load());
  }

  /// The group's words for the messages of Mail.
  struct Where {
    ThreadsGroup const& group;

    [[nodiscard]] std::string prefix() const { return group.words_.prefix(); }
    [[nodiscard]] int number(int rank) const { return group.words_.number_of(rank); }
    [[nodiscard]] std::string who(int rank) const { return group.words_.name_of(rank); }
    void waits(detail::WaitingRank& wait, int rank, detail::Call const& call) const {
      wait.rank = number(rank);
      wait.blocked = call.queue == nullptr || call.queue->awaited();
      wait.prefix = prefix();
    }
    [[nodiscard]] std::string within() const { return group.words_.within(); }
    [[nodiscard]] std::string last_seen(int rank) const { return group.last_seen(rank); }

    /// @p rank has sent or received message @p number; called under the lock.
    void note(int rank, detail::Call const& call, std::uint64_t number) const {
      group.slot(rank).message = call;
      group.slot(rank).message_number = number;
    }
  };

  [[nodiscard]] Slot& slot(int rank) const noexcept {
    return slots_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] std::atomic<std::uint64_t>& progress_of(int rank) const noexcept {
    return all_ != nullptr ? all_->progress_of(words_.place_of(rank)) : slot(rank).progress;
  }

  int ranks_;
  detail::ThreadsWords words_;
  ThreadsGroup* all_ = nullptr;  // whose ranks these are some of; null: they are all
  std::unique_ptr<Slot[]> slots_;
  detail::GroupWait wait_;  // guards all below, the slots but for progress, the calls between
                            // the meetings, and mail_
  std::uint64_t meetings_ = 0;
  std::uint64_t collectives_ = 0;
  int waiting_ = 0;
  int leaving_ = 0;
  std::string mismatch_;
  detail::Mail mail_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ThreadsGroup::ThreadsGroup(int ranks, ThreadsOptions options)
    : ranks_{ranks},
      words_{options},
      slots_{make_slots(ranks)},
      wait_{options.timeout, std::make_shared<detail::SharedFailure>()},
      mail_{wait_, ranks, options.messages_in_flight} {
  expects(options.timeout.count() > 0, "ThreadsGroup: the timeout must be positive");
}

TANDEM_ONCE ThreadsGroup::ThreadsGroup(ThreadsGroup& all, RankSet const& set)
    : ranks_{static_cast<int>(set.ranks.size())},
      words_{all.words_, set},
      all_{&all},
      slots_{make_slots(ranks_)},
      wait_{words_.options().timeout, all.wait_.failure()},
      mail_{wait_, ranks_, words_.options().messages_in_flight} {
  detail::check_groups({set}, all.size());
}

TANDEM_ONCE void ThreadsGroup::abort(int rank, std::string_view reason) noexcept {
  std::string text;
  try {
    text = words_.prefix() + words_.name_of(rank) + " failed: " + std::string{reason};
  } catch (std::exception const&) {  // no memory: without words, then
  }
  wait_.abort(std::move(text));
}

TANDEM_ONCE void ThreadsGroup::poll() {
  auto const lock = wait_.lock();
  wait_.check();
}

TANDEM_ONCE void ThreadsGroup::reset() {
  expects(!wait_.failure()->shared(),  // which has a lock that is taken before a group's
          "ThreadsGroup::reset: other groups have failed with this one; make them anew");
  auto const lock = wait_.lock();
  for (int rank = 0; rank < ranks_; ++rank) {
    expects(!slot(rank).inside, "ThreadsGroup::reset: a rank is still inside a collective");
  }
  expects(mail_.idle(), "ThreadsGroup::reset: a rank still sends or receives");
  for (int rank = 0; rank < ranks_; ++rank) {
    slot(rank).waiting = false;
  }
  mail_.clear();
  wait_.failure()->reset();
  waiting_ = 0;
}

TANDEM_ONCE std::unique_ptr<detail::ThreadsSlot[]> ThreadsGroup::make_slots(int ranks) {
  expects(ranks >= 1 && ranks <= max_tree_ranks,
          "ThreadsGroup: the number of ranks must be between 1 and 256");
  return std::make_unique<detail::ThreadsSlot[]>(static_cast<std::size_t>(ranks));
}

TANDEM_ONCE void ThreadsGroup::meet(int rank, detail::Call const& call) {
  auto lock = wait_.lock();
  Slot& mine = slot(rank);
  wait_.check();
  expects(!mine.inside, "a rank is in two collectives of a group: use one stream for a group");
  mine.call = call;
  mine.used = mine.inside = mine.waiting = true;
  mine.message_number = 0;
  if (++waiting_ == ranks_) {
    begin();
  } else {
    wait_for_others(lock, mine);
  }
  if (!mismatch_.empty()) {
    mine.inside = false;
    throw ContractError{mismatch_};
  }
}

TANDEM_ONCE void ThreadsGroup::leave(int rank) {
  auto lock = wait_.lock();
  if (++leaving_ == ranks_) {
    leaving_ = 0;
    ++meetings_;
    wait_.notify();
  } else {
    wait_.wait_without_limit(lock, [this, now = meetings_] { return meetings_ != now; });
  }
  slot(rank).inside = false;
}

TANDEM_ONCE void ThreadsGroup::begin() {
  ++collectives_;
  mismatch_.clear();
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    slot(rank).waiting = false;
    if (!slot(rank).call.matches(slot(0).call)) {
      mismatch_ = disagreement(rank);
    }
  }
  waiting_ = 0;
  ++meetings_;
  wait_.notify();
}

TANDEM_ONCE std::string ThreadsGroup::disagreement(int rank) const {
  return words_.prefix() + "ranks " + std::to_string(words_.number_of(0)) + " and " +
         std::to_string(words_.number_of(rank)) + " disagree on collective #" +
         std::to_string(collectives_) + ": " + words_.in_words(slot(0).call) + ", but " +
         words_.in_words(slot(rank).call) +
         "; all ranks must make the same calls in the same order";
}

TANDEM_ONCE void ThreadsGroup::wait_for_others(detail::GroupWait::Lock& lock, Slot& mine) {
  try {
    wait_.wait(
        lock, [this, now = meetings_] { return meetings_ != now; },
        detail::Awaited{[&](detail::WaitingRank& wait) { missing_ranks(wait, mine); }});
  } catch (...) {
    mine.inside = false;
    throw;
  }
}

TANDEM_ONCE void ThreadsGroup::missing_ranks(detail::WaitingRank& wait, Slot const& mine) const {
  Where{*this}.waits(wait, static_cast<int>(&mine - slots_.get()), mine.call);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!slot(rank).waiting) {
      wait.missing.push_back({words_.number_of(rank), words_.name_of(rank) + " did not reach " +
                                                          numbered(mine.call, collectives_ + 1) +
                                                          words_.within() + last_seen(rank)});
    }
  }
}

}  // namespace tandem

#endif
