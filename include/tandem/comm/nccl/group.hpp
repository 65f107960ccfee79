// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NcclGroup: the NCCL communicators of one process, a thread and a GPU each.
///
/// They are non-blocking: a call that NCCL cannot finish at once is asked about until it is done,
/// has failed, was aborted by another thread, or its time is up. So nobody waits for ever for a
/// rank that will not come, in this process or in another.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <tandem/comm/nccl/check.hpp>
#include <tandem/comm/nccl/slot.hpp>
#include <tandem/comm/patience.hpp>
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
  /// Makes the communicators and returns when all ranks of all processes have made theirs.
  /// @param ranks    of all processes
  /// @param first    the first rank of this process
  /// @param devices  one for each rank of this process, no two the same
  /// @param id       agrees on all processes, see make_unique_id(); used for no other group
  /// @param options  its `world` is not read
  /// @throws ContractError  the numbers contradict each other, or the time-out is not positive
  /// @throws TimeoutError   another process did not come
  /// @throws NcclError      NCCL cannot connect the ranks
  NcclGroup(int ranks, int first, std::span<cuda::Device const> devices, ncclUniqueId const& id,
            TransportOptions const& options = {})
      : ranks_{ranks}, first_{first}, local_{static_cast<int>(devices.size())}, options_{options} {
    expects(local_ >= 1 && first >= 0 && first + local_ <= ranks,
            "NcclGroup: the ranks of this process must be some of the group's ranks");
    expects(options.timeout.count() > 0, "NcclGroup: the timeout must be positive");
    slots_ = std::make_unique<detail::NcclSlot[]>(devices.size());
    try {
      for (std::size_t i = 0; i < devices.size(); ++i) {
        slots_[i].make_word(devices[i]);
      }
      connect(id);
    } catch (...) {
      detail::abort_nccl(take_all());
      throw;
    }
  }

  NcclGroup(NcclGroup const&) = delete;
  NcclGroup& operator=(NcclGroup const&) = delete;

  /// Finishes, for five seconds at most, and then aborts what is left. What can fail is finish().
  ~NcclGroup() {
    try {
      disconnect(std::min<std::chrono::milliseconds>(options_.timeout, std::chrono::seconds{5}));
    } catch (...) {  // said too late for anyone to act on it; what is left open is aborted
    }
    detail::abort_nccl(take_all());
    if (aborter_.joinable()) {
      aborter_.join();
    }
  }

  /// @throws ContractError  @p rank does not live in this process
  [[nodiscard]] NcclCommunicator communicator(int rank);

  /// Makes every rank of this process that is or will be in a call throw AbortedError with
  /// @p reason, and makes their GPUs go on; returns at once. Other processes notice by NCCL's own
  /// errors, or by their time-out. From any thread; the first failure of a group counts.
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
    static_cast<void>(state_of(slot(rank)));
    if (waited > options_.timeout) {
      time_out(rank);
    }
  }

  /// Fails the group because @p rank has waited too long for its GPU.
  /// @throws TimeoutError  always; it says which rank did not reach which operation, where known
  [[noreturn]] void time_out(int rank) {
    std::string const text = prefix() + time_out_text(rank);
    fail(text);
    throw TimeoutError{text};
  }

  /// Closes the communicators once everything queued is done. All processes call it; no rank may
  /// use its communicator afterwards.
  /// @throws TimeoutError  another process did not come
  void finish() { disconnect(options_.timeout); }

  /// Where @p rank notes what it is doing, for time-out messages; see describe_progress.
  /// @pre @p rank lives in this process
  [[nodiscard]] std::atomic<std::uint64_t>& progress(int rank) noexcept {
    return slot(rank).progress;
  }

  [[nodiscard]] int size() const noexcept { return ranks_; }
  [[nodiscard]] int first() const noexcept { return first_; }
  [[nodiscard]] int local() const noexcept { return local_; }

 private:
  friend class NcclCommunicator;

  /// f(communicator) makes one call, or one group of calls; returns when NCCL has queued it.
  template <class F>
  void queue(int rank, detail::NcclCall const& call, F const& f) {
    detail::NcclSlot& mine = slot(rank);
    ncclResult_t status = ncclSuccess;
    {
      std::lock_guard const lock{mine.mutex};
      throw_if_failed(mine);
      mine.last = call;
      ++mine.calls;
      status = check_nccl(f(mine.comm), mine.comm);
    }
    detail::Patience patience{options_.timeout};
    while (status == ncclInProgress) {
      if (!patience.pause()) {
        time_out(rank);
      }
      status = state_of(mine);
    }
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

  void connect(ncclUniqueId const& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclGroupStart());
    ncclResult_t status = ncclSuccess;
    for (int i = 0; i < local_; ++i) {
      detail::NcclSlot& mine = slots_[static_cast<std::size_t>(i)];
      cuda::ScopedDevice const scope{mine.device};
      ncclResult_t const made = ncclCommInitRankConfig(&mine.comm, ranks_, id, first_ + i, &config);
      status = status == ncclSuccess ? made : status;
    }
    ncclResult_t const end = ncclGroupEnd();
    check_nccl(status);
    check_nccl(end);
    detail::Patience patience{options_.timeout};
    for (int rank = first_; rank < first_ + local_; ++rank) {
      while (state_of(slot(rank)) == ncclInProgress) {
        if (!patience.pause()) {
          throw TimeoutError{prefix() + detail::not_all_came(ranks_, first_, local_) + " within " +
                             detail::to_string(options_.timeout)};
        }
      }
    }
  }

  void disconnect(std::chrono::milliseconds limit) {
    auto const locks = lock_all();
    detail::Patience patience{limit};
    for_each_open([](detail::NcclSlot& open) { return ncclCommFinalize(open.comm); });
    for (int i = 0; i < local_; ++i) {
      detail::NcclSlot const& mine = slots_[static_cast<std::size_t>(i)];
      for (ncclResult_t state = ncclInProgress; mine.comm != nullptr && state == ncclInProgress;) {
        check_nccl(ncclCommGetAsyncError(mine.comm, &state), mine.comm);
        if (check_nccl(state, mine.comm) == ncclInProgress && !patience.pause()) {
          throw TimeoutError{prefix() + "NCCL could not finish within " + detail::to_string(limit) +
                             ": another process still works, or has ended early"};
        }
      }
    }
    for_each_open(
        [](detail::NcclSlot& open) { return ncclCommDestroy(std::exchange(open.comm, nullptr)); });
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
    std::vector<ncclComm_t> const open = take_all();
    try {
      aborter_ = std::thread{[open] { detail::abort_nccl(open); }};
    } catch (std::system_error const&) {  // there are no more threads
      detail::abort_nccl(open);
    }
  }

  /// The open communicators, which nobody else will find any more: so each is aborted once.
  std::vector<ncclComm_t> take_all() {
    auto const locks = lock_all();
    std::vector<ncclComm_t> open;
    for (int i = 0; i < local_; ++i) {
      if (auto& comm = slots_[static_cast<std::size_t>(i)].comm; comm != nullptr) {
        open.push_back(std::exchange(comm, nullptr));
      }
    }
    return open;
  }

  /// f on every open communicator, as one group of calls. @pre all slots are locked
  template <class F>
  void for_each_open(F const& f) {
    ncclResult_t status = ncclGroupStart();
    for (int i = 0; i < local_; ++i) {
      detail::NcclSlot& mine = slots_[static_cast<std::size_t>(i)];
      if (mine.comm != nullptr) {
        ncclResult_t const own = f(mine);
        status = status == ncclSuccess || status == ncclInProgress ? own : status;
      }
    }
    ncclResult_t const end = ncclGroupEnd();
    check_nccl(status);
    check_nccl(end);
  }

  [[nodiscard]] detail::NcclLocks lock_all() const {
    return detail::NcclLocks{{slots_.get(), static_cast<std::size_t>(local_)}};
  }

  [[nodiscard]] std::string time_out_text(int rank) const {
    return detail::nccl_time_out_text({slots_.get(), static_cast<std::size_t>(local_)}, ranks_,
                                      first_, rank, options_);
  }

  [[nodiscard]] detail::NcclSlot& slot(int rank) const {
    return slots_[static_cast<std::size_t>(rank - first_)];
  }
  [[nodiscard]] std::int32_t* word(int rank) const { return slot(rank).word_data(); }
  [[nodiscard]] std::string prefix() const {
    return options_.name != nullptr ? std::string{options_.name} + ": " : std::string{};
  }

  int ranks_;
  int first_;
  int local_;
  TransportOptions options_;
  std::mutex mutex_;     // guards message_; taken after a slot's mutex, if with it
  std::string message_;  // of the failure, "" while there is none
  std::unique_ptr<detail::NcclSlot[]> slots_;
  std::thread aborter_;
};

}  // namespace tandem
