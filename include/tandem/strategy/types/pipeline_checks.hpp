// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments of Pipeline that do not go together.

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/strategy/argument_rules.hpp>
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
  static_assert(ArgumentIs<Argument::late_chunks, !AsynchronousSchedule<Schedule>>::value);
  static_assert(ArgumentIs<Argument::chunks_checkpoint, !recomputes>::value);
  static_assert(ArgumentIs<Argument::chunks_leaves, (recomputes || !repeats)>::value);
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
  static constexpr bool orders = PipelineSchedule<Schedule> || AsynchronousSchedule<Schedule>;
  static_assert(ArgumentIs<Argument::schedule, orders>::value);
  static_assert(ArgumentIs<Argument::count, (Count >= 1), Count>::value);
  static_assert(begins,
                "Pipeline<Schedule, Count, How, Options...>: say how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts>, before which Chunks<K> may stand; Placed<table> is "
                "for ModelParallel");
  static_assert(ArgumentIs<Argument::count_twice, once>::value);
  static_assert(options,
                "Pipeline<Schedule, Count, How, Options...>: options behind Split<a>, Split<b>, "
                "... or Auto<Parts> are Reproducible, Checkpoint, BucketBytes and Slices");
  static_assert(ArgumentIs<Argument::split_backward,
                           !recomputes_split_backward<Schedule, Arguments...>>::value);
  static_assert(
      ArgumentIs<Argument::late_leaves, !repeats_late_gradients<Schedule, Arguments...>>::value);
  static_assert(ArgumentIs<Argument::late_checkpoint,
                           !recomputes_by_other_weights<Schedule, Arguments...>>::value);
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

template <class Schedule, int Parts, int Count, bool Fits>
concept HasOwnSentence = requires {
  typename Schedule::template Takes<Parts, Count, Fits>;
};

// Bases, not functions, so that the sentence is clang's only error.
template <class Schedule, int Parts, int Count, bool Fits>
struct TakesIt : ArgumentIs<Argument::order, Fits, Parts, Count> {};
template <AsynchronousSchedule Schedule, int Parts, int Count, bool Fits>
struct TakesIt<Schedule, Parts, Count, Fits>
    : ArgumentIs<Argument::late_count, Fits, Parts, Count> {};

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
  static constexpr Argument parts =
      turns_back<Schedule> ? Argument::turning_parts : Argument::interleaved_parts;
  static_assert(ArgumentIs<parts, whole, Parts>::value);
};

template <AsynchronousSchedule Schedule, int Parts, int Count>
  requires(Parts >= 1 && Count >= 1)
struct ScheduleTakes<Schedule, Parts, Count>
    : TakesInItsWords<Schedule, Parts, Count, Schedule::fits(Parts, Count)> {
  static_assert(ArgumentIs<Argument::late_parts, (Parts <= 127), Parts>::value);
};

}  // namespace detail

}  // namespace tandem
