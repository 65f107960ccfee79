// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MpiSession: MPI as this process has started it, once; and how it ends.
///
/// MPI is one for a process, begun once and never again. So this is the one place that keeps state
/// beside any object.

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include <tandem/comm/mpi/check.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/own_process.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// How the start of MPI is awaited.
struct MpiOptions {
  /// For all processes to have started MPI, which returns in none of them if one does not come; 0:
  /// no limit. As long may MPI take to end in a process that has made no Trainer, since what it
  /// left out others may have died of.
  std::chrono::milliseconds start_timeout = std::chrono::minutes{5};
  OnStall on_stall{};  ///< what to do then; the default ends the process
};

namespace detail {

/// Ends the waiting for a call that does not return by itself.
class StartLimit {
 public:
  TANDEM_COLD StartLimit(MpiOptions const& options, char const* what)
      : options_{options}, what_{what} {
    if (options.start_timeout.count() > 0) {
      watch_ = std::thread{[this] { watch(); }};
    }
  }
  StartLimit(StartLimit const&) = delete;
  StartLimit& operator=(StartLimit const&) = delete;
  ~StartLimit() {
    {
      std::lock_guard const lock{mutex_};
      done_ = true;
    }
    changed_.notify_all();
    if (watch_.joinable()) {
      watch_.join();
    }
  }

 private:
  TANDEM_COLD void watch() {
    std::unique_lock lock{mutex_};
    while (!changed_.wait_for(lock, options_.start_timeout, [this] { return done_; })) {
      std::string const text =
          std::string{what_} + " has not returned within " +
          std::to_string(options_.start_timeout.count()) +
          " ms: another process has not come; look at the machines and at what they print";
      report_stall(options_.on_stall,
                   {.message = text.c_str(), .rank = -1, .idle = options_.start_timeout},
                   ExitCode::peer_failed);
    }
  }

  MpiOptions options_;
  char const* what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread watch_;
};

/// One for a process.
class MpiSession {
 public:
  static MpiSession& of_this_process() {
    static MpiSession session;
    return session;
  }

  /// Begins MPI unless that has been done, and meets all processes. All of them call it.
  /// @throws MpiError  MPI has no threads, or fails
  TANDEM_COLD void start(MpiOptions const& options) {
    if (comm_ != MPI_COMM_NULL) {
      return;
    }
    options_ = options;
    StartLimit const limit{options, "the start of MPI"};
    int started = 0;
    int threads = MPI_THREAD_SINGLE;
    check_mpi(MPI_Initialized(&started), "MPI_Initialized");
    if (started == 0) {
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads),
                "MPI_Init_thread");
      std::atexit([] { of_this_process().end(); });
    } else {
      check_mpi(MPI_Query_thread(&threads), "MPI_Query_thread");
    }
    if (threads != MPI_THREAD_MULTIPLE) {
      throw MpiError{
          "this MPI, or the program that has begun it, does not let several threads call it: call "
          "mpi_world() before any MPI_Init, and take an MPI built with MPI_THREAD_MULTIPLE"};
    }
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int processes = 0;
    check_mpi(MPI_Comm_size(comm, &processes), "MPI_Comm_size");
    check_mpi(MPI_Comm_rank(comm, &process_), "MPI_Comm_rank");
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    std::vector<char> names(sizeof name * static_cast<std::size_t>(processes));
    check_mpi(MPI_Allgather(name, sizeof name, MPI_CHAR, names.data(), sizeof name, MPI_CHAR, comm),
              "MPI_Allgather");
    for (std::size_t p = 0; p < static_cast<std::size_t>(processes); ++p) {
      machines_.emplace_back(names.data() + p * sizeof name);
    }
    void* most = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &found), "MPI_Comm_get_attr");
    largest_tag_ = found != 0 ? *static_cast<int*>(most) : 32767;
    comm_ = comm;
  }

  [[nodiscard]] bool started() const { return comm_ != MPI_COMM_NULL; }
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] int process() const { return process_; }
  /// The machine of each process.
  [[nodiscard]] std::vector<std::string> const& machines() const { return machines_; }

  /// So many tags in a row that no other transport has, the same on all processes that make theirs
  /// in one order.
  /// @throws MpiError  the MPI has fewer
  TANDEM_COLD int take_tags(long long count) {
    if (count >= largest_tag_) {
      throw MpiError{"this strategy needs " + std::to_string(count) +
                     " tags of MPI, which has up to " + std::to_string(largest_tag_) +
                     "; start more processes, so that each has fewer ranks"};
    }
    used_ = true;
    int const first = next_tag_ + count < largest_tag_ ? next_tag_ : 0;
    next_tag_ = first + static_cast<int>(count);
    return first;
  }

  /// What exit() is told to, as long as its context lives; call() returns whether the process may
  /// still end MPI.
  struct AtExit {
    bool (*call)(void* context);
    void* context;
  };
  void add(AtExit const& told) {
    std::lock_guard const lock{mutex_};
    told_.push_back(told);
  }
  void remove(void* context) {
    std::lock_guard const lock{mutex_};
    std::erase_if(told_, [context](AtExit const& one) { return one.context == context; });
  }

  /// A rank has failed: what others wait for never comes, so MPI is neither used nor ended any
  /// more. The launcher ends the others, a moment after they have been told.
  void fail() noexcept { failed_.store(true); }
  [[nodiscard]] bool failed() const noexcept { return failed_.load(); }

 private:
  MpiSession() = default;

  /// Until all processes end MPI. MPI_Finalize would wait for them at full load, and mpirun may
  /// hang where it kills a process that is in there.
  void await_others() noexcept {
    MPI_Request request = MPI_REQUEST_NULL;
    bool const waits = comm_ != MPI_COMM_NULL && MPI_Ibarrier(comm_, &request) == MPI_SUCCESS;
    int done = waits ? 0 : 1;
    while (done == 0 && MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  TANDEM_COLD void end() noexcept {
    if (!own_.is_own()) {  // a child of fork(), which MPI does not know
      return;
    }
    {
      std::lock_guard const lock{mutex_};
      for (AtExit const& one : told_) {  // Trainers that exit() has left behind
        if (!one.call(one.context)) {
          fail();
        }
      }
    }
    if (failed()) {  // the others were told, and are saying so
      std::this_thread::sleep_for(std::chrono::milliseconds{500});
      return;
    }
    int ended = 0;
    if (MPI_Finalized(&ended) == MPI_SUCCESS && ended == 0) {
      std::optional<StartLimit> limit;
      if (!used_) {
        limit.emplace(options_, "the end of MPI");
      }
      await_others();
      MPI_Finalize();
    }
  }

  OwnProcess own_;
  MpiOptions options_;
  bool used_ = false;  // by a transport
  MPI_Comm comm_ = MPI_COMM_NULL;
  int process_ = 0;
  std::vector<std::string> machines_;
  int largest_tag_ = 0;
  int next_tag_ = 0;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows
  std::vector<AtExit> told_;
};

}  // namespace detail

}  // namespace tandem
