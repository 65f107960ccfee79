// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ThreadsGroup: where the ranks that are threads of one process meet.
///
/// A collective has two meetings. At the first all ranks have brought their buffers, and it can
/// fail: by abort(), by time-out, by calls that do not match. Between the meetings each rank works
/// on all ranks' buffers; nothing fails there, so nobody frees a buffer that another rank still
/// reads.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/threads_call.hpp>
#include <tandem/comm/threads_mail.hpp>
#include <tandem/comm/threads_wait.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

class ThreadsCommunicator;
class VirtualCommunicator;

/// How a ThreadsGroup waits, and what its messages say.
struct ThreadsOptions {
  /// How long a rank waits for the others before it gives up, for itself and the whole group.
  std::chrono::milliseconds timeout = std::chrono::seconds{600};

  /// Words for what a rank stored in progress(rank), such as "at action 1F3"; null: say nothing.
  std::string (*describe_progress)(int rank, std::uint64_t progress) = nullptr;

  /// Begins the group's messages if not null: with several groups, ranks alone are ambiguous.
  char const* name = nullptr;
};

/// The same for a transport whose ranks are all threads of this process.
/// @throws ContractError  there are several processes, or the time-out is not positive
inline ThreadsOptions threads_options(TransportOptions const& options) {
  check_world(options.world);
  expects(options.world.processes == 1,
          "this transport's ranks are threads of one process, and the program was started as "
          "several: start it once, or use a transport between processes");
  expects(options.timeout.count() > 0, "the timeout must be positive");
  return {.timeout = options.timeout,
          .describe_progress = options.describe_progress,
          .name = options.name};
}

/// The shared state of n ranks. Made by the thread that starts them, and outlives them; each rank
/// uses its communicator(rank). Not copyable, not movable.
class ThreadsGroup {
 public:
  /// @throws ContractError  ranks is not in [1, 256], or the time-out is not positive
  template <class = void>  // compiled where it is called, not by every include
  explicit ThreadsGroup(int ranks, ThreadsOptions options = {})
      : ranks_{ranks},
        options_{options},
        slots_{make_slots(ranks)},
        wait_{options.timeout},
        mail_{wait_, ranks} {
    expects(options.timeout.count() > 0, "ThreadsGroup: the timeout must be positive");
  }

  ThreadsGroup(ThreadsGroup const&) = delete;
  ThreadsGroup& operator=(ThreadsGroup const&) = delete;

  /// @throws ContractError  @p rank is not in [0, size())
  [[nodiscard]] ThreadsCommunicator communicator(int rank);

  /// Makes every rank that waits in a collective or for a message, or enters one later, throw
  /// AbortedError with @p reason, at once. The first failure of a group counts, later ones change
  /// nothing.
  template <class = void>
  void abort(int rank, std::string_view reason) {
    auto const lock = wait_.lock();
    wait_.abort(prefix() + "rank " + std::to_string(rank) + " failed: " + std::string{reason});
  }

  /// @throws AbortedError  the group has failed
  template <class = void>
  void poll() {
    auto const lock = wait_.lock();
    wait_.check();
  }

  /// Makes the group usable again after a failure; messages that nobody has received are lost.
  /// @throws ContractError  a rank is still inside a collective: discard() its stream first
  template <class = void>
  void reset() {
    auto const lock = wait_.lock();
    for (int rank = 0; rank < ranks_; ++rank) {
      expects(!slot(rank).inside, "ThreadsGroup::reset: a rank is still inside a collective");
    }
    expects(mail_.idle(), "ThreadsGroup::reset: a rank still sends or receives");
    for (int rank = 0; rank < ranks_; ++rank) {
      slot(rank).waiting = false;
    }
    mail_.clear();
    wait_.reset();
    waiting_ = 0;
  }

  /// Where @p rank notes what it is doing, for time-out messages; see describe_progress. Never read
  /// otherwise. @pre rank is in [0, size())
  [[nodiscard]] std::atomic<std::uint64_t>& progress(int rank) noexcept {
    return slot(rank).progress;
  }

  [[nodiscard]] int size() const noexcept { return ranks_; }

 private:
  friend class ThreadsCommunicator;
  friend class VirtualCommunicator;

