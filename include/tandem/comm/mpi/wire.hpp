// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::MpiWire: bytes between the processes of a transport, and what ends all their waiting.
///
/// MPI is asked, never waited for: MPI_Test and sleep, so that a waiting queue leaves its core to
/// what computes. What goes wrong is told beside MPI, by a lifeline. After that MPI is called no
/// more: messages that are under way read and write memory that is about to go.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include <tandem/comm/lifeline/guard.hpp>
#include <tandem/comm/mpi/check.hpp>
#include <tandem/comm/mpi/session.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/threads/chain.hpp>
#include <tandem/comm/threads/wait.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// Messages under way, which are awaited together. Used by one thread.
struct MpiMessages {
  struct About {
    int process;
    int tag;
    int bytes;
    bool comes;                  ///< is received
    bool expected = false;       ///< comes, and MPI has not been given its memory yet
    std::byte* data = nullptr;   ///< that memory
    std::ptrdiff_t before = -1;  ///< the last one before it of this process and tag
  };

  std::vector<MPI_Request> requests{};  ///< null: expected, or done
  std::vector<About> about{};
  std::vector<MPI_Status> statuses{};
};

/// Made by the thread that starts the ranks, and outlives them; used by all their queues.
class MpiWire {
 public:
  /// Tags that it has for itself, of the start.
  static constexpr int own_tags = 2;

  using Guard = LifelineGuard<MpiWire>;

  /// Connects the lifelines of all processes, which make theirs; meet() comes next.
  /// @param local    ranks of each process
  /// @param failure  of the ranks of this process, whose time-outs are told to all from now on
  /// @throws as Lifeline does
  TANDEM_COLD MpiWire(TransportOptions const& options, int local, int first_tag,
                      std::shared_ptr<SharedFailure> failure)
      : processes_{options.world.processes},
        process_{options.world.process},
        first_rank_{options.world.process * local},
        timeout_{std::min<std::chrono::milliseconds>(options.timeout, std::chrono::hours{8760})},
        first_tag_{first_tag},
        prefix_{options.name != nullptr ? std::string{options.name} + ": " : ""},
        failure_{std::move(failure)} {
    failure_->escalate_by({[](void* wire, int rank, std::string const& text) {
                             static_cast<MpiWire*>(wire)->tell_time_out(rank, text);
                           },
                           this});
    World world = options.world;
    world.rendezvous = {
        .broadcast = [](void* wire, void* data,
                        std::size_t bytes) { static_cast<MpiWire*>(wire)->spread(data, bytes); },
        .context = this};
    try {
      Progress const progress{*this};
      lifeline_.emplace(world, local, options.timeout, options.on_stall);
      session().add(
          {[](void* wire) { return static_cast<MpiWire*>(wire)->lifeline_->end_by_exit(); }, this});
    } catch (...) {
      session().fail();  // the others may have ended, for whom the end of MPI would wait
      throw;
    }
  }
  MpiWire(MpiWire const&) = delete;
  MpiWire& operator=(MpiWire const&) = delete;
  ~MpiWire() {
    session().remove(this);
    lifeline_->release();
    failure_->escalate_by({});
  }

