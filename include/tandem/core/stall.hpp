// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ExitCode: how a process that trains ends. Stall: a rank or a dataset that does not return;
/// OnStall: what to do then; and the waiting of the program's thread that finds it.
///
/// A thread cannot be stopped from outside. So the process ends, unless the hook says otherwise:
/// this is the only place of the library that ends it.

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem {

/// What a process that trains tells the one that has started it; docs/elastic.md has the table.
/// Numbers from 64 to 78 are those of sysexits.h.
enum class ExitCode : int {
  done = 0,
  error = 1,         ///< an error of this program or its input: to start it again would not help
  stalled = 69,      ///< a rank or the dataset did not return; nothing was saved when it ended
  peer_failed = 70,  ///< another process has failed, and says why
  start_again = 75,  ///< stopped by a signal with all saved: it goes on where it is started again
  interrupted = 130  ///< the same, by Ctrl-C, as shells have it
};

/// Something that has made no progress for longer than the time-out.
struct Stall {
  char const* message = "";          ///< one sentence: who, where, since when
  int rank = -1;                     ///< -1: the dataset
  std::chrono::milliseconds idle{};  ///< time without progress
};

enum class AfterStall {
  end,   ///< the process ends: by ExitCode::stalled, or peer_failed after another's failure
  wait,  ///< once more as long
};

/// A hook for the moment when a rank or a dataset does not return, on the thread that waits for it,
/// which holds no lock. It may save what is the program's own, tell somebody, std::abort() for a
/// core file with the stack of the thread that stalls, or make that thread go on and say `wait`;
/// the Trainer is not to be used, and nothing thrown. The message stands on standard error already.
struct OnStall {
  AfterStall (*call)(void* context, Stall const& stall) = nullptr;  ///< null: the process ends
  void* context = nullptr;
};

/// How long the program's thread waits for others of its process.
struct StallLimit {
  /// Without progress; 0: for ever.
  std::chrono::milliseconds timeout = std::chrono::seconds{600};
  OnStall on_stall{};

  /// Whoever waits for others gives up at the time-out, and may be awaited until it has said so.
  static constexpr std::chrono::milliseconds grace{2000};

  [[nodiscard]] bool never() const { return timeout.count() == 0; }
  [[nodiscard]] bool passed(std::chrono::steady_clock::duration without_progress) const {
    return !never() && without_progress >= timeout + grace;
  }
  /// Between two looks.
  [[nodiscard]] std::chrono::milliseconds pause() const {
    auto const eighth = (timeout + grace) / 8;
    return eighth < std::chrono::seconds{1} ? eighth : std::chrono::seconds{1};
  }
};

namespace detail {

/// Whether the process itself has stood still, in a debugger or stopped by a signal, so that nobody
/// could make progress since the last look.
[[nodiscard]] inline bool stood_still(StallLimit const& limit,
                                      std::chrono::steady_clock::duration since_last_look) {
  return since_last_look > 4 * limit.pause();
}

/// Not by a FILE, whose lock the thread that stalls may have.
TANDEM_ONCE TANDEM_COLD void write_to_stderr(char const* text) noexcept;

/// The sentence, the hook, and the end of the process; returns where the hook wants to wait.
TANDEM_ONCE TANDEM_COLD void report_stall(OnStall const& hook, Stall const& stall,
                                          ExitCode code = ExitCode::stalled) noexcept;

/// Waits for @p changed until done(), which @p lock guards, and calls look() without the lock every
/// now and then.
template <class Done, class Look>
void wait_looking(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  StallLimit const& limit, Done const& done, Look&& look) {
  if (limit.never()) {
    changed.wait(lock, done);
    return;
  }
  while (!changed.wait_for(lock, limit.pause(), done)) {
    lock.unlock();
    look();
    lock.lock();
  }
}

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void write_to_stderr(char const* text) noexcept {
  std::size_t left = std::strlen(text);
  while (left > 0) {
    ::ssize_t const wrote = ::write(2, text, left);
    if (wrote <= 0) {
      return;
    }
    text += wrote;
    left -= static_cast<std::size_t>(wrote);
  }
}

TANDEM_ONCE void report_stall(OnStall const& hook, Stall const& stall, ExitCode code) noexcept {
  write_to_stderr("tandem: ");
  write_to_stderr(stall.message);
  write_to_stderr("\n");
  if (hook.call == nullptr || hook.call(hook.context, stall) == AfterStall::end) {
    std::_Exit(static_cast<int>(code));
  }
}

}  // namespace tandem::detail

#endif
