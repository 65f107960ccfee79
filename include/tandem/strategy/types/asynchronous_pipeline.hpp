// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline with a schedule that is never emptied between steps: PipeDream and its kin.

#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/verify/updates.hpp>
#include <tandem/strategy/types/pipeline.hpp>

namespace tandem {

namespace detail {

template <AsynchronousSchedule Schedule, int Microbatches, class How>
struct AsynchronousModel {
  using ScheduleType = Schedule;
  using HowType = How;
  static constexpr int devices = How::parts;
  static constexpr int copies = 1;
  static constexpr Asynchrony asynchrony = Schedule::asynchrony(devices, Microbatches);

  template <class Net>
  struct Cut {
    static constexpr int steps = unrolled_steps(asynchrony);
    static constexpr auto partition = How::template partition<Net>();
    static constexpr auto map = chain_map<devices>();
    static constexpr auto table =
        lower(asynchronous_table<Schedule, devices, Microbatches, steps>(), map);
    static constexpr Verdict verdict = verify(table, map, steps* Microbatches, asynchrony);
    static_assert(ArgumentIs<Argument::runs, static_cast<bool>(verdict)>::value);
  };
};

}  // namespace detail

/// The model is cut as in ModelParallel, and each device goes on with the next steps before the
/// gradients of the last ones are there: PipeDream, PipeDreamVerticalSync, DelayedGradient,
/// WeightPrediction, FeaturesReplay, PipelinedModel with Count 1, PipeDream2BW with Count >=
/// devices. No device waits once the pipeline is filled; gradients are late instead, each schedule
/// says how.
///
/// How: Split<a>, Split<b>, … or Auto<Parts>. Options behind it: Checkpoint (not where the schedule
/// computes passes again itself, or predicts), BucketBytes.
template <class Schedule, int Count, class... Arguments>
  requires detail::AsynchronousArguments<Schedule, Count, Arguments...>
struct Pipeline<Schedule, Count, Arguments...>
    : detail::AsynchronousModel<Schedule, Count, typename detail::Cutting<Arguments...>::type> {
  using Model =
      detail::AsynchronousModel<Schedule, Count, typename detail::Cutting<Arguments...>::type>;
  static constexpr Mesh mesh{Axis::model, Model::devices};
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = Model::asynchrony.weights == WeightRule::replayed
                                                   ? CheckpointRule{CheckpointRule::boundaries}
                                                   : detail::checkpoint_of<Arguments...>();
  static constexpr Batching batching = detail::gather_batching<1, Arguments...>(Count);
};

}  // namespace tandem
