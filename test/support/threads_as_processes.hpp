// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ThreadsAsProcesses: a transport whose processes are threads of this one, so that what processes
/// do together can be tested, by the thread sanitizer too.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include <tandem/tandem.hpp>

namespace tandem::test {

/// Where the processes of one world meet.
struct ProcessesMeeting {
  struct Groups {
    explicit Groups(int ranks, ThreadsOptions const& options) : all{ranks, options} {}
    ThreadsGroup all;
    std::vector<std::unique_ptr<ThreadsGroup>> some;
  };
  std::mutex mutex;
  std::shared_ptr<Groups> groups;
};

/// Members as in ThreadsTransport. Its options' `world.rendezvous.context` is a ProcessesMeeting.
template <int Ranks>
class ThreadsAsProcesses {
 public:
  using Communicator = ThreadsCommunicator;

  explicit ThreadsAsProcesses(TransportOptions const& options)
      : first_{tandem::first_rank(options.world, ranks_of<Ranks>(options))},
        local_{tandem::local_ranks(options.world, ranks_of<Ranks>(options))},
        sets_{options.groups} {
    auto& meeting = *static_cast<ProcessesMeeting*>(options.world.rendezvous.context);
    std::lock_guard const lock{meeting.mutex};
    if (!meeting.groups) {
      meeting.groups = std::make_shared<ProcessesMeeting::Groups>(
          ranks_of<Ranks>(options), ThreadsOptions{.timeout = options.timeout,
                                                   .describe_progress = options.describe_progress,
                                                   .name = options.name});
      for (RankSet const& set : sets_) {
        meeting.groups->some.push_back(std::make_unique<ThreadsGroup>(meeting.groups->all, set));
      }
    }
    groups_ = meeting.groups;
  }

  [[nodiscard]] int first_rank() const noexcept { return first_; }
  [[nodiscard]] int local_ranks() const noexcept { return local_; }
  [[nodiscard]] static int device_of(int local) noexcept { return local; }
  [[nodiscard]] Communicator communicator(int rank) { return groups_->all.communicator(rank); }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    int const position = detail::member_of(sets_, rank, group);
    return groups_->some[static_cast<std::size_t>(group)]->communicator(position);
  }
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) {
    return &groups_->all.progress(rank);
  }
  void abort(int rank, std::string_view reason) { groups_->all.abort(rank, reason); }
  void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) {
    groups_->all.poll();
  }

 private:
  int first_;
  int local_;
  std::vector<RankSet> sets_;
  std::shared_ptr<ProcessesMeeting::Groups> groups_;
};

/// f(world) on a thread for each of @p processes; throws the first process's error.
inline void as_processes(int processes, std::function<void(World const&)> const& f) {
  ProcessesMeeting meeting;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      try {
        f({.processes = processes,
           .process = p,
           .local_process = p,
           .rendezvous = {.context = &meeting}});
      } catch (...) {
        errors[static_cast<std::size_t>(p)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::exception_ptr const& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
}

}  // namespace tandem::test
