// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline: one model cut over several devices that work on different microbatches at a time.

#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/verify/verify.hpp>
#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/types/model_options.hpp>
#include <tandem/strategy/types/pipeline_checks.hpp>

namespace tandem {

namespace detail {

template <PipelineSchedule Schedule, int Microbatches, class How, int Chunks = 1>
struct PipelineModel {
  using ScheduleType = Schedule;
  using HowType = How;
  static constexpr int devices = How::parts / Schedule::chunks;
  static constexpr int copies = Schedule::copies;
  static constexpr bool post_validated = is_post_validated<Schedule>;

  template <class Net>
  struct Cut {
    static constexpr auto partition = How::template partition<Net>();
    static constexpr auto map = schedule_map<Schedule, devices>();
    static constexpr auto table =
        lower(chunked<Chunks>(schedule_table<Schedule, devices, Microbatches>()), map);
    static constexpr Verdict verdict = verify(table, map, Microbatches, 1, Chunks);
    static constexpr bool runs = static_cast<bool>(verdict);
    static_assert(ArgumentIs<Argument::runs, (runs || (Chunks > 1))>::value);
    static_assert(ArgumentIs<Argument::runs_in_chunks, (runs || Chunks == 1)>::value);
  };
};

// On one device there is nothing to wait for: one stage, one live microbatch.
template <PipelineSchedule Schedule, int Microbatches, class How, int Chunks>
  requires(How::parts == Schedule::chunks && Schedule::copies == 1)
struct PipelineModel<Schedule, Microbatches, How, Chunks> : OneDeviceModel<Microbatches> {
  template <class Net>
  struct Cut : OneDeviceModel<Microbatches>::template Cut<Net> {
    static_assert(How::template partition<Net>().parts == How::parts);
  };
};

}  // namespace detail

/// The model is cut as in ModelParallel, and the devices work on Count microbatches in the order of
/// the schedule: GPipe, OneFOneB, Interleaved<v> (v parts a device), ZeroBubbleH1, ZeroBubbleH2,
/// ZeroBubbleV, VHalf, VMin, DualPipeV (two parts a device: 2 p in all), Chimera, DualPipe; all of
/// one copy of the model also as PostValidated<Schedule>, without a barrier between steps.
///
///   device 0 | F0 F1 F2 B0 F3 B1 B2 B3     Pipeline<OneFOneB, 4, Split<a>, Split<b>, Split<c>>
///   device 1 |    F0 F1 B0 F2 B1 F3 B2 B3
///
/// How: Split<a>, Split<b>, … or Auto<Parts>. Options after it: Reproducible, Checkpoint,
/// BucketBytes; before it: Chunks<K>. Losses and parameters are those of one device with
/// Microbatches<Count>. docs/pipelines.md has idle times and memory. The primary template is the
/// error path.
template <class Schedule, int Count, class... Arguments>
struct Pipeline : detail::NoModel {
  static_assert(detail::PipelineArgumentsAreSound<Schedule, Count, Arguments...>::value);
  static_assert(detail::AsynchronousPipelineIsThere<Schedule, Count, Arguments...>::value);
  static_assert(
      detail::ScheduleTakes<
          Schedule, detail::parts_of<typename detail::Cutting<Arguments...>::type>, Count>::value);
};

template <class Schedule, int Count, class... Arguments>
  requires detail::PipelineArguments<Arguments...> &&
      (!detail::recomputes_split_backward<Schedule, Arguments...>)&&detail::FitsSchedule<
          Schedule, detail::parts_of<typename detail::Cutting<Arguments...>::type>,
          Count> struct Pipeline<Schedule, Count, Arguments...>
      : detail::PipelineModel<Schedule, Count, typename detail::Cutting<Arguments...>::type> {
    using Model =
        detail::PipelineModel<Schedule, Count, typename detail::Cutting<Arguments...>::type>;
    static constexpr Mesh mesh{Axis::model, Model::devices};
    static constexpr int ranks = mesh.size();
    static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Arguments...>();
    /// In so many replicas, with options of the strategy around it.
    template <int Replicas, class... More>
    static constexpr Batching batching_for =
        detail::gather_batching<Replicas, Arguments..., More...>(Count);
    static constexpr Batching batching =
        detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves, Count,
                                 Model::copies>::checked(batching_for<1>);
  };

  /// The same for a network of sequences, whose rows come in K chunks of time:
  ///
  ///   device 0 | F0 F1 F2       B0 B1 B2     Pipeline<OneFOneB, 1, Chunks<3>, Split<a>, Split<b>>
  ///   device 1 |    F0 F1 F2 B0 B1 B2
  ///
  /// What its layers know of earlier rows is handed from chunk to chunk, its gradient back from the
  /// last chunk to the first, which B0 … of the picture count from 0. Of recurrent layers a device
  /// may have, and still all devices work at once. See chunked().
  /// Schedules: all synchronous ones, and tables of one's own that verify() takes in chunks.
  /// Memory: activations as without, in K times as many parts of 1/K the size.
  /// Cost:   a layer's products are of 1/K of the rows.
  /// The sums over rows are made chunk by chunk: the same numbers but for rounding. On one device
  /// there are no chunks. This partial specialisation is the error path.
  template <class Schedule, int Count, int K, class... Arguments>
  struct Pipeline<Schedule, Count, Chunks<K>, Arguments...>
      : Pipeline<Schedule, Count, Arguments...> {
    static_assert(detail::ChunksAreTaken<Schedule, Arguments...>::value);
  };

  template <class Schedule, int Count, int K, class... Arguments>
    requires detail::PipelineArguments<Arguments...> &&
        detail::TakesTimeChunks<Schedule, Arguments...> &&
        detail::FitsSchedule<Schedule,
                             detail::parts_of<typename detail::Cutting<Arguments...>::type>, Count>
  struct Pipeline<Schedule, Count, Chunks<K>, Arguments...>
      : detail::PipelineModel<Schedule, Count, typename detail::Cutting<Arguments...>::type,
                              Chunks<K>::time_chunks> {
    using Model =
        detail::PipelineModel<Schedule, Count, typename detail::Cutting<Arguments...>::type,
                              Chunks<K>::time_chunks>;
    static constexpr Mesh mesh{Axis::model, Model::devices};
    static constexpr int ranks = mesh.size();
    static constexpr CheckpointRule checkpoint{};
    /// In so many replicas, with options of the strategy around it.
    template <int Replicas, class... More>
    static constexpr Batching batching_for =
        detail::cut_time(detail::gather_batching<Replicas, Arguments..., More...>(Count),
                         Model::devices > 1 ? Chunks<K>::time_chunks : 1);
    static constexpr Batching batching = batching_for<1>;
  };

}  // namespace tandem
