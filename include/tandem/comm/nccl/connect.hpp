// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How the communicators of an NcclGroup are made, and how they are closed.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <nccl.h>

#include <tandem/comm/nccl/check.hpp>
#include <tandem/comm/nccl/slot.hpp>
#include <tandem/comm/nccl/slots.hpp>
#include <tandem/comm/nccl/time_out.hpp>
#include <tandem/comm/nccl/unique_id.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/device.hpp>

namespace tandem::detail {

/// Blocks of threads of a message. All of a rank that wait at once, and those of a collective, must
/// fit on its GPU beside what they wait for: 16 ends of links and a collective of 32 are 96.
inline constexpr int most_blocks_of_a_link = 4;

/// Opens and closes all communicators of a process, while no rank uses them.
class NcclConnector {
 public:
  /// @param options  both outlive this, as does @p failure
  /// @param failure  what has gone wrong elsewhere, "" for nothing; asked while others are waited
  ///                 for
  NcclConnector(NcclSlots const& slots, TransportOptions const& options,
                std::function<std::string()> const& failure)
      : slots_{slots}, options_{options}, failure_{failure} {}

  /// That of all ranks first, then the groups, in rounds. All processes call it.
  /// @throws TimeoutError  another process did not come; what has been made is aborted, as after
  ///                       every error
  /// @throws AbortedError  something has gone wrong elsewhere
  void open(std::span<ncclUniqueId const> ids) {
    try {
      connect(ids);
      for (std::vector<int> const& round : rounds_of(options_.groups, size())) {
        split(round);
      }
    } catch (...) {
      abort_nccl(slots_.take_all());  // which also ends a split that goes on
      for (NcclSlot& slot : slots_.of_group(-1)) {
        slot.comm = std::exchange(slot.made, nullptr);
      }
      abort_nccl(slots_.take_all());
      throw;
    }
  }

  /// The groups first, then that of all, from which they were split. All processes call it.
  /// @throws TimeoutError  @p limit is over
  void close(std::chrono::milliseconds limit) {
    auto const locks = slots_.lock_all();
    Patience patience{limit};
    std::size_t const local = slots_.of_group(-1).size();
    close(slots_.all().subspan(local), limit, patience);
    close(slots_.all().first(local), limit, patience);
  }

 private:
  void connect(std::span<ncclUniqueId const> ids) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclGroupStart());
    ncclResult_t status = ncclSuccess;
    for (NcclSlot& mine : slots_.of_group(-1)) {
      cuda::ScopedDevice const scope{mine.device};
      ncclResult_t const made = init(mine, ids, config);
      status = status == ncclSuccess ? made : status;
    }
    ncclResult_t const end = ncclGroupEnd();
    check_nccl(status);
    check_nccl(end);
    wait_until_ready(-1, -1);
  }

  static ncclResult_t init(NcclSlot& mine, std::span<ncclUniqueId const> ids,
                           ncclConfig_t& config) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    if (ids.size() > 1) {
      NcclUniqueIds const own{ids};  // NCCL takes no const ones
      return ncclCommInitRankScalable(&mine.comm, mine.size, mine.rank,
                                      static_cast<int>(own.size()), own.data(), &config);
    }
