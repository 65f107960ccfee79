// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NcclGroup: the NCCL communicators of one process, a thread and a GPU each.
///
/// They are non-blocking: a call that NCCL cannot finish at once is asked about until it is done,
/// has failed, was aborted by another thread, or its time is up. So nobody waits for ever for a
/// rank that will not come, in this process or in another. Each group of ranks has communicators of
/// its own, split from those of all; a failure in one ends them all.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <tandem/comm/lifeline/inquiry.hpp>
#include <tandem/comm/nccl/check.hpp>
#include <tandem/comm/nccl/connect.hpp>
#include <tandem/comm/nccl/slot.hpp>
#include <tandem/comm/nccl/slots.hpp>
#include <tandem/comm/nccl/time_out.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

class NcclCommunicator;

/// The ranks [first(), first() + local()) of a group of size() ranks. Made by the thread that
/// starts them, and outlives them; each rank's thread uses its communicator(rank). Not copyable or
/// movable.
class NcclGroup {
 public:
  /// Makes the communicators and returns when all ranks of all processes have made theirs: of all
  /// ranks first, then those of options.groups, one group after the other.
  /// @param ranks    of all processes
  /// @param first    the first rank of this process
  /// @param devices  one for each rank of this process, no two the same
  /// @param ids      agree on all processes, see make_unique_ids(); used for no other group. Where
  ///                 there are several each serves its share of the ranks
  /// @param options  its `world` is not read
  /// @param failure  what has gone wrong in another process, "" for nothing; asked again and again
  ///                 while they connect, later abort() is to be called
  /// @throws ContractError  the numbers contradict each other, the time-out is not positive, or a
  ///                        group names a rank twice or one that there is not
  /// @throws TimeoutError   another process did not come
  /// @throws AbortedError   @p failure, which was not ""
  /// @throws NcclError      NCCL cannot connect the ranks
  NcclGroup(int ranks, int first, std::span<cuda::Device const> devices,
            std::span<ncclUniqueId const> ids, TransportOptions const& options = {},
            std::function<std::string()> failure = {})
      : ranks_{ranks},
        first_{first},
        local_{static_cast<int>(devices.size())},
        options_{checked(options, ranks, first, local_)},
        failure_{std::move(failure)},
        slots_{ranks, first, devices, options_.groups} {
    expects(!ids.empty(), "NcclGroup: there is no id to meet by; make_unique_ids() makes them");
    detail::NcclConnector{slots_, options_, failure_}.open(ids);
  }
  NcclGroup(int ranks, int first, std::span<cuda::Device const> devices, ncclUniqueId const& id,
            TransportOptions const& options = {})
      : NcclGroup{ranks, first, devices, std::span{&id, 1}, options} {}

  NcclGroup(NcclGroup const&) = delete;
  NcclGroup& operator=(NcclGroup const&) = delete;

  /// Finishes, for five seconds at most, and then aborts what is left. What can fail is finish().
  ~NcclGroup() {
    try {
      disconnect(std::min<std::chrono::milliseconds>(options_.timeout, std::chrono::seconds{5}));
    } catch (...) {  // said too late for anyone to act on it; what is left open is aborted
    }
    detail::abort_nccl(slots_.take_all());
    if (aborter_.joinable()) {
      aborter_.join();
    }
  }

  /// @throws ContractError  @p rank does not live in this process
  [[nodiscard]] NcclCommunicator communicator(int rank);

  /// The end of @p rank, its number among all, in options.groups[@p group].
  /// @throws ContractError  there is no such group, the rank is no member of it, or does not live
  ///                        in this process
  [[nodiscard]] NcclCommunicator communicator(int rank, int group);

  /// Makes every rank of this process that is or will be in a call throw AbortedError with
  /// @p reason, and makes their GPUs go on; returns at once. Other processes notice by NCCL's own
  /// errors, by their time-out, or by a lifeline's verdict. From any thread; the first failure of a
  /// group counts.
  void abort(int rank, std::string_view reason) {
    fail(prefix() + "rank " + std::to_string(rank) + " failed: " + std::string{reason});
  }

