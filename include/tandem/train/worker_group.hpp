// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerGroup: the ranks of one process, a thread each, that run steps in lockstep.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
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
  using Communicator = typename TransportType::Communicator;
  using RankType = RankInterface<typename Backend::Master, typename LossType::Target>;
  /// The rank that is device @p D of its replica.
  template <int D>
  using RankOf =
      Rank<typename Program::template Device<D>, Backend, LossType, MetricType, Communicator>;

  /// Steps that may be queued before the result of the first is collected.
  static constexpr int steps_in_flight = RankOf<0>::FeedType::steps_in_flight;

  /// @param options    of every rank but for the field `rank`, and of its device the ordinal
  /// @param transport  but for describe_progress
  WorkerGroup(RankOptions const& options, TransportOptions transport)
      : timeout_{transport.timeout},
        batching_{batching_with<Program>(options.microbatches)},
        transport_{described(std::move(transport))},
        ranks_(static_cast<std::size_t>(transport_.local_ranks())),
        threads_{transport_.local_ranks(), abort_on_error(transport_), transport_.first_rank()} {
    expects(
        transport_.local_ranks() % Program::devices == 0,
        "a process must have all devices of a replica, since it reads and writes the whole model: "
        "start fewer processes, so that the ranks of each are a multiple of the devices of the "
        "model");
    threads_.run([&](int local) {
      RankOptions own = options;
      own.rank = transport_.first_rank() + local;
      own.device.ordinal = transport_.device_of(local);
      if (own.device.threads == 0) {
        own.device.threads = host::threads_of_each(size());
      }
      auto& place = ranks_[static_cast<std::size_t>(local)];
      place = make_rank(own);
      for (int other = 0; other < size(); ++other) {
        place->share_with({.ordinal = transport_.device_of(other)});
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

  /// The rank that worked out the loss of a microbatch, counted over all replicas.
  [[nodiscard]] int rank_of_loss(int microbatch) const {
    int const replica = microbatch / batching_.microbatches;
    int const copy =
        microbatch % batching_.microbatches * Program::map.copies / batching_.microbatches;
    int const result = Program::partition.part[Program::network.nodes - 1];
    return replica * Program::devices + Program::map.device[copy * Program::map.parts() + result];
  }

  /// Of the table that the ranks run.
  [[nodiscard]] Batching const& batching() const { return batching_; }
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
        rank->settle();
      }
    }
  }

  // Its type depends on which device of its replica it is.
  std::unique_ptr<RankType> make_rank(RankOptions const& options) {
    auto const connect = [&](int group) {
      return group == RankGroups<Program>::all ? transport_.communicator(options.rank)
                                               : transport_.communicator(options.rank, group);
    };
    std::unique_ptr<RankType> made;
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (void)((options.rank % Program::devices == D &&
              (made = std::make_unique<RankOf<D>>(options, connect), true)) ||
             ...);
    }
    (std::make_integer_sequence<int, Program::devices>{});
    return made;
  }

  static TransportOptions described(TransportOptions options) {
    options.groups = RankGroups<Program>::list();
    options.describe_progress = [](int /*rank*/, std::uint64_t action) {
      return to_string(unpack_action(action));
    };
    return options;
  }
  static void look(void* transport, int rank, Watch::Duration waited) {
    static_cast<TransportType*>(transport)->poll(rank, waited);
  }

  std::chrono::milliseconds timeout_;
  Batching batching_;
  TransportType transport_;
  std::vector<std::unique_ptr<RankType>> ranks_;
  bool failed_ = false;
  RankThreads threads_;  // last: joined before anything that it uses goes
};

}  // namespace tandem