#endif
    return ncclCommInitRankConfig(&mine.comm, mine.size, ids.front(), mine.rank, &config);
  }

  /// All ranks of all processes split, also those that are in none of these groups, of which no
  /// rank is in two: a group's number is its colour.
  void split(std::vector<int> const& round) {
    check_nccl(ncclGroupStart());
    ncclResult_t status = ncclSuccess;
    for (NcclSlot& mine : slots_.of_group(-1)) {
      cuda::ScopedDevice const scope{mine.device};
      int color = NCCL_SPLIT_NOCOLOR;
      int key = 0;
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      for (int const group : round) {
        int const position =
            position_of(options_.groups[static_cast<std::size_t>(group)], mine.rank);
        color = position < 0 ? color : group;
        key = position < 0 ? key : position;
        if (position >= 0 && options_.groups[static_cast<std::size_t>(group)].sends) {
          config.maxCTAs = most_blocks_of_a_link;
        }
      }
      ncclResult_t const made = ncclCommSplit(mine.comm, color, key, &mine.made, &config);
      status = status == ncclSuccess || status == ncclInProgress ? made : status;
    }
    ncclResult_t const end = ncclGroupEnd();
    check_nccl(status);
    check_nccl(end);
    wait_until_ready(-1, round.front());  // NCCL writes `made` before it is done with the old ones
    for (int const group : round) {
      for (NcclSlot& member : slots_.of_group(group)) {
        member.comm = std::exchange(slots_.of_rank(member.rank).made, nullptr);
      }
    }
    for (int const group : round) {
      wait_until_ready(group, group);
    }
  }

  [[nodiscard]] int size() const { return slots_.of_group(-1)[0].size; }

  /// @param group   whose communicators
  /// @param making  which group they are waited for, or the first of them, for the message
  void wait_until_ready(int group, int making) {
    Patience patience{options_.timeout};
    for (NcclSlot& mine : slots_.of_group(group)) {
      while (state_of(mine) == ncclInProgress) {
        throw_if_failed();
        if (!patience.pause()) {
          auto const all = slots_.of_group(-1);
          throw TimeoutError{nccl_prefix(options_) + nccl_prefix(options_, making) +
                             not_all_came(all[0].size, all[0].rank, static_cast<int>(all.size())) +
                             " within " + to_string(options_.timeout)};
        }
      }
    }
  }

  /// Who has ended meanwhile is not to be waited for.
  void throw_if_failed() const {
    if (std::string const failure = failure_ ? failure_() : std::string{}; !failure.empty()) {
      throw AbortedError{nccl_prefix(options_) + failure};
    }
  }

  static ncclResult_t state_of(NcclSlot const& mine) {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(mine.comm, &state), mine.comm);
    return check_nccl(state, mine.comm);
  }

  void close(std::span<NcclSlot> slots, std::chrono::milliseconds limit, Patience& patience) {
    for_each_open(slots, [](NcclSlot& open) { return ncclCommFinalize(open.comm); });
    for (NcclSlot const& mine : slots) {
      while (mine.comm != nullptr && state_of(mine) == ncclInProgress) {
        if (!patience.pause()) {
          throw TimeoutError{nccl_prefix(options_) + "NCCL could not finish within " +
                             to_string(limit) +
                             ": another process still works, or has ended early"};
        }
      }
    }
    destroy(slots);
  }

  /// Returns when NCCL is done: ncclCommDestroy outside of a group ends before it returns, of which
  /// NCCL says nothing for a group of communicators that do not block. It may wait for the
  /// process's other ranks, hence a thread for each.
  void destroy(std::span<NcclSlot> slots) {
    std::span<NcclSlot> const ranks = slots_.of_group(-1);
    std::vector<ncclResult_t> results(ranks.size(), ncclSuccess);
    auto const destroy_of = [&](std::size_t local) {
      for (NcclSlot& slot : slots) {
        if (slot.rank == ranks[local].rank && slot.comm != nullptr) {
          ncclResult_t const own = ncclCommDestroy(std::exchange(slot.comm, nullptr));
          results[local] = results[local] == ncclSuccess ? own : results[local];
        }
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(ranks.size());
    for (std::size_t local = 1; local < ranks.size(); ++local) {
      try {
        threads.emplace_back(destroy_of, local);
      } catch (std::system_error const&) {  // there are no more threads
        destroy_of(local);
      }
    }
    destroy_of(0);
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (ncclResult_t const result : results) {
      check_nccl(result);
    }
  }

  /// f on every open communicator, as one group of calls.
  template <class F>
  static void for_each_open(std::span<NcclSlot> slots, F const& f) {
    ncclResult_t status = ncclGroupStart();
    for (NcclSlot& slot : slots) {
      if (slot.comm != nullptr) {
        ncclResult_t const own = f(slot);
        status = status == ncclSuccess || status == ncclInProgress ? own : status;
      }
    }
    ncclResult_t const end = ncclGroupEnd();
    check_nccl(status);
    check_nccl(end);
  }

  NcclSlots const& slots_;
  TransportOptions const& options_;
  std::function<std::string()> const& failure_;
};

}  // namespace tandem::detail
