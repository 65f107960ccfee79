// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ChosenWorkers: the WorkerGroup of ranks whose strategy is chosen at start.

#include <memory>
#include <utility>
#include <vector>

#include <tandem/comm/transport.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/engine/rank/chosen_program.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/ranks/group_transport.hpp>
#include <tandem/train/ranks/program_facts.hpp>
#include <tandem/train/ranks/worker_group.hpp>

namespace tandem {

/// A ChosenProgram and its facts. Not copied: the facts refer to it.
template <class Net, class Backend, class LossType, class MetricType>
struct ChosenFacts {
  TANDEM_COLD explicit ChosenFacts(StrategyValue value) : program{std::move(value)} {
    RuntimeProgram const& made = program.tables();
    for (int d = 0; d < made.devices(); ++d) {
      devices.push_back(&made.device(d));
    }
    facts.devices = devices;
    facts.groups = made.groups();
    facts.result = made.cut().part.back();
    facts.asynchrony = made.value().asynchrony();
    facts.all_microbatches = made.value().all_microbatches;
    facts.splits_backward = detail::splits_backward(made.cut().table);
    if (made.value().any_replicas) {
      facts.replicas_there = detail::replicas_there;
      facts.share_table = detail::share_table;
    }
    if (made.devices() > 1) {
      facts.import_rows = detail::import_rows;
    }
    facts.check_strategy = check_strategy;
  }
  ChosenFacts(ChosenFacts const&) = delete;
  ChosenFacts& operator=(ChosenFacts const&) = delete;

  ChosenProgram<Net, Backend, LossType, MetricType> program;
  std::vector<DeviceTables const*> devices;
  ProgramFacts facts;
};

namespace detail {

/// Made before a group that refers to them.
template <class Facts>
struct HoldsFacts {
  std::unique_ptr<Facts> held;
};

}  // namespace detail

/// @tparam Batch      StepBatch
/// @tparam Transport  Transport<by_world>, of one process
template <class Facts, class Batch, class Transport, class LossType>
class ChosenWorkers : private detail::HoldsFacts<Facts>, public WorkerGroup<Batch> {
 public:
  using Group = WorkerGroup<Batch>;
  using Communicator = typename Transport::Communicator;
  using typename Group::RankType;

  TANDEM_COLD ChosenWorkers(std::unique_ptr<Facts> made, RankOptions const& options,
                            StallLimit const& limit, World const& world)
      : detail::HoldsFacts<Facts>{std::move(made)},
        Group{{.facts = this->held->facts,
               .limit = limit,
               .targets = targets_shape<LossType>(network().node[network().result].out),
               .steps_in_flight = this->held->facts.steps_in_flight(1),
               .passes_on = false,
               .captured_beside = true},
              options,
              world,
              GroupTransportOf<Transport>::make,
              {.call = make_rank, .program = this->held.get()},
              nullptr} {}

  [[nodiscard]] StrategyValue const& strategy() const {
    return this->held->program.tables().value();
  }

 private:
  [[nodiscard]] GraphView const& network() const { return this->held->facts.tables().network; }

  TANDEM_COLD static std::unique_ptr<RankType> make_rank(void const* program,
                                                         GroupTransport& transport,
                                                         Mesh const& mesh,
                                                         RankOptions const& options) {
    auto const& made = *static_cast<Facts const*>(program);
    auto& own = static_cast<GroupTransportOf<Transport>&>(transport).own;
    RankEnds<Communicator> const ends{[&](int group) {
                                        return group == RankGroups::all
                                                   ? own.communicator(options.rank)
                                                   : own.communicator(options.rank, group);
                                      },
                                      RankGroups{made.facts.groups, mesh}, options.rank, nullptr};
    return make_chosen_rank<Batch>(made.program, mesh.coordinate(options.rank, Axis::model),
                                   options, ends);
  }
};

}  // namespace tandem
