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
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/asynchronous_rank.hpp>
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
  using Core = RankCore<Backend, Communicator, rank_way<Device, Backend, Communicator>()>;
  using Batch = StepBatchOf<Device, Backend, Loss>;
  using type = std::conditional_t<Device::Program::asynchrony.on(), AsynchronousRank<Core, Batch>,
                                  Rank<Core, Batch>>;
  static_assert(Device::places.count() == 1 || !Core::Memory::mixed,
                "there is one copy of rounded parameters");
  static_assert(!Device::Program::post_validated || !Core::Memory::mixed,
                "rounded parameters would have to be taken back with the others");
};

}  // namespace detail

/// The rank that is this device of its replica.
/// @tparam Device  a DeviceProgram
template <class Device, class Backend, class Loss, class Communicator>
using RankOf = typename detail::RankTypes<Device, Backend, Loss, Communicator>::type;

template <class Device, class Backend, class Loss, class Metric, class Communicator>
TANDEM_COLD std::unique_ptr<RankOf<Device, Backend, Loss, Communicator>> make_rank(
    RankOptions const& options, RankEnds<Communicator> const& ends) {
  using Program = typename Device::Program;
  RankPlan plan;
  if constexpr (Program::asynchrony.on()) {
    plan = make_asynchronous_plan<Device>(options.microbatches);
  } else {
    plan = make_rank_plan<Device>(options.rows, options.microbatches, options.replicas);
  }
  auto rank = std::make_unique<RankOf<Device, Backend, Loss, Communicator>>(
      rank_program<Device, Backend, Loss, Metric>, std::move(plan), options, ends);
  if constexpr (!Program::asynchrony.on() && requires {
                  check_queues(std::type_identity<Program>{}, options.rows, 1, rank->device());
                }) {
    check_queues(std::type_identity<Program>{}, options.rows, rank->plan().batching.replicas,
                 rank->device());
  }
  return rank;
}

}  // namespace tandem