  /// To be called again and again by whoever waits for this rank's GPU, and once more when the GPU
  /// has come: after an abort it goes on, with wrong numbers.
  /// @param waited  for how long already
  /// @throws AbortedError  the group was aborted
  /// @throws NcclError     NCCL has noticed an error, such as a process that has ended
  /// @throws TimeoutError  @p waited is longer than the time-out; the group is aborted
  void poll(int rank, std::chrono::steady_clock::duration waited = {}) {
    slots_.of_rank(rank).waits.store(waited.count() > 0, std::memory_order_relaxed);
    for (detail::NcclSlot& slot : slots_.all()) {
      if (slot.rank == rank) {
        static_cast<void>(state_of(slot));
      }
    }
    if (waited > options_.timeout) {
      time_out(rank);
    }
  }

  /// Fails the group because @p rank has waited too long for its GPU.
  /// @throws TimeoutError  always; it says which rank did not reach which operation, where known
  [[noreturn]] void time_out(int rank) {
    std::string const text = time_out_text(rank);
    if (escalation_) {
      escalation_(rank, text);
    }
    fail(text);
    std::lock_guard const lock{mutex_};
    throw TimeoutError{message_};
  }
  /// As abort(), because of a rank of whichever process that has waited too long.
  void time_out(std::string const& sentence) { fail(sentence); }

  /// From now on @p tell is called with a time-out's rank and sentence before the group fails with
  /// it, on that rank's thread. It may call time_out() with a better one. Set it before ranks wait.
  void escalate_by(std::function<void(int rank, std::string const& text)> tell) {
    escalation_ = std::move(tell);
  }
  [[nodiscard]] bool failed() {
    std::lock_guard const lock{mutex_};
    return !message_.empty();
  }

  /// How far the ranks here have come in each of their groups, but those that another thread keeps
  /// in a call of NCCL. From any thread.
  [[nodiscard]] std::vector<detail::ReachedCall> reached() {
    std::vector<detail::ReachedCall> all;
    for (detail::NcclSlot& slot : slots_.all()) {
      detail::Patience patience{std::chrono::milliseconds{10}, 0};
      std::unique_lock lock{slot.mutex, std::try_to_lock};
      while (!lock && patience.pause()) {
        lock.try_lock();
      }
      if (lock && slot.size > 1) {
        all.push_back({.rank = slot.rank,
                       .group = slot.group,
                       .call = slot.calls,
                       .waits = slots_.of_rank(slot.rank).waits.load(std::memory_order_relaxed),
                       .name = prefix() + prefix(slot.group) + numbered(slot.last, slot.calls),
                       .progress = detail::words_of(slot, options_)});
      }
    }
    return all;
  }
  /// The ranks of options.groups[@p group], or all for -1.
  [[nodiscard]] std::vector<int> members(int group) const {
    if (group >= 0) {
      return options_.groups[static_cast<std::size_t>(group)].ranks;
    }
    std::vector<int> all(static_cast<std::size_t>(ranks_));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// Closes the communicators once everything queued is done. All processes call it; no rank may
  /// use its communicator afterwards.
  /// @throws TimeoutError  another process did not come
  void finish() { disconnect(options_.timeout); }

  /// Where @p rank notes what it is doing, for time-out messages; see describe_progress.
  /// @pre @p rank lives in this process
  [[nodiscard]] std::atomic<std::uint64_t>& progress(int rank) noexcept {
    return *slots_.of_rank(rank).progress;
  }

  [[nodiscard]] int size() const noexcept { return ranks_; }
  [[nodiscard]] int first() const noexcept { return first_; }
  [[nodiscard]] int local() const noexcept { return local_; }

 private:
  friend class NcclCommunicator;

  /// f(communicator) makes one call, or one group of calls; returns when NCCL has queued it.
  template <class F>
  void queue(detail::NcclSlot& mine, detail::NcclCall const& call, F const& f) {
    ncclResult_t status = ncclSuccess;
    {
      std::lock_guard const lock{mine.mutex};
      throw_if_failed(mine);
      mine.last = call;
      ++mine.calls;
      mine.latest = ++calls_;
      status = check_nccl(f(mine.comm), mine.comm);
    }
    detail::Patience patience{options_.timeout};
    std::atomic<bool>& waits = slots_.of_rank(mine.rank).waits;
    while (status == ncclInProgress) {
      waits.store(true, std::memory_order_relaxed);
      if (!patience.pause()) {
        time_out(mine.rank);
      }
      status = state_of(mine);
    }
    waits.store(false, std::memory_order_relaxed);
  }

  /// ncclSuccess or ncclInProgress.
  ncclResult_t state_of(detail::NcclSlot& mine) {
    std::lock_guard const lock{mine.mutex};
    throw_if_failed(mine);
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(mine.comm, &state), mine.comm);
    return check_nccl(state, mine.comm);
  }

