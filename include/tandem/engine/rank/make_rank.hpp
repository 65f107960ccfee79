// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_rank: from the types of a program, a backend, a loss and a metric to a rank, which knows
/// them as values.

#include <memory>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/runtime/concepts.hpp>

namespace tandem {

namespace detail {

template <class Device, class Backend, class Loss, class Communicator>
  requires ComputeBackend<Backend> && HasVerbs<Backend> &&
      Carries<Communicator, Backend, typename Device::Program>
struct RankTypes {
  using Batch = StepBatchOf<Device, Backend, Loss>;
  using Core = RankCore<Backend, Communicator, rank_way<Device, Backend, Communicator, Batch>()>;
  using type = Rank<Core, Batch>;
  static_assert(Device::places.count() == 1 || !RankMemory<Backend>::mixed,
                "there is one copy of rounded parameters");
  static_assert(!Device::Program::batching.reproducible || !Device::Program::sharded_state ||
                    sums_in_order<Communicator> ||
                    detail::scatters_in_order<Communicator, typename Backend::Master,
                                              typename Communicator::Stream>,
                "ShardedState with Reproducible<>: this communicator does not say that its "
                "reduce_scatter adds in an order fixed by rank; give it `static constexpr bool "
                "ordered = true` if it does, or leave one of the two out");
  static_assert(!Device::Program::stateful || KeepsStates<Backend>,
                "Stateful: the backend's Verbs have no zero, copy and each for states");
  static_assert(!Device::Program::post_validated || !RankMemory<Backend>::mixed,
                "rounded parameters would have to be taken back with the others");
};

}  // namespace detail

/// The rank that is this device of its replica.
/// @tparam Device  a DeviceProgram
template <class Device, class Backend, class Loss, class Communicator>
using RankOf = typename detail::RankTypes<Device, Backend, Loss, Communicator>::type;

/// Makes a Rank. Where it is compiled elsewhere, a unit does not look into it.
template <class RankType, class Batch, class Program, class Ends>
TANDEM_COLD std::unique_ptr<RankInterface<Batch>> construct_rank(Program const& program,
                                                                 RankPlan plan,
                                                                 RankOptions const& options,
                                                                 Ends const& ends) {
  return std::make_unique<RankType>(program, std::move(plan), options, ends);
}

template <class Device, class Backend, class Loss, class Metric, class Communicator>
TANDEM_COLD std::unique_ptr<RankInterface<StepBatchOf<Device, Backend, Loss>>> make_rank(
    RankOptions const& options, RankEnds<Communicator> const& ends) {
  using Program = typename Device::Program;
  if constexpr (Program::slices > 1 && Program::batching.reproducible) {
    detail::check_order<Communicator, typename Backend::Scalar>();
  }
  using Own = RankOf<Device, Backend, Loss, Communicator>;
  DeviceTables const& tables = device_tables<Device>;
  RankPlan plan;
  if constexpr (Program::asynchrony.on()) {
    plan = make_asynchronous_plan(tables, batching_with(tables, options.microbatches, 1));
  } else {
    plan = make_rank_plan(tables, options.rows != nullptr ? *options.rows : rows_of(Program::table),
                          batching_with(tables, options.microbatches, options.replicas));
  }
  int const replicas = plan.batching.replicas;
  auto rank = construct_rank<Own, StepBatchOf<Device, Backend, Loss>>(
      rank_program<Device, Backend, Loss, Metric>, std::move(plan), options, ends);
  if constexpr (!Program::asynchrony.on() && requires(typename Backend::Device & device) {
                  check_queues(std::type_identity<Program>{}, options.rows, replicas, device);
                }) {
    check_queues(std::type_identity<Program>{}, options.rows, replicas,
                 static_cast<Own&>(*rank).device());
  }
  return rank;
}

}  // namespace tandem
