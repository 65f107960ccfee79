// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankParts: what a rank is composed of, with the ops of its device's nodes: PreparedOps.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/rank/op_list.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/ops/metrics.hpp>

namespace tandem {

/// The ops of all nodes, of the loss and of the metric, for microbatches of one largest size.
template <class Program, class Backend, class LossType, class MetricType>
class PreparedOps {
 public:
  static constexpr Shape output = Program::Program::network.output().out;

  /// @param slice  of layers that several ranks share, the rank's
  PreparedOps(int largest_microbatch, int threads, Slice slice, typename Backend::Device& device)
      : loss{output, largest_microbatch},
        metric{output},
        nodes_{make_ops(device_tables<Program>, op_types<Program, Backend>, largest_microbatch,
                        threads, slice, device)},
        needs_{op_needs(nodes_)},
        largest_microbatch_{largest_microbatch} {}

  [[nodiscard]] OpList<Backend> const& nodes() const { return nodes_; }

  /// What the op of each node asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return needs_; }

  /// What the greediest pass wants.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    std::int64_t most = Program::has_result ? loss.scratch_bytes() : 0;
    if constexpr (requires { metric.scratch_bytes(largest_microbatch_); }) {
      most = std::max(most, metric.scratch_bytes(largest_microbatch_));
    }
    return std::max(most, most_scratch(needs_));
  }

  LossOp<LossType, Backend> loss;
  MetricOpsOf<MetricType, LossType, Backend> metric;

 private:
  OpList<Backend> nodes_;
  std::vector<OpNeeds> needs_;
  int largest_microbatch_;
};

namespace detail {

/// The device and behind it its ops, before the memory that they ask for.
template <class Ops, class Backend, RankWay Way>
struct RankOps : protected RankDevice<Backend, Way> {
  TANDEM_COLD RankOps(DeviceTables const& tables, RankOptions const& options, RankPlan plan)
      : RankDevice<Backend, Way>{tables, options, std::move(plan)},
        ops{options.largest_microbatch, options.device.threads, slice_of(tables, options),
            this->device_of_rank} {}

  Ops ops;

 private:
  // Known before there are communicators.
  [[nodiscard]] Slice slice_of(DeviceTables const& tables, RankOptions const& options) const {
    Mesh const mesh = tables.mesh_of(this->plan_of_rank.batching.replicas);
    return {mesh.coordinate(options.rank, Axis::tensor), tables.slices};
  }
};

}  // namespace detail

/// @tparam ProgramType  a DeviceProgram
template <class ProgramType, class Backend, class LossType, class MetricType, class Communicator,
          RankWay Way = rank_way<ProgramType, Backend, Communicator>()>
struct RankParts final
    : public detail::RankOps<PreparedOps<ProgramType, Backend, LossType, MetricType>, Backend, Way>,
      public RankCore<Backend, Communicator, Way> {
  using Program = ProgramType;
  using Loss = LossType;
  using Whole = typename Program::Program;
  using WithOps =
      detail::RankOps<PreparedOps<ProgramType, Backend, LossType, MetricType>, Backend, Way>;
  using Core = RankCore<Backend, Communicator, Way>;
  using typename Core::Branching;
  using typename Core::Pairs;
  static_assert(Program::places.count() == 1 || !Core::Memory::mixed,
                "there is one copy of rounded parameters");
  static_assert(!Whole::post_validated || !Core::Memory::mixed,
                "rounded parameters would have to be taken back with the others");

  /// @param rank_plan  what it does in a step
  TANDEM_COLD RankParts(RankOptions const& options, RankPlan rank_plan,
                        RankEnds<Communicator> const& ends)
      : WithOps{device_tables<Program>, options, std::move(rank_plan)},
        Core{*this,
             device_tables<Program>,
             options,
             {this->ops.nodes(), this->ops.needs(), this->ops.scratch_bytes(),
              staged_bytes(this->ops.needs()), metric_sums<MetricType>},
             ends} {}

  /// Of one step's data on this rank.
  [[nodiscard]] FeedSizes feed_sizes(RankOptions const& options) const {
    return {.samples = this->samples_of(options),
            .targets = targets_shape<LossType>(Whole::network.output().out)};
  }
};

}  // namespace tandem
