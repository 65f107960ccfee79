// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkersOf: the WorkerGroup of a Program's ranks; only here its types and the group meet.

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/transport.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/engine/rank/make_rank.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/train/ranks/group_transport.hpp>
#include <tandem/train/ranks/program_facts.hpp>
#include <tandem/train/ranks/worker_group.hpp>

namespace tandem {

namespace detail {

template <bool PostValidates, bool OnHost>
struct PostValidatesOn {
  static constexpr bool value = true;
  static_assert(!PostValidates || OnHost,
                "PostValidated<Schedule>: only Host's devices go on into the next step before an "
                "update is known to be right; take Host, or leave PostValidated out");
};

}  // namespace detail

template <class Program, class Backend, class LossType, class MetricType,
          template <int> class Transport>
  requires RankTransport<Transport<Program::transport_ranks>>
class WorkersOf
    : public WorkerGroup<StepBatchOf<typename Program::template Device<0>, Backend, LossType>> {
 public:
  using TransportType = Transport<Program::transport_ranks>;
  using Communicator = typename TransportType::Communicator;
  using Group = WorkerGroup<StepBatchOf<typename Program::template Device<0>, Backend, LossType>>;
  using typename Group::RankType;
  using FeedType = Feed<Backend, typename Group::Batch>;
  /// The rank that is device @p D of its replica.
  template <int D>
  using RankOf =
      tandem::RankOf<typename Program::template Device<D>, Backend, LossType, Communicator>;

  static constexpr int steps_in_flight =
      program_facts<Program>.steps_in_flight(FeedType::steps_in_flight);
  static_assert(
      detail::PostValidatesOn<Program::post_validated, FeedType::steps_in_flight == 1>::value);

  /// @param options  of every rank but for the field `rank`, and of its device the ordinal
  /// @param limit    what to do about a rank that makes no progress for so long
  TANDEM_COLD WorkersOf(RankOptions const& options, StallLimit const& limit, World const& world)
      : Group{{.facts = program_facts<Program>,
               .limit = limit,
               .targets = targets_shape<LossType>(Program::network.output().out),
               .steps_in_flight = steps_in_flight,
               .passes_on = passes_on,
               .captured_beside = is_capturable_beside_others<Communicator>},
              options,
              world,
              GroupTransportOf<TransportType>::make,
              {.call = make_rank},
              meet()} {}

 private:
  static constexpr bool passes_on =
      !in_one_process<TransportType> && SendsAndReceives<Communicator, double>;

  static constexpr typename Group::Meet meet() {
    if constexpr (in_one_process<TransportType>) {
      return nullptr;
    } else {
      return &Group::agree;
    }
  }

  static constexpr typename RankEnds<Communicator>::PassOn pass_on() {
    if constexpr (passes_on) {
      return [](Communicator& own, std::span<double> data, int from, std::span<int const> to,
                typename Communicator::Stream& stream, Label label) {
        if (from >= 0) {
          own.receive(data, from, stream, label);
        }
        for (int const peer : to) {
          own.send(std::span<double const>{data}, peer, stream, label);
        }
      };
    } else {
      return nullptr;
    }
  }

  // Its type depends on which device of its replica it is.
  TANDEM_COLD static std::unique_ptr<RankType> make_rank(void const* /*program*/,
                                                         GroupTransport& transport,
                                                         Mesh const& mesh,
                                                         RankOptions const& options) {
    auto& own = static_cast<GroupTransportOf<TransportType>&>(transport).own;
    RankEnds<Communicator> const ends{
        [&](int group) {
          return group == RankGroups::all ? own.communicator(options.rank)
                                          : own.communicator(options.rank, group);
        },
        RankGroups{program_facts<Program>.groups, mesh}, options.rank, pass_on()};
    int const device = mesh.coordinate(options.rank, Axis::model);
    std::unique_ptr<RankType> made;
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (void)((device == D &&
              (made = tandem::make_rank<typename Program::template Device<D>, Backend, LossType,
                                        MetricType>(options, ends),
               true)) ||
             ...);
    }
    (std::make_integer_sequence<int, Program::devices>{});
    return made;
  }
};

}  // namespace tandem
