// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerGroup: the ranks of one process, a thread each, that run steps in lockstep.

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/comm/transport.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/rank.hpp>
#include <tandem/train/launch.hpp>

namespace tandem {

/// Makes the ranks on their own threads and hands them steps; after a rank has failed it refuses
/// further work, since replicas may then differ.
template <class Program, class Backend, class LossType, class MetricType,
          template <int> class Transport>
class WorkerGroup {
 public:
  static constexpr int ranks = Program::ranks;
  using TransportType = Transport<ranks>;
  using RankType =
      Rank<Program, Backend, LossType, MetricType, typename TransportType::Communicator>;

  /// @param options    of every rank but for the field `rank`, and of its device the ordinal
  /// @param transport  but for describe_progress
  WorkerGroup(RankOptions const& options, TransportOptions transport)
      : timeout_{transport.timeout},
        transport_{described(std::move(transport))},
        ranks_(static_cast<std::size_t>(transport_.local_ranks())),
        threads_{transport_.local_ranks(), abort_on_error(transport_), transport_.first_rank()} {
    threads_.run([&](int local) {
      RankOptions own = options;
      own.rank = transport_.first_rank() + local;
      own.device.ordinal = transport_.device_of(local);
      if (own.device.threads == 0) {
        own.device.threads = host::threads_of_each(size());
      }
      auto& place = ranks_[static_cast<std::size_t>(local)];
      place = std::make_unique<RankType>(own, transport_.communicator(own.rank));
      for (int other = 0; other < size(); ++other) {
        place->device().share_with({.ordinal = transport_.device_of(other)});
      }
      place->report_progress_to(transport_.progress(own.rank));
      place->watch_with(
          {.look = look, .context = &transport_, .rank = own.rank, .timeout = timeout_});
    });
  }

  /// f(rank) on every rank's thread; gives the result of the first, if any. No allocation.
  /// @throws RankError  the first error of a rank; the group is unusable afterwards
  template <class F>
  auto run(F const& f) {
    return run_where([](int) { return true; }, f);
  }

  /// f(rank) on the thread of rank number @p local of this process only.
  template <class F>
  auto run_on(int local, F const& f) {
    return run_where([local](int l) { return l == local; }, f);
  }

  /// Ranks of this process.
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// The process's rank number @p local.
  [[nodiscard]] RankType& rank(int local) const { return *ranks_[static_cast<std::size_t>(local)]; }

 private:
  template <class Chosen, class F>
  auto run_where(Chosen const& chosen, F const& f) {
    expects(!failed_,
            "a rank of this trainer has failed, so its replicas may differ: make a new Trainer and "
            "load a checkpoint");
    using Result = std::invoke_result_t<F const&, RankType&>;
    std::conditional_t<std::is_void_v<Result>, char, Result> result{};
    failed_ = true;
    try {
      threads_.run([&](int local) {
        if (!chosen(local)) {
          return;
        }
        RankType& own = rank(local);
        if constexpr (std::is_void_v<Result>) {
          f(own);
        } else {
          Result const value = f(own);
          if (local == 0) {
            result = value;
          }
        }
      });
    } catch (...) {
      settle();
      throw;
    }
    failed_ = false;
    if constexpr (!std::is_void_v<Result>) {
      return result;
    }
  }

  // No task may still read a rank's memory when the first rank goes.
  void settle() noexcept {
    for (auto const& rank : ranks_) {
      if (rank) {
        rank->device().settle();
      }
    }
  }

  static TransportOptions described(TransportOptions options) {
    options.describe_progress = [](int /*rank*/, std::uint64_t action) {
      return to_string(unpack_action(action));
    };
    return options;
  }
  static void look(void* transport, int rank, Watch::Duration waited) {
    static_cast<TransportType*>(transport)->poll(rank, waited);
  }

  std::chrono::milliseconds timeout_;
  TransportType transport_;
  std::vector<std::unique_ptr<RankType>> ranks_;
  bool failed_ = false;
  RankThreads threads_;  // last: joined before anything that it uses goes
};

}  // namespace tandem
