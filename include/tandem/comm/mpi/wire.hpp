// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::MpiWire: bytes between the processes of a transport, and what ends all their waiting.
///
/// MPI is asked, never waited for: MPI_Test and sleep, so that a waiting queue leaves its core to
/// what computes. Whoever asks also looks for the message by which another process says that it
/// has failed. After that MPI is called no more: messages that are under way read and write memory
/// that is about to go.

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include <tandem/comm/mpi/check.hpp>
#include <tandem/comm/mpi/session.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/threads/wait.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// Messages under way, which are awaited together. Used by one thread.
struct MpiMessages {
  struct About {
    int process;
    std::size_t bytes;
    bool comes;  ///< is received
  };

  std::vector<MPI_Request> requests{};
  std::vector<About> about{};
  std::vector<MPI_Status> statuses{};
};

/// Made by the thread that starts the ranks, and outlives them; used by all their queues.
class MpiWire {
 public:
  /// Tags that it has for itself: of failures, and of the start.
  static constexpr int own_tags = 2;

  /// @param failure  of the ranks of this process
  template <class = void>  // compiled where it is called, not by every include
  TANDEM_COLD MpiWire(int processes, int process, std::chrono::milliseconds timeout, int first_tag,
                      std::shared_ptr<SharedFailure> failure)
      : processes_{processes},
        process_{process},
        timeout_{std::min<std::chrono::milliseconds>(timeout, std::chrono::hours{8760})},
        first_tag_{first_tag},
        failure_{std::move(failure)} {
    listen();
  }
  MpiWire(MpiWire const&) = delete;
  MpiWire& operator=(MpiWire const&) = delete;
  ~MpiWire() {
    if (!session().failed() && listening_) {
      MPI_Cancel(&verdict_request_);
      MPI_Wait(&verdict_request_, MPI_STATUS_IGNORE);
    }
  }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] std::shared_ptr<SharedFailure> const& failure() const { return failure_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  /// "on node7"
  [[nodiscard]] TANDEM_COLD std::string place_of(int process) const {
    return "of process " + std::to_string(process) + " on " +
           session().machines()[static_cast<std::size_t>(process)];
  }

  /// Begins a message, of which wait() says when it is there. It may be of no bytes. Messages of
  /// one tag and process arrive in the order in which they were sent.
  void send(MpiMessages& messages, int process, int tag, void const* data, std::size_t bytes) {
    each_part(bytes, [&](std::size_t begin, int part) {
      check_mpi(MPI_Isend(static_cast<std::byte const*>(data) + begin, part, MPI_BYTE, process, tag,
                          session().comm(), &add(messages, process, part, false)),
                "MPI_Isend");
    });
  }
  void receive(MpiMessages& messages, int process, int tag, void* data, std::size_t bytes) {
    each_part(bytes, [&](std::size_t begin, int part) {
      check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + begin, part, MPI_BYTE, process, tag,
                          session().comm(), &add(messages, process, part, true)),
                "MPI_Irecv");
    });
  }

  /// Returns when all of @p messages have been sent or have come.
  /// @param missing  set to the process that is waited for; for those who ask who waits for whom
  /// @param text     text(process): the sentence for it when time is up
  /// @throws AbortedError, TimeoutError  another rank has failed; time is up
  /// @throws ContractError  a message is of another size
  template <class Text>
  void wait(MpiMessages& messages, std::atomic<int>& missing, Text const& text) {
    auto const end = std::chrono::steady_clock::now() + timeout_;
    auto const count = static_cast<int>(messages.requests.size());
    messages.statuses.resize(messages.requests.size());
    std::chrono::microseconds sleep{5};
    for (int looks = 0;; ++looks) {
      poll(false);
      int done = 0;
      int const status =
          MPI_Testall(count, messages.requests.data(), &done, messages.statuses.data());
      if (status != MPI_SUCCESS) {
        refuse(status, messages);
      }
      if (done != 0) {
        break;
      }
      if (looks == 0) {
        missing.store(first_missing(messages), std::memory_order_relaxed);
      }
      if (std::chrono::steady_clock::now() >= end) {
        fail(SharedFailure::Kind::timed_out, text(first_missing(messages)));
        failure_->raise(false);
      }
      if (looks < 20) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(sleep);
        sleep = std::min(2 * sleep, std::chrono::microseconds{200});
      }
    }
    check_sizes(messages);
    messages.requests.clear();
    messages.about.clear();
  }

  /// Looks whether another process has failed.
  /// @param as_aborted  the caller waits for nobody
  /// @throws AbortedError, TimeoutError  a rank has failed
  void poll(bool as_aborted = true) {
    if (!failure_->failed()) {
      hear();
    }
    if (failure_->failed()) {
      failure_->raise(as_aborted);
    }
  }

  /// The first failure of this process, unless another has told it of one: all processes are told,
  /// for which a second is allowed. Throws nothing.
  TANDEM_COLD void fail(SharedFailure::Kind kind, std::string message) noexcept {
    if (told_.exchange(true)) {
      return;
    }
    failure_->set(kind, message);
    failure_->wake();
    if (!session().failed()) {
      tell(kind, message);
      session().fail();
    }
  }

  /// All processes have come, and are of one mind about @p what. Process 0 hears all of them.
  template <class = void>
  TANDEM_COLD void meet(std::array<long long, 3> const& what) {
    MpiMessages messages;
    std::atomic<int> missing{-1};
    int const tag = first_tag_ + 1;
    auto const late = [&](int process) {
      return "process " + std::to_string(process) + " on " +
             session().machines()[std::size_t(process)] + " did not make its Trainer within " +
             to_string(timeout_) + "; all processes must make the same ones, in the same order";
    };
    if (process_ != 0) {
      char said = 0;
      auto const own = what;
      send(messages, 0, tag, own.data(), sizeof own);
      receive(messages, 0, tag, &said, 1);
      timeout_ += slack;
      wait(messages, missing, late);
      timeout_ -= slack;
      return;
    }
    std::vector<std::array<long long, 3>> all(std::size_t(processes_), what);
    for (int p = 1; p < processes_; ++p) {
      receive(messages, p, tag, &all[std::size_t(p)], sizeof what);
    }
    wait(messages, missing, late);
    for (int p = 1; p < processes_; ++p) {
      if (all[std::size_t(p)] != what) {
        std::string const text = "processes 0 and " + std::to_string(p) +
                                 " have Trainers of other strategies, ranks or processes; start "
                                 "one program with the same arguments everywhere";
        fail(SharedFailure::Kind::aborted, text);
        throw ContractError{text};
      }
    }
    char const said = 1;
    for (int p = 1; p < processes_; ++p) {
      send(messages, p, tag, &said, 1);
    }
    wait(messages, missing, late);
  }

 private:
  /// What a process says when it has failed.
  struct Verdict {
    SharedFailure::Kind kind;
    char text[1016];
  };
  static constexpr std::chrono::milliseconds slack{200};

  static MpiSession& session() { return MpiSession::of_this_process(); }

  template <class F>
  static void each_part(std::size_t bytes, F const& f) {
    constexpr std::size_t most = std::size_t{1} << 30;  // MPI counts by int
    std::size_t begin = 0;
    do {
      std::size_t const part = std::min(most, bytes - begin);
      f(begin, static_cast<int>(part));
      begin += part;
    } while (begin < bytes);
  }

  static MPI_Request& add(MpiMessages& messages, int process, int bytes, bool comes) {
    messages.about.push_back({process, static_cast<std::size_t>(bytes), comes});
    return messages.requests.emplace_back(MPI_REQUEST_NULL);
  }

  /// The process of the first message that is not done; what comes is asked first, since a send may
  /// be done as soon as MPI has a copy.
  static int first_missing(MpiMessages& messages) {
    int found = messages.about.empty() ? -1 : messages.about.front().process;
    for (bool const comes : {false, true}) {
      for (std::size_t i = messages.about.size(); i-- > 0;) {
        int done = 0;
        if (messages.about[i].comes == comes &&
            MPI_Request_get_status(messages.requests[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            done == 0) {
          found = messages.about[i].process;
        }
      }
    }
    return found;
  }

  TANDEM_COLD void refuse(int status, MpiMessages const& messages) {
    for (MPI_Status const& one : messages.statuses) {
      int kind = MPI_SUCCESS;
      if (status == MPI_ERR_IN_STATUS && one.MPI_ERROR != MPI_SUCCESS &&
          one.MPI_ERROR != MPI_ERR_PENDING) {
        MPI_Error_class(one.MPI_ERROR, &kind);
        if (kind == MPI_ERR_TRUNCATE) {
          disagree(one.MPI_SOURCE);
        }
        check_mpi(one.MPI_ERROR, "MPI_Testall");
      }
    }
    check_mpi(status, "MPI_Testall");
  }

  void check_sizes(MpiMessages const& messages) const {
    for (std::size_t i = 0; i < messages.about.size(); ++i) {
      int bytes = 0;
      if (messages.about[i].comes &&
          (MPI_Get_count(&messages.statuses[i], MPI_BYTE, &bytes) != MPI_SUCCESS ||
           static_cast<std::size_t>(bytes) != messages.about[i].bytes)) {
        disagree(messages.about[i].process);
      }
    }
  }

  [[noreturn]] TANDEM_COLD void disagree(int process) const {
    throw ContractError{"processes " + std::to_string(process_) + " and " +
                        std::to_string(process) +
                        " disagree on the size of a message; all ranks must make the same calls in "
                        "the same order"};
  }

  void listen() {
    check_mpi(MPI_Irecv(&verdict_, sizeof verdict_, MPI_BYTE, MPI_ANY_SOURCE, first_tag_,
                        session().comm(), &verdict_request_),
              "MPI_Irecv");
    listening_ = true;
  }

  /// One of the threads that wait asks; the others need not.
  void hear() {
    std::unique_lock lock{hearing_, std::try_to_lock};
    int heard = 0;
    if (!lock.owns_lock() || !listening_ ||
        MPI_Test(&verdict_request_, &heard, MPI_STATUS_IGNORE) != MPI_SUCCESS || heard == 0) {
      return;
    }
    listening_ = false;
    told_.store(true);
    session().fail();
    failure_->set(verdict_.kind, std::string{verdict_.text});
    lock.unlock();
    failure_->wake();
  }

  TANDEM_COLD void tell(SharedFailure::Kind kind, std::string const& message) noexcept {
    Verdict const said = [&] {
      Verdict verdict{.kind = kind, .text = ""};
      std::memcpy(verdict.text, message.data(), std::min(message.size(), sizeof verdict.text - 1));
      return verdict;
    }();
    auto* const kept = new (std::nothrow) Verdict(said);  // read until the process ends
    std::vector<MPI_Request> sent;
    try {
      sent.assign(static_cast<std::size_t>(processes_), MPI_REQUEST_NULL);
    } catch (std::exception const&) {  // the others' time-out ends their wait
    }
    for (std::size_t p = 0; kept != nullptr && p < sent.size(); ++p) {
      if (static_cast<int>(p) != process_) {  // done when it has been heard
        MPI_Issend(kept, sizeof *kept, MPI_BYTE, static_cast<int>(p), first_tag_, session().comm(),
                   &sent[p]);
      }
    }
    Patience patience{std::chrono::seconds{1}, 0};
    for (int done = 0; done == 0 && patience.pause();) {
      if (MPI_Testall(static_cast<int>(sent.size()), sent.data(), &done, MPI_STATUSES_IGNORE) !=
          MPI_SUCCESS) {
        return;
      }
      hear_others();
    }
  }

  /// Several may fail at a time, and wait to be heard.
  void hear_others() noexcept {
    std::unique_lock const lock{hearing_, std::try_to_lock};
    int heard = 0;
    if (lock.owns_lock() && listening_ &&
        MPI_Test(&verdict_request_, &heard, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard != 0) {
      listening_ = MPI_Irecv(&verdict_, sizeof verdict_, MPI_BYTE, MPI_ANY_SOURCE, first_tag_,
                             session().comm(), &verdict_request_) == MPI_SUCCESS;
    }
  }

  int processes_;
  int process_;
  std::chrono::milliseconds timeout_;
  int first_tag_;
  std::shared_ptr<SharedFailure> failure_;
  std::atomic<bool> told_{false};  // all processes know of the failure, or are being told
  std::mutex hearing_;             // guards all below
  bool listening_ = false;
  Verdict verdict_{};
  MPI_Request verdict_request_ = MPI_REQUEST_NULL;
};

}  // namespace tandem::detail
