// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MpiTransport: ranks are threads of one process or of many, which MPI connects.

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/comm/mpi/communicator.hpp>
#include <tandem/comm/mpi/group.hpp>
#include <tandem/comm/mpi/layout.hpp>
#include <tandem/comm/mpi/session.hpp>
#include <tandem/comm/mpi/wire.hpp>
#include <tandem/comm/one_rank_transport.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/threads/group.hpp>
#include <tandem/comm/threads/options.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// Members as in ThreadsTransport, comm/threads/transport.hpp. Of one process it is that, and makes
/// no MPI call; of several, at most 256 ranks a process and any number in all. options.world comes
/// from mpi_world().
template <int Ranks>
class MpiTransport {
 public:
  using Communicator = MpiCommunicator;

  /// Returns when all processes have made theirs.
  /// @throws ContractError  the ranks cannot be dealt to the processes, the time-out is not
  ///                        positive, a group names a rank twice or one that there is not, or MPI
  ///                        was not started
  /// @throws TimeoutError   another process did not come
  TANDEM_COLD explicit MpiTransport(TransportOptions const& options)
      : first_{tandem::first_rank(options.world, ranks_of<Ranks>(options))},
        each_{tandem::local_ranks(options.world, ranks_of<Ranks>(options))},
        sets_{options.groups},
        here_{each_, threads(options, first_)},
        exceptions_{std::uncaught_exceptions()} {
    int const ranks = ranks_of<Ranks>(options);
    detail::check_groups(sets_, ranks);
    RankSet all;
    for (int rank = 0; rank < ranks; ++rank) {
      all.ranks.push_back(rank);
    }
    long long tags = detail::MpiWire::own_tags;
    auto const layout = [&](RankSet const& set) {
      return detail::MpiLayout{set, each_, options.world.process};
    };
    std::vector<long long> first_tags;
    for (int g = -1; g < static_cast<int>(sets_.size()); ++g) {
      first_tags.push_back(tags);
      tags += detail::MpiGroup::tags_of(layout(set_of(all, g)));
    }
    int tag = 0;
    if (options.world.processes > 1) {
      check_started(options.world);
      tag = session().take_tags(tags);
      wire_ = std::make_unique<detail::MpiWire>(options, each_, tag,
                                                detail::MpiGroup::failure_of(here_));
      wire_->guard([this, words = options.describe_progress](int rank) {
        return words != nullptr ? words(rank, here_.progress(rank - first_).load()) : std::string{};
      });
      wire_->meet({ranks, options.world.processes, tags});
    }
    for (int g = -1; g < static_cast<int>(sets_.size()); ++g) {
      RankSet const& set = set_of(all, g);
      groups_.push_back(layout(set).own() < 0
                            ? nullptr
                            : std::make_unique<detail::MpiGroup>(
                                  here_, set, each_, wire_.get(), options.world.process,
                                  tag + static_cast<int>(first_tags[std::size_t(g + 1)])));
    }
  }
  MpiTransport(MpiTransport const&) = delete;
  MpiTransport& operator=(MpiTransport const&) = delete;
  /// If an exception of the program ends it, the other processes are told.
  TANDEM_COLD ~MpiTransport() {
    if (wire_) {
      wire_->lifeline().enter();  // what has failed may not return from here, either
      if (std::uncaught_exceptions() > exceptions_) {
        session().fail();
      }
    }
  }

  /// An exception that all processes throw is about to end it: none is told.
  TANDEM_COLD void leave_in_order() noexcept {
    exceptions_ = std::numeric_limits<int>::max();
    if (wire_) {
      wire_->lifeline().leave_in_order();
    }
  }

  /// The ranks here begin a step, counted from 1, or any work of all processes; they are at work
  /// from enter() to leave().
  void at_step(std::int64_t step) noexcept {
    if (wire_) {
      wire_->lifeline().at_step(step);
    }
  }
  void begin_work() noexcept {
    if (wire_) {
      wire_->lifeline().begin_work();
    }
  }
  void enter() noexcept {
    if (wire_) {
      wire_->lifeline().enter();
    }
  }
  void leave() noexcept {
    if (wire_) {
      wire_->lifeline().leave();
    }
  }

  [[nodiscard]] int first_rank() const noexcept { return first_; }
  [[nodiscard]] int local_ranks() const noexcept { return each_; }
  [[nodiscard]] int device_of(int local) const noexcept { return local; }

  /// @throws ContractError  @p rank does not live in this process
  [[nodiscard]] Communicator communicator(int rank) { return end(rank, -1, rank); }
  /// @throws ContractError  there is no such group, the rank is no member of it, or does not live
  ///                        in this process
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return end(rank, group, detail::member_of(sets_, rank, group));
  }
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) {
    return &here_.progress(rank - first_);
  }
  TANDEM_COLD void abort(int rank, std::string_view reason) {
    if (wire_) {
      wire_->fail(rank, reason);
    } else {
      here_.abort(rank - first_, reason);
    }
  }
  void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) {
    if (wire_) {
      wire_->poll();
    } else {
      here_.poll();
    }
  }

 private:
  static detail::MpiSession& session() { return detail::MpiSession::of_this_process(); }

  static ThreadsOptions threads(TransportOptions const& options, int first) {
    expects(options.timeout.count() > 0, "the timeout must be positive");
    return {.timeout = options.timeout,
            .describe_progress = options.describe_progress,
            .name = options.name,
            .first_rank = first};
  }

  TANDEM_COLD static void check_started(World const& world) {
    expects(session().started(),
            "MpiTransport: MPI has not been started: give TrainerOptions{.world = mpi_world()}");
    expects(!session().failed(),
            "MpiTransport: a rank of this job has failed, and what MPI connects cannot be mended: "
            "start the program again, which goes on from its last checkpoint");
    expects(world.process == session().process() &&
                world.processes <= static_cast<int>(session().machines().size()),
            "MpiTransport: World has other processes than MPI; take that of mpi_world()");
  }

  RankSet const& set_of(RankSet const& all, int group) const {
    return group < 0 ? all : sets_[static_cast<std::size_t>(group)];
  }

  Communicator end(int rank, int group, int position) {
    expects(rank >= first_ && rank < first_ + each_,
            "communicator: the rank lives in another process; ask for one from first_rank() on");
    return {*groups_[static_cast<std::size_t>(group + 1)], position};
  }

  int first_;
  int each_;
  std::vector<RankSet> sets_;
  ThreadsGroup here_;
  int exceptions_;
  std::unique_ptr<detail::MpiWire> wire_;  // null: one process
  std::vector<std::unique_ptr<detail::MpiGroup>> groups_;
};

/// A strategy of one device makes no MPI call.
template <>
class MpiTransport<1> : public OneRankTransport<host::Queue> {
 public:
  using OneRankTransport::OneRankTransport;
};

}  // namespace tandem
