// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SignalWatch: signals that ask a process to end, noted for train() to save first;
/// StoppedBySignal, what it throws then.
///
/// Slurm and other schedulers send SIGTERM, or what was asked for (SIGUSR1), before a job's time is
/// over; Ctrl-C sends SIGINT. A handler is the process's, and so are the variables here: it writes
/// nothing else.

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include <tandem/core/error.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// train() has ended since a signal came, with a checkpoint behind its last step; thrown in all
/// processes. The program returns exit_status(); run() does so by itself.
class StoppedBySignal : public Error {
 public:
  StoppedBySignal(int signal, std::string const& text) : Error{text}, signal_{signal} {}

  [[nodiscard]] int signal() const noexcept { return signal_; }
  /// ExitCode::start_again, 75; after SIGINT ExitCode::interrupted, 130.
  [[nodiscard]] int exit_status() const noexcept {
    return static_cast<int>(signal_ == SIGINT ? ExitCode::interrupted : ExitCode::start_again);
  }

 private:
  int signal_;
};

namespace detail {

/// In the order in which one is taken of several.
inline constexpr std::array<int, 3> watched_signals{SIGTERM, SIGUSR1, SIGINT};

inline char const* name_of_signal(int signal) {
  return signal == SIGTERM ? "SIGTERM" : signal == SIGUSR1 ? "SIGUSR1" : "SIGINT";
}

struct SignalNotes {
  std::array<std::atomic<unsigned>, watched_signals.size()> came{};  ///< how often
  std::mutex mutex;                                                  ///< of what follows
  int watches = 0;
  std::array<struct ::sigaction, watched_signals.size()> before{};
};
inline SignalNotes signal_notes;
static_assert(std::atomic<unsigned>::is_always_lock_free);

inline void note_signal(int signal) {
  for (std::size_t i = 0; i < watched_signals.size(); ++i) {
    if (watched_signals[i] == signal) {
      signal_notes.came[i].fetch_add(1, std::memory_order_relaxed);
    }
  }
}

/// While there is one of these, the signals are noted; behind the last one they do what they did
/// before. A second SIGINT ends the process in any case, and one that was ignored stays so.
class SignalWatch {
 public:
  SignalWatch() {
    std::lock_guard const lock{signal_notes.mutex};
    if (signal_notes.watches++ == 0) {
      for (std::size_t i = 0; i < watched_signals.size(); ++i) {
        struct ::sigaction action {};
        action.sa_handler = note_signal;
        action.sa_flags = SA_RESTART;
        if (watched_signals[i] == SIGINT) {
          action.sa_flags = static_cast<int>(static_cast<unsigned>(SA_RESTART) | SA_RESETHAND);
        }
        static_cast<void>(::sigaction(watched_signals[i], nullptr, &signal_notes.before[i]));
        if (signal_notes.before[i].sa_handler != SIG_IGN) {
          static_cast<void>(::sigaction(watched_signals[i], &action, nullptr));
        }
      }
    }
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      seen_[i] = signal_notes.came[i].load(std::memory_order_relaxed);
    }
  }
  SignalWatch(SignalWatch const&) = delete;
  SignalWatch& operator=(SignalWatch const&) = delete;
  ~SignalWatch() {
    std::lock_guard const lock{signal_notes.mutex};
    if (--signal_notes.watches == 0) {
      for (std::size_t i = 0; i < watched_signals.size(); ++i) {
        static_cast<void>(::sigaction(watched_signals[i], &signal_notes.before[i], nullptr));
      }
    }
  }

  /// Whether signal number @p i of watched_signals has come since this began, or since forget().
  [[nodiscard]] bool came(std::size_t i) const {
    return signal_notes.came[i].load(std::memory_order_relaxed) != seen_[i];
  }
  [[nodiscard]] bool any() const { return came(0) || came(1) || came(2); }

  /// What has come was obeyed.
  void forget() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      seen_[i] = signal_notes.came[i].load(std::memory_order_relaxed);
    }
  }

 private:
  std::array<unsigned, watched_signals.size()> seen_{};
};

}  // namespace detail

}  // namespace tandem