  struct alignas(64) Slot {
    detail::Call call{};
    bool inside = false;   // between meet() and leave()
    bool waiting = false;  // in the first meeting
    bool used = false;
    std::atomic<std::uint64_t> progress{0};
  };

  template <class = void>
  static std::unique_ptr<Slot[]> make_slots(int ranks) {
    expects(ranks >= 1 && ranks <= max_tree_ranks,
            "ThreadsGroup: the number of ranks must be between 1 and 256");
    return std::make_unique<Slot[]>(static_cast<std::size_t>(ranks));
  }

  /// First meeting. Afterwards call_of(r) may be read for every r, until leave().
  template <class = void>
  void meet(int rank, detail::Call const& call) {
    auto lock = wait_.lock();
    Slot& mine = slot(rank);
    wait_.check();
    expects(!mine.inside, "a rank is in two collectives of a group: use one stream for a group");
    mine.call = call;
    mine.used = mine.inside = mine.waiting = true;
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

  /// Second meeting: all ranks are done with all buffers. Waits without a limit, for ranks that are
  /// all at work and cannot fail.
  template <class = void>
  void leave(int rank) {
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

  [[nodiscard]] detail::Call const& call_of(int rank) const noexcept { return slot(rank).call; }

  /// fill(box) when the one place from @p rank to @p peer is free.
  template <class Fill>
  void send(int rank, int peer, detail::Call const& call, Fill const& fill) {
    mail_.send(rank, peer, call, fill, Where{*this});
  }

  /// drain(box) when a message from @p peer to @p rank has come.
  template <class Drain>
  void receive(int rank, int peer, detail::Call const& call, Drain const& drain) {
    mail_.receive(rank, peer, call, drain, Where{*this});
  }

  /// The last rank has come: all go on, with one verdict. The next one needs all of them again.
  template <class = void>
  void begin() {
    ++collectives_;
    mismatch_.clear();
    for (int rank = ranks_ - 1; rank >= 0; --rank) {
      slot(rank).waiting = false;
      if (!slot(rank).call.matches(slot(0).call)) {
        mismatch_ = prefix() + "ranks 0 and " + std::to_string(rank) + " disagree on collective #" +
                    std::to_string(collectives_) + ": " + to_string(slot(0).call) + ", but " +
                    to_string(slot(rank).call) +
                    "; all ranks must make the same calls in the same order";
      }
    }
    waiting_ = 0;
    ++meetings_;
    wait_.notify();
  }

  template <class = void>
  void wait_for_others(detail::GroupWait::Lock& lock, Slot& mine) {
    try {
      wait_.wait(
          lock, [this, now = meetings_] { return meetings_ != now; },
          [&] { return prefix() + time_out_message(mine.call); });
    } catch (...) {
      mine.inside = false;
      throw;
    }
  }

  template <class = void>
  [[nodiscard]] std::string time_out_message(detail::Call const& awaited) const {
    std::string text;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (slot(rank).waiting) {
        continue;
      }
      text.append(text.empty() ? "rank " : "; rank ").append(std::to_string(rank));
      text.append(" did not reach ").append(numbered(awaited, collectives_ + 1));
      text.append(within()).append(last_seen(rank));
    }
    return text;
  }

  /// " within 50 ms"
  [[nodiscard]] std::string within() const {
    auto const ms = options_.timeout.count();
    return " within " +
           (ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms");
  }

  /// "; it was last in all-reduce #1 (bucket 1), at action 1F3"
  [[nodiscard]] std::string last_seen(int rank) const {
    Slot const& other = slot(rank);
    std::string text = "; it was last in ";
    text += other.used ? numbered(other.call, collectives_) : "no collective";
    if (options_.describe_progress != nullptr) {
      text.append(", ").append(options_.describe_progress(rank, other.progress.load()));
    }
    return text;
  }

  /// The group's words for the messages of Mail.
  struct Where {
    ThreadsGroup const& group;

    [[nodiscard]] std::string prefix() const { return group.prefix(); }
    [[nodiscard]] std::string within() const { return group.within(); }
    [[nodiscard]] std::string operator()(int rank) const { return group.last_seen(rank); }
  };

  [[nodiscard]] Slot& slot(int rank) const noexcept {
    return slots_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] std::string prefix() const {
    return options_.name != nullptr ? std::string{options_.name} + ": " : std::string{};
  }

  int ranks_;
  ThreadsOptions options_;
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
