// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerGroup: the ranks of one process, a thread each, that run steps in lockstep.

#include <memory>
#include <string>
#include <vector>

#include <tandem/comm/transport.hpp>
#include <tandem/core/clock.hpp>
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

  /// @param options  of every rank but for the field `rank`
  WorkerGroup(RankOptions const& options, std::chrono::milliseconds timeout)
      : transport_{ThreadsOptions{.timeout = timeout, .describe_progress = describe}},
        ranks_(static_cast<std::size_t>(ranks)),
        threads_{ranks, abort_on_error(transport_)} {
    threads_.run([&](int rank) {
      RankOptions own = options;
      own.rank = rank;
      auto& place = ranks_[static_cast<std::size_t>(rank)];
      place = std::make_unique<RankType>(own, transport_.communicator(rank));
      place->report_progress_to(transport_.progress(rank));
    });
  }

  /// f(rank) on every rank's thread; gives the result of rank 0. No allocation by tandem.
  /// @throws RankError  the first error of a rank; the group is unusable afterwards
  template <class F>
  StepResult run(F const& f) {
    expects(!failed_,
            "a rank of this trainer has failed, so its replicas may differ: make a new Trainer and "
            "load a checkpoint");
    StepResult result;
    failed_ = true;
    try {
      threads_.run([&](int rank) {
        StepResult const own = f(*ranks_[static_cast<std::size_t>(rank)]);
        if (rank == 0) {
          result = own;
        }
      });
    } catch (...) {
      settle();
      throw;
    }
    failed_ = false;
    return result;
  }

  [[nodiscard]] RankType& rank(int r) const { return *ranks_[static_cast<std::size_t>(r)]; }

 private:
  // No task may still read a rank's memory when the first rank goes.
  void settle() noexcept {
    for (auto const& rank : ranks_) {
      if (rank) {
        rank->device().queue.discard();
      }
    }
  }

  static std::string describe(int /*rank*/, std::uint64_t action) {
    return to_string(unpack_action(action));
  }

  TransportType transport_;
  std::vector<std::unique_ptr<RankType>> ranks_;
  bool failed_ = false;
  RankThreads threads_;  // last: joined before anything that it uses goes
};

}  // namespace tandem