  /// @pre the slot is locked
  void throw_if_failed(detail::NcclSlot const& mine) {
    if (mine.comm == nullptr) {
      std::lock_guard const lock{mutex_};
      expects(!message_.empty(), "NcclGroup: a communicator is used after finish()");
      throw AbortedError{message_};
    }
  }

  void disconnect(std::chrono::milliseconds limit) {
    detail::NcclConnector{slots_, options_, failure_}.close(limit);
  }

  void fail(std::string const& message) {
    {
      std::lock_guard const lock{mutex_};
      if (!message_.empty()) {
        return;
      }
      message_ = message;
    }
    // On a thread of its own, since NCCL waits there for the end of the graphs that use it.
    std::vector<ncclComm_t> const open = slots_.take_all();
    try {
      aborter_ = std::thread{[open] { detail::abort_nccl(open); }};
    } catch (std::system_error const&) {  // there are no more threads
      detail::abort_nccl(open);
    }
  }

  /// In each group of @p rank: who is behind. If nobody is, what the rank did last.
  [[nodiscard]] std::string time_out_text(int rank) const {
    std::string text;
    detail::NcclSlot* last = &slots_.of_rank(rank);
    std::uint64_t latest = 0;
    for (detail::NcclSlot& slot : slots_.all()) {
      if (slot.rank != rank) {
        continue;
      }
      std::string const behind = detail::nccl_behind(slots_.of_group(slot.group), slot, options_);
      if (!behind.empty()) {
        text.append(text.empty() ? "" : "; ").append(prefix(slot.group)).append(behind);
      }
      if (auto const own = detail::look_at(slot, options_).latest; own > latest) {
        latest = own;
        last = &slot;
      }
    }
    if (text.empty()) {
      text =
          prefix(last->group) + detail::nccl_waited(slots_.of_group(last->group), *last, options_);
    }
    return prefix() + text;
  }

  static TransportOptions const& checked(TransportOptions const& options, int ranks, int first,
                                         int local) {
    expects(local >= 1 && first >= 0 && first + local <= ranks,
            "NcclGroup: the ranks of this process must be some of the group's ranks");
    expects(options.timeout.count() > 0, "NcclGroup: the timeout must be positive");
    detail::check_groups(options.groups, ranks);
    return options;
  }

  [[nodiscard]] std::string prefix(int group) const { return detail::nccl_prefix(options_, group); }
  [[nodiscard]] std::string prefix() const { return detail::nccl_prefix(options_); }

  int ranks_;
  int first_;
  int local_;
  TransportOptions options_;
  std::function<std::string()> failure_;  // elsewhere, while it connects
  std::function<void(int, std::string const&)> escalation_;
  std::mutex mutex_;     // guards message_; taken after a slot's mutex, if with it
  std::string message_;  // of the failure, "" while there is none
  detail::NcclSlots slots_;
  std::atomic<std::uint64_t> calls_{0};  // of all ranks here, in all groups
  std::thread aborter_;
};

}  // namespace tandem
