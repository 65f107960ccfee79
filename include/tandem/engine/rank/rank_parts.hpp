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
#include <tandem/core/shape.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/op_list.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/ops/metrics.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// For microbatches of one largest size. @tparam Target  of the loss
template <class Backend, class Target>
class Criterion {
 public:
  using T = typename Backend::Scalar;
  using PassType = Pass<typename Backend::Device>;

  Criterion() = default;
  Criterion(Criterion const&) = delete;
  Criterion& operator=(Criterion const&) = delete;
  virtual ~Criterion() = default;

  [[nodiscard]] virtual std::int64_t scratch_bytes() = 0;
  /// Writes a microbatch's sums: the loss, and behind it each metric.
  virtual void sum(PassType const& pass, T const* output, Target const* targets, double* sums) = 0;
  /// The gradient of the output.
  /// @param scale  what the gradient of a sample's loss is multiplied by
  virtual void gradient(PassType const& pass, T const* output, Target const* targets, double scale,
                        T* gradient) = 0;
};

/// What samples [first, first + size) count for in a mean, of @p targets with @p time rows each.
template <class Target>
using TargetWeight = double (*)(Target const* targets, int time, int first, int size);

/// How a trainer's criterion is made, and what is known without it.
template <class Backend, class Target>
struct CriterionType {
  std::unique_ptr<Criterion<Backend, Target>> (*make)(Shape output, int largest_microbatch);
  Shape targets;  ///< of a sample
  int metrics;    ///< sums of a microbatch besides its loss
  /// What the loss is a mean over, where that is not the samples, and what metrics are means over,
  /// where that is something else again; or null.
  TargetWeight<Target> weight;
  TargetWeight<Target> counted;
};

namespace detail {

template <class Loss, class Metric, class Backend>
class OwnCriterion final : public Criterion<Backend, typename Loss::Target> {
  using Base = Criterion<Backend, typename Loss::Target>;

 public:
  using typename Base::PassType;
  using typename Base::T;
  using Target = typename Loss::Target;

  TANDEM_COLD OwnCriterion(Shape output, int largest_microbatch)
      : loss_{output, largest_microbatch},
        metric_{output},
        largest_microbatch_{largest_microbatch} {}
  TANDEM_COLD ~OwnCriterion() override = default;

  [[nodiscard]] std::int64_t scratch_bytes() override {
    std::int64_t most = loss_.scratch_bytes();
    if constexpr (requires { metric_.scratch_bytes(largest_microbatch_); }) {
      most = std::max<std::int64_t>(most, metric_.scratch_bytes(largest_microbatch_));
    }
    return most;
  }
  void sum(PassType const& pass, T const* output, Target const* targets, double* sums) override {
    loss_.forward(pass, output, targets, sums);
    metric_.count(pass, output, targets, sums + 1);
  }
  void gradient(PassType const& pass, T const* output, Target const* targets, double scale,
                T* gradient) override {
    loss_.gradient(pass, output, targets, scale, gradient);
  }

 private:
  LossOp<Loss, Backend> loss_;
  MetricOpsOf<Metric, Loss, Backend> metric_;
  int largest_microbatch_;
};

template <class Loss, class Target = typename Loss::Target>
constexpr TargetWeight<Target> weight_of() {
  if constexpr (requires(Target const* targets) { Loss::weight({targets, 0}, 0, 0); }) {
    return [](Target const* targets, int time, int first, int size) {
      return Loss::weight({targets, time}, first, size);
    };
  } else {
    return nullptr;
  }
}
template <class Loss, class Target = typename Loss::Target>
constexpr TargetWeight<Target> counted_of() {
  if constexpr (requires(Target const* targets) { Loss::counted({targets, 0}, 0, 0); }) {
    return [](Target const* targets, int time, int first, int size) {
      return Loss::counted({targets, time}, first, size);
    };
  } else {
    return nullptr;
  }
}

template <class Loss, class Metric, class Backend>
TANDEM_COLD std::unique_ptr<Criterion<Backend, typename Loss::Target>> make_criterion(
    Shape output, int largest_microbatch) {
  return std::make_unique<OwnCriterion<Loss, Metric, Backend>>(output, largest_microbatch);
}

}  // namespace detail

/// @param output  of the network
template <class Loss, class Metric, class Backend>
constexpr CriterionType<Backend, typename Loss::Target> criterion_type(Shape output) {
  return {.make = detail::make_criterion<Loss, Metric, Backend>,
          .targets = targets_shape<Loss>(output),
          .metrics = metric_sums<Metric>,
          .weight = detail::weight_of<Loss>(),
          .counted = detail::counted_of<Loss>()};
}

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
template <class Backend, class Target>
struct RankOps : protected RankDevice<Backend> {
  TANDEM_COLD RankOps(RankProgram<Backend, Target> const& own, RankOptions const& options,
                      RankPlan plan)
      : RankDevice<Backend>{own.tables, options, std::move(plan)},
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
    : public detail::RankOps<BackendType, TargetType>,
      public RankCore<BackendType, Communicator, Way> {
  using Core = RankCore<BackendType, Communicator, Way>;
  using Target = TargetType;
  using Backend = BackendType;
  using Ops = detail::RankOps<Backend, Target>;
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