  /// Of this process; what ends other processes ends its ranks from guard() on.
  [[nodiscard]] Guard& lifeline() { return *lifeline_; }
  void guard(Guard::Where where) { lifeline_->guard(*this, std::move(where)); }

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
      MPI_Request& request =
          add(messages, {.process = process, .tag = tag, .bytes = part, .comes = false});
      check_mpi(MPI_Isend(static_cast<std::byte const*>(data) + begin, part, MPI_BYTE, process, tag,
                          session().comm(), &request),
                "MPI_Isend");
    });
  }
  /// MPI has @p data only when a message of this size is there: see accept().
  void receive(MpiMessages& messages, int process, int tag, void* data, std::size_t bytes) {
    each_part(bytes, [&](std::size_t begin, int part) {
      std::ptrdiff_t before = std::ssize(messages.about) - 1;
      auto const is_other = [&](MpiMessages::About const& one) {
        return !one.comes || one.process != process || one.tag != tag;
      };
      while (before >= 0 && is_other(messages.about[std::size_t(before)])) {
        --before;
      }
      add(messages, {.process = process,
                     .tag = tag,
                     .bytes = part,
                     .comes = true,
                     .expected = true,
                     .data = static_cast<std::byte*>(data) + begin,
                     .before = before});
    });
  }

  /// Returns when all of @p messages have been sent or have come.
  /// @param rank     that waits
  /// @param missing  set to the process that is waited for; for those who ask who waits for whom
  /// @param text     text(process): the sentence for it when time is up
  /// @throws AbortedError, TimeoutError  another rank has failed; time is up
  /// @throws ContractError  a message is of another size
  template <class Text>
  void wait(MpiMessages& messages, int rank, std::atomic<int>& missing, Text const& text) {
    auto const begin = std::chrono::steady_clock::now();
    auto const count = static_cast<int>(messages.requests.size());
    messages.statuses.resize(messages.requests.size());
    for (int looks = 0;; ++looks) {
      poll(false);
      bool const all_here = accept(messages);
      int done = 0;
      int const status =
          MPI_Testall(count, messages.requests.data(), &done, messages.statuses.data());
      if (status != MPI_SUCCESS) {
        refuse(status, messages);
      }
      if (all_here && done != 0) {
        break;
      }
      auto const waited = std::chrono::steady_clock::now() - begin;
      if (looks == 0 || waited >= seldom) {
        missing.store(first_missing(messages), std::memory_order_relaxed);
      }
      if (waited >= timeout_) {
        tell_time_out(rank, text(missing.load(std::memory_order_relaxed)));
        failure_->raise(false);
      }
      if (looks < 20) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(nap_after(waited));
      }
    }
    messages.requests.clear();
    messages.about.clear();
  }

  /// @param as_aborted  the caller waits for nobody
  /// @throws AbortedError, TimeoutError  a rank has failed
  void poll(bool as_aborted = true) const {
    if (failure_->failed()) {
      failure_->raise(as_aborted);
    }
  }

  /// A rank of this process has failed: all processes are told, this one's other ranks, too.
  TANDEM_COLD void fail(int rank, std::string_view what) noexcept {
    session().fail();
    try {
      lifeline_->report(rank, what);
    } catch (std::exception const&) {  // no memory: the others see that this process ends
      failure_->set(SharedFailure::Kind::aborted, {});
      failure_->wake();
    }
  }

  /// What has gone wrong first in all processes, from the lifeline's thread.
  TANDEM_COLD void abort(int rank, std::string_view reason) noexcept {
    end(SharedFailure::Kind::aborted, "rank " + std::to_string(rank) + " failed: ", reason);
  }
  TANDEM_COLD void time_out(std::string_view sentence) noexcept {
    end(SharedFailure::Kind::timed_out, {}, sentence);
  }
  [[nodiscard]] std::vector<WaitingRank> waits() const { return failure_->waits(); }

  /// All processes have come, and are of one mind about @p what. Process 0 hears all of them.
  TANDEM_COLD void meet(std::array<long long, 3> const& what) {
    MpiMessages& messages = first_words_;
    std::atomic<int> missing{-1};
    int const tag = first_tag_ + 1;
    auto const late = [this](int process) { return this->late(process); };
    if (process_ != 0) {
      char said = 0;
      auto const own = what;
      send(messages, 0, tag, own.data(), sizeof own);
      receive(messages, 0, tag, &said, 1);
      timeout_ += slack;
      wait(messages, first_rank_, missing, late);
      timeout_ -= slack;
      return;
    }
    std::vector<std::array<long long, 3>> all(std::size_t(processes_), what);
    for (int p = 1; p < processes_; ++p) {
      receive(messages, p, tag, &all[std::size_t(p)], sizeof what);
    }
    wait(messages, first_rank_, missing, late);
    for (int p = 1; p < processes_; ++p) {
      if (all[std::size_t(p)] != what) {
        std::string const text = "processes 0 and " + std::to_string(p) +
                                 " have Trainers of other strategies, ranks or processes; start "
                                 "one program with the same arguments everywhere";
        fail(first_rank_, text);
        throw ContractError{text};
      }
    }
    char const said = 1;
    for (int p = 1; p < processes_; ++p) {
      send(messages, p, tag, &said, 1);
    }
    wait(messages, first_rank_, missing, late);
  }

 private:
  static constexpr std::chrono::milliseconds slack{200};
  static constexpr std::chrono::milliseconds seldom{50};  // does a wait take longer

  /// MPI connects two processes when the first message is sent, and goes on with it only while it
  /// is
  /// called: by this thread, as long as process 0 waits for lifelines to which it has sent the way.
  class Progress {
   public:
    TANDEM_COLD explicit Progress(MpiWire const& wire) {
      if (wire.process_ == 0) {
        thread_ = std::thread{[this, tag = wire.first_tag_ + 1] {
          int found = 0;
          while (!over_.load() && MPI_Iprobe(MPI_ANY_SOURCE, tag, session().comm(), &found,
                                             MPI_STATUS_IGNORE) == MPI_SUCCESS) {
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
          }
        }};
      }
    }
    Progress(Progress const&) = delete;
    Progress& operator=(Progress const&) = delete;
    ~Progress() {
      over_.store(true);
      if (thread_.joinable()) {
        thread_.join();
      }
    }

   private:
    std::atomic<bool> over_{false};
    std::thread thread_;
  };

  static MpiSession& session() { return MpiSession::of_this_process(); }

  /// Late by a sixteenth of what it has waited for at most. Each wake-up takes some microseconds
  /// from what computes on this core: at five a millisecond 2 % of it.
  static std::chrono::steady_clock::duration nap_after(std::chrono::steady_clock::duration waited) {
    using Duration = std::chrono::steady_clock::duration;
    return std::clamp<Duration>(waited / 16, std::chrono::microseconds{5},
                                std::chrono::milliseconds{1});
  }

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

  static MPI_Request& add(MpiMessages& messages, MpiMessages::About const& about) {
    messages.about.push_back(about);
    return messages.requests.emplace_back(MPI_REQUEST_NULL);
  }

  /// Gives MPI the memory of those messages that have come, each of which is asked for its size
  /// first: Open MPI copies as many bytes as the sender has, whatever room the receiver gave.
  /// @returns whether MPI has the memory of all
  /// @throws ContractError  a message is of another size
  bool accept(MpiMessages& messages) const {
    bool all = true;
    for (std::size_t i = 0; i < messages.about.size(); ++i) {
      MpiMessages::About& own = messages.about[i];
      bool const may_come =
          own.expected && (own.before < 0 || !messages.about[std::size_t(own.before)].expected);
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status{};
      if (may_come) {
        check_mpi(MPI_Improbe(own.process, own.tag, session().comm(), &found, &message, &status),
                  "MPI_Improbe");
      }
      if (found != 0) {
        int bytes = 0;
        check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
        if (bytes != own.bytes) {
          disagree(own.process, bytes, own.bytes);
        }
        check_mpi(MPI_Imrecv(own.data, own.bytes, MPI_BYTE, &message, &messages.requests[i]),
                  "MPI_Imrecv");
        own.expected = false;
      }
      all = all && !own.expected;
    }
    return all;
  }

  /// The process of the first message that is not done; what comes is asked first, since a send may
  /// be done as soon as MPI has a copy.
  static int first_missing(MpiMessages& messages) {
    int found = messages.about.empty() ? -1 : messages.about.front().process;
    for (bool const comes : {false, true}) {
      for (std::size_t i = messages.about.size(); i-- > 0;) {
        MpiMessages::About const& about = messages.about[i];
        int done = 0;
        if (about.comes == comes &&
            (about.expected || (MPI_Request_get_status(messages.requests[i], &done,
                                                       MPI_STATUS_IGNORE) == MPI_SUCCESS &&
                                done == 0))) {
          found = about.process;
        }
      }
    }
    return found;
  }

  TANDEM_COLD static void refuse(int status, MpiMessages const& messages) {
    for (MPI_Status const& one : messages.statuses) {
      if (status == MPI_ERR_IN_STATUS && one.MPI_ERROR != MPI_SUCCESS &&
          one.MPI_ERROR != MPI_ERR_PENDING) {
        check_mpi(one.MPI_ERROR, "MPI_Testall");
      }
    }
    check_mpi(status, "MPI_Testall");
  }

  [[noreturn]] TANDEM_COLD void disagree(int process, int sent, int expected) const {
    std::string const sender = std::to_string(process);
    std::string const receiver = std::to_string(process_);
    throw ContractError{"process " + sender + " has sent " + std::to_string(sent) +
                        " bytes where process " + receiver + " expects " +
                        std::to_string(expected) +
                        ", since they have made different calls; let all processes make the same "
                        "calls in the same order, also evaluate() and save()"};
  }

  /// What process 0 has, to all; it waits for nobody, but in meet().
  TANDEM_COLD void spread(void* data, std::size_t bytes) {
    if (process_ == 0) {
      auto const* const from = static_cast<std::byte const*>(data);
      first_said_.assign(from, from + bytes);
      for (int p = 1; p < processes_; ++p) {
        send(first_words_, p, first_tag_, first_said_.data(), bytes);
      }
      return;
    }
    MpiMessages messages;
    receive(messages, 0, first_tag_, data, bytes);
    std::atomic<int> missing{0};
    wait(messages, first_rank_, missing, [this](int process) { return late(process); });
  }

  [[nodiscard]] TANDEM_COLD std::string late(int process) const {
    return "process " + std::to_string(process) + " on " +
           session().machines()[static_cast<std::size_t>(process)] +
           " did not make its Trainer within " + to_string(timeout_) +
           "; all processes must make the same ones, in the same order";
  }

  /// A rank of this process has waited too long. Returns when the lifeline has said who is to
  /// blame.
  TANDEM_COLD void tell_time_out(int rank, std::string const& text) noexcept {
    session().fail();
    try {
      if (lifeline_) {
        lifeline_->report_time_out(rank, text);
        Patience patience{std::chrono::seconds{5}, 0};
        while (!failure_->failed() && patience.pause()) {
        }
      }
      failure_->set(SharedFailure::Kind::timed_out, text);
    } catch (std::exception const&) {  // no memory
      failure_->set(SharedFailure::Kind::timed_out, {});
    }
    failure_->wake();
  }

  TANDEM_COLD void end(SharedFailure::Kind kind, std::string who,
                       std::string_view reason) noexcept {
    session().fail();
    std::string text;
    try {
      text = prefix_ + who + std::string{reason};
    } catch (std::exception const&) {  // no memory: without words, then
    }
    failure_->set(kind, std::move(text));
    failure_->wake();
  }

  int processes_;
  int process_;
  int first_rank_;
  std::chrono::milliseconds timeout_;
  int first_tag_;
  std::string prefix_;
  std::shared_ptr<SharedFailure> failure_;
  MpiMessages first_words_;  // process 0's first messages, under way until meet() is done
  std::vector<std::byte> first_said_;
  std::optional<Guard> lifeline_;  // last: its thread uses what is above
};

}  // namespace tandem::detail
