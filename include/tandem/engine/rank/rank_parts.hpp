// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankProgram: what a rank is made of; RankParts: all that it allocates, in the order in which
/// one part asks for the next.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/criterion.hpp>
#include <tandem/engine/rank/op_list.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Network, strategy, loss and metric as values.
template <class Backend, class Target>
struct RankProgram {
  DeviceTables const& tables;
  OpTypes<Backend> const& ops;
  CriterionType<Backend, Target> criterion;
};

/// @tparam Device  a DeviceProgram
template <class Device, class Backend, class Loss, class Metric>
inline constexpr RankProgram<Backend, typename Loss::Target> rank_program{
    device_tables<Device>, op_types<Device, Backend>,
    criterion_type<Loss, Metric, Backend>(Device::Program::network.output().out)};

namespace detail {

/// The device and behind it its ops, before the memory that they ask for.
template <class Backend, class Target, RankWay Way>
struct RankOps : protected RankDevice<Backend, Way> {
  TANDEM_COLD RankOps(RankProgram<Backend, Target> const& own, RankOptions const& options,
                      RankPlan plan)
      : RankDevice<Backend, Way>{own.tables, options, std::move(plan)},
        program{own},
        ops{make_ops(own.tables, own.ops, options.largest_microbatch, options.device.threads,
                     slice_of(options), this->device_of_rank)},
        needs_of_ops{op_needs(ops)},
        criterion{own.criterion.make(own.tables.network.node[own.tables.network.result].out,
                                     options.largest_microbatch)} {}

  RankOps(RankOps const&) = delete;
  RankOps& operator=(RankOps const&) = delete;
  TANDEM_COLD ~RankOps() {}  // defaulted, each unit would compile it

  /// What the greediest pass wants.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return std::max(program.tables.has_result ? criterion->scratch_bytes() : 0,
                    most_scratch(needs_of_ops));
  }

  RankProgram<Backend, Target> const& program;
  OpList<Backend> ops;
  std::vector<OpNeeds> needs_of_ops;
  std::unique_ptr<Criterion<Backend, Target>> criterion;

 private:
  // Known before there are communicators.
  [[nodiscard]] Slice slice_of(RankOptions const& options) const {
    Mesh const mesh = program.tables.mesh_of(this->plan_of_rank.batching.replicas);
    return {mesh.coordinate(options.rank, Axis::tensor), program.tables.slices};
  }
};

}  // namespace detail

/// @tparam Core  RankCore
template <class Core, class Target>
struct RankParts;

// Bases whose types are template parameters nvcc hands to the host's compiler in another order.
template <class BackendType, class Communicator, RankWay Way, class TargetType>
struct RankParts<RankCore<BackendType, Communicator, Way>, TargetType> final
    : public detail::RankOps<BackendType, TargetType, Way>,
      public RankCore<BackendType, Communicator, Way> {
  using Core = RankCore<BackendType, Communicator, Way>;
  using Target = TargetType;
  using Backend = BackendType;
  using Ops = detail::RankOps<Backend, Target, Way>;
  using typename Core::Branching;
  using typename Core::Pairs;

  /// @param own        outlives this
  /// @param rank_plan  what it does in a step
  TANDEM_COLD RankParts(RankProgram<Backend, Target> const& own, RankOptions const& options,
                        RankPlan rank_plan, RankEnds<Communicator> const& ends)
      : Ops{own, options, std::move(rank_plan)},
        Core{*this,
             own.tables,
             options,
             {this->ops, this->needs_of_ops, this->scratch_bytes(),
              staged_bytes(this->needs_of_ops), own.criterion.metrics},
             ends} {}
};

}  // namespace tandem
