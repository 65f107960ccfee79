// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Team: the threads of one Host device, and its parallel_for.
///
/// The calling thread is a member of its team, so a team of one starts no thread at all. Kernels
/// split their *outputs* among the members and never a sum, so that no bit depends on the size.
/// In a program with OpenMP the members are the caller's OpenMP threads, which oneDNN computes on
/// too; else they are threads of the Team's own.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/thread_error.hpp>
#include <tandem/runtime/host/openmp.hpp>

namespace tandem::host {

namespace detail {
inline std::mutex starts_of_openmp;
}  // namespace detail

/// A fixed set of threads that run the parts of one loop at a time. Not copyable, not movable.
class Team {
 public:
  /// To be made by the device's own thread, since with OpenMP it becomes the number of threads of
  /// that thread's loops: omp_get_max_threads() is `threads` there from now on, and nowhere else.
  /// Cost: with OpenMP each thread but the caller's is started twice.
  /// @param threads_of  whose threads to run on; OpenMp{}: threads of the Team's own
  /// @pre threads >= 1
  /// @throws Error  the system has not so many threads
  TANDEM_ONCE explicit Team(int threads = 1, OpenMp const& threads_of = openmp);

  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  ~Team() { stop(); }

  [[nodiscard]] int size() const noexcept { return size_; }

  /// body(begin, end) on disjoint ranges that cover [0, n), one for each member; returns when all
  /// have. No allocation, but what OpenMP may do in the first loop. Which range is whose depends on
  /// n and size() only. Called by the device's own thread only.
  /// @pre body does not throw and does not call parallel_for
  template <class Body>
  void parallel_for(std::int64_t n, Body&& body) {
    if (size_ == 1 || n <= 1) {
      if (n > 0) {
        body(std::int64_t{0}, n);
      }
      return;
    }
    count_ = n;
    body_ = const_cast<void*>(static_cast<void const*>(std::addressof(body)));
    call_ = [](void* object, std::int64_t begin, std::int64_t end) {
      (*static_cast<std::remove_reference_t<Body>*>(object))(begin, end);
    };
    if (fork_ != nullptr) {
      fork_(
          size_,
          [](void const* team, int member) { static_cast<Team const*>(team)->run_part(member); },
          this);
      return;
    }
    working_.store(size_ - 1, std::memory_order_relaxed);
    loop_.fetch_add(1, std::memory_order_release);
    loop_.notify_all();
    run_part(0);
    for (int left = working_.load(std::memory_order_acquire); left != 0;
         left = working_.load(std::memory_order_acquire)) {
      working_.wait(left, std::memory_order_acquire);
    }
  }

 private:
  /// OpenMP ends the program where the system starts no more threads, so as many are asked for
  /// first, and OpenMP's are started then and there. One device at a time: two at once could take
  /// the same threads for theirs.
  TANDEM_ONCE void start_openmp_threads();

  TANDEM_ONCE void run_part(int member) const;

  TANDEM_ONCE void stop();

  TANDEM_ONCE void serve(int member);

  int size_;
  void (*fork_)(int, OpenMp::Part, void const*);
  std::int64_t count_ = 0;
  void* body_ = nullptr;
  void (*call_)(void*, std::int64_t, std::int64_t) = nullptr;
  std::atomic<std::uint32_t> loop_{0};
  std::atomic<int> working_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> members_;
};

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE Team::Team(int threads, OpenMp const& threads_of)
    : size_{threads}, fork_{threads_of.fork} {
  expects(threads >= 1, "Team: a device needs at least one thread");
  if (threads_of.set_threads != nullptr) {
    threads_of.set_threads(threads);
    if (threads > 1) {
      openmp_has_teams = true;
    }
  }
  if (fork_ != nullptr) {
    start_openmp_threads();
    return;
  }
  members_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int member = 1; member < threads; ++member) {
      members_.push_back(std::thread{[this, member] { serve(member); }});
    }
  } catch (std::system_error const& error) {
    auto const got = std::to_string(members_.size() + 1);
    stop();
    throw tandem::detail::no_more_threads(
        "a device's team of " + std::to_string(threads) + " threads has got " + got, error);
  } catch (...) {  // no more memory
    stop();
    throw;
  }
}

TANDEM_ONCE void Team::start_openmp_threads() {
  if (size_ > 1) {
    std::lock_guard const lock{detail::starts_of_openmp};
    static_cast<void>(Team{size_, OpenMp{}});
    fork_(
        size_, [](void const*, int) {}, nullptr);
  }
}

TANDEM_ONCE void Team::serve(int member) {
  for (std::uint32_t seen = 0;; ++seen) {
    loop_.wait(seen, std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) {
      return;
    }
    run_part(member);
    if (working_.fetch_sub(1, std::memory_order_release) == 1) {
      working_.notify_one();
    }
  }
}

TANDEM_ONCE void Team::run_part(int member) const {
  std::int64_t const begin = count_ * member / size_;
  std::int64_t const end = count_ * (member + 1) / size_;
  if (begin < end) {
    call_(body_, begin, end);
  }
}

TANDEM_ONCE void Team::stop() {
  stop_.store(true, std::memory_order_relaxed);
  loop_.fetch_add(1, std::memory_order_release);
  loop_.notify_all();
  for (std::thread& member : members_) {
    member.join();
  }
}

}  // namespace tandem::host

#endif
