// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments of Pipeline that do not go together.

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/strategy/types/model_checks.hpp>

namespace tandem {

namespace detail {

template <class... Arguments>
struct BeginsWithAChain {
  static constexpr bool value = false;
};
template <class First, class... Rest>
struct BeginsWithAChain<First, Rest...> {
  static constexpr bool value = IsSplit<First> || CutsTops<First>;
};

template <class Schedule, class... Arguments>
inline constexpr bool recomputes_split_backward = false;
template <PipelineSchedule Schedule, class... Arguments>
inline constexpr bool recomputes_split_backward<Schedule, Arguments...> =
    Schedule::splits_backward && (IsCheckpoint<Arguments> || ...);

template <class... Arguments>
concept PipelineArguments = BeginsWithAChain<Arguments...>::value &&
    RestIsOptions<Arguments...>::value && !counts_microbatches<Arguments...>;

/// @p Parts of the model on a schedule's devices.
template <class Schedule, int Parts, int Count>
concept FitsSchedule = PipelineSchedule<Schedule> && Count >= 1 && Parts % Schedule::chunks == 0 &&
                       Schedule::fits(Parts / Schedule::chunks, Count);

/// Whether microbatches of a schedule may come in chunks of time.
template <class Schedule, class... Arguments>
concept TakesTimeChunks = PipelineSchedule<Schedule> && !(IsCheckpoint<Arguments> || ...) &&
                          !gather_batching<1, Arguments...>().reproducible;

template <class Schedule, class... Arguments>
struct ChunksAreTaken {
  static constexpr bool value = true;
  static constexpr bool recomputes = (IsCheckpoint<Arguments> || ...);
  static constexpr bool repeats = gather_batching<1, Arguments...>().reproducible;
  static_assert(!AsynchronousSchedule<Schedule>,
                "Pipeline<asynchronous schedule, Count, Chunks<K>, ...>: a chunk would go on from "
                "states that other weights have made; leave Chunks out, or take a synchronous "
                "schedule, such as OneFOneB");
  static_assert(!recomputes,
                "Pipeline<Schedule, Count, Chunks<K>, ..., Checkpoint<...>>: what a chunk has "
                "begun with is gone when it is computed again; leave one of both out");
  static_assert(recomputes || !repeats,
                "Pipeline<Schedule, Count, Chunks<K>, ..., Reproducible<>>: gradients are added "
                "chunk by chunk, so that their bits depend on K; leave one of both out");
};

template <class How>
inline constexpr int parts_of = 0;
template <CutsTops How>
inline constexpr int parts_of<How> = How::parts;

/// What asynchronous schedules do not take: bits that no number of devices changes; activations
/// that are computed again by other weights than before.
template <class Schedule, class... Arguments>
inline constexpr bool repeats_late_gradients = false;
template <AsynchronousSchedule Schedule, class... Arguments>
inline constexpr bool repeats_late_gradients<Schedule, Arguments...> =
    gather_batching<1, Arguments...>().reproducible;

template <class Schedule, class... Arguments>
inline constexpr bool recomputes_by_other_weights = false;
template <AsynchronousSchedule Schedule, class... Arguments>
inline constexpr bool recomputes_by_other_weights<Schedule, Arguments...> =
    (IsCheckpoint<Arguments> || ...) &&
    (Schedule::asynchrony(1, 1).weights == WeightRule::replayed ||
     Schedule::asynchrony(1, 1).weights == WeightRule::predicted);

/// A table of all phases has so many versions that a byte can count them.
template <class Schedule, int Parts, int Count>
concept FitsAsynchronousSchedule = AsynchronousSchedule<Schedule> && Count >= 1 && Parts >= 1 &&
                                   Schedule::fits(Parts, Count) && Parts <= 127;

template <class Schedule, int Count, class... Arguments>
concept AsynchronousArguments =
    AsynchronousSchedule<Schedule> && PipelineArguments<Arguments...> &&
    FitsAsynchronousSchedule<Schedule, parts_of<typename Cutting<Arguments...>::type>, Count> &&
    !repeats_late_gradients<Schedule, Arguments...> &&
    !recomputes_by_other_weights<Schedule, Arguments...>;

template <class Schedule, int Count, class... Arguments>
struct PipelineArgumentsAreSound {
  static constexpr bool value = true;
  static constexpr bool begins = BeginsWithAChain<Arguments...>::value;
  static constexpr bool once = !counts_microbatches<Arguments...>;
  static constexpr bool options = !begins || !once || RestIsOptions<Arguments...>::value;
  static_assert(PipelineSchedule<Schedule> || AsynchronousSchedule<Schedule>,
                "Pipeline<Schedule, Count, ...>: Schedule is GPipe, OneFOneB, Interleaved<v>, "
                "ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, VHalf, VMin, DualPipeV, Chimera or "
                "DualPipe, or an asynchronous one such as PipeDream");
  static_assert(Count >= 1,
                "Pipeline<Schedule, Count, ...>: Count is the number of microbatches of a "
                "replica; give 1 or more");
  static_assert(begins,
                "Pipeline<Schedule, Count, How, Options...>: say how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts>, before which Chunks<K> may stand; Placed<table> is "
                "for ModelParallel");
  static_assert(once,
                "Pipeline<Schedule, Count, ...>: Count is the number of microbatches already; "
                "leave Microbatches out");
  static_assert(options,
                "Pipeline<Schedule, Count, How, Options...>: options behind Split<a>, Split<b>, "
                "... or Auto<Parts> are Reproducible, Checkpoint, BucketBytes and Slices");
  static_assert(
      !recomputes_split_backward<Schedule, Arguments...>,
      "Pipeline<Schedule with I and W, Count, ..., Checkpoint<...>>: its weight gradients need "
      "activations for longer than they are computed again; leave Checkpoint out, or "
      "take OneFOneB");
  static_assert(!repeats_late_gradients<Schedule, Arguments...>,
                "Pipeline<asynchronous schedule, ..., Reproducible<>>: its gradients are late by "
                "as many steps as there are devices, so other devices give other bits; leave "
                "Reproducible out");
  static_assert(!recomputes_by_other_weights<Schedule, Arguments...>,
                "Pipeline<Schedule, 1, ..., Checkpoint<...>>: FeaturesReplay and PipelinedModel "
                "compute passes again already, and WeightPrediction's weights are gone by then; "
                "leave Checkpoint out");
};

/// Where the primary template is taken for arguments that an asynchronous pipeline takes, that one
/// is not there.
template <class Schedule, int Count, class... Arguments>
struct AsynchronousPipelineIsThere {
  static constexpr bool value = true;
  static_assert(!AsynchronousArguments<Schedule, Count, Arguments...>,
                "Pipeline<asynchronous schedule, Count, ...>: include "
                "<tandem/strategy/types/asynchronous_pipeline.hpp>, or <tandem/tandem.hpp>");
};

// The rule of a schedule that has no sentence of its own; the numbers are printed.
template <int Parts, int Count, bool Fits>
struct ScheduleTakesIt {
  static constexpr bool value = true;
  static_assert(Fits,
                "Pipeline<Schedule, Count, ...>: the schedule has no order for so many parts and "
                "microbatches; see its fits()");
};

template <int Parts, int Count, bool Fits>
struct LateScheduleTakesIt {
  static constexpr bool value = true;
  static_assert(Fits,
                "Pipeline<asynchronous schedule, Count, ...>: it updates behind every microbatch; "
                "give Count 1, or take PipeDream2BW");
};

template <class Schedule, int Parts, int Count, bool Fits>
concept HasOwnSentence = requires {
  typename Schedule::template Takes<Parts, Count, Fits>;
};

// Bases, not functions, so that the sentence is clang's only error.
template <class Schedule, int Parts, int Count, bool Fits>
struct TakesIt : ScheduleTakesIt<Parts, Count, Fits> {};
template <AsynchronousSchedule Schedule, int Parts, int Count, bool Fits>
struct TakesIt<Schedule, Parts, Count, Fits> : LateScheduleTakesIt<Parts, Count, Fits> {};

template <class Schedule, int Parts, int Count, bool Fits>
struct TakesInItsWords : TakesIt<Schedule, Parts, Count, Fits> {};
template <class Schedule, int Parts, int Count, bool Fits>
  requires HasOwnSentence<Schedule, Parts, Count, Fits>
struct TakesInItsWords<Schedule, Parts, Count, Fits>
    : Schedule::template Takes<Parts, Count, Fits> {
};

template <class Schedule, int Parts, int Count>
struct ScheduleTakes {
  static constexpr bool value = true;
};
template <PipelineSchedule Schedule, int Parts, int Count>
  requires(Parts >= 1 && Count >= 1)
struct ScheduleTakes<Schedule, Parts, Count>
    : TakesInItsWords<Schedule, Parts, Count,
                      Parts % Schedule::chunks != 0 ||
                          Schedule::fits(Parts / Schedule::chunks, Count)> {
  static constexpr bool whole = Parts % Schedule::chunks == 0;
  static_assert(whole || !turns_back<Schedule>,
                "Pipeline<Schedule, Count, ...>: the parts of the model go down the devices and "
                "back up, two a device; give an even number of Splits, or Auto of one");
  static_assert(whole || turns_back<Schedule>,
                "Pipeline<Interleaved<v>, Count, ...>: the parts of the model must be a multiple "
                "of v; give v Splits a device");
};

template <AsynchronousSchedule Schedule, int Parts, int Count>
  requires(Parts >= 1 && Count >= 1)
struct ScheduleTakes<Schedule, Parts, Count>
    : TakesInItsWords<Schedule, Parts, Count, Schedule::fits(Parts, Count)> {
  static_assert(Parts <= 127,
                "Pipeline<asynchronous schedule, Count, ...>: give 127 parts or fewer, so that "
                "versions of weights can be counted");
};

template <bool Runs>
struct ScheduleRunsInChunks {
  static constexpr bool value = true;
  static_assert(
      Runs,
      "Pipeline<Schedule, Count, Chunks<K>, ...>: in this schedule a device takes a microbatch's "
      "message before it sends others' on, which its chunks cannot, so that they would wait "
      "forever; take one of the library's schedules, or leave Chunks out");
};

template <bool Runs>
struct ScheduleRuns {
  static constexpr bool value = true;
  static_assert(Runs,
                "Pipeline<Schedule, Count, ...>: the devices would wait for each other forever, "
                "or leave passes out; Cut<Net>::verdict says where");
};

}  // namespace detail

}  // namespace tandem
