// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments of Pipeline that do not go together.

#include <string_view>

#include <tandem/strategy/model_checks.hpp>
#include <tandem/strategy/pipeline_schedule.hpp>

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

template <class How>
inline constexpr int parts_of = 0;
template <CutsTops How>
inline constexpr int parts_of<How> = How::parts;

template <class Schedule, int Count, class... Arguments>
struct PipelineArgumentsAreSound {
  static constexpr bool value = true;
  static constexpr bool begins = BeginsWithAChain<Arguments...>::value;
  static constexpr bool once = !counts_microbatches<Arguments...>;
  static constexpr bool options = !begins || !once || RestIsOptions<Arguments...>::value;
  static_assert(PipelineSchedule<Schedule>,
                "Pipeline<Schedule, Count, ...>: Schedule is GPipe, OneFOneB, Interleaved<v>, "
                "ZeroBubbleH1 or Chimera");
  static_assert(Count >= 1,
                "Pipeline<Schedule, Count, ...>: Count is the number of microbatches of a "
                "replica; give 1 or more");
  static_assert(begins,
                "Pipeline<Schedule, Count, How, Options...>: say how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts>; Placed<table> is for ModelParallel");
  static_assert(once,
                "Pipeline<Schedule, Count, ...>: Count is the number of microbatches already; "
                "leave Microbatches out");
  static_assert(options,
                "Pipeline<Schedule, Count, How, Options...>: options behind Split<a>, Split<b>, "
                "... or Auto<Parts> are Reproducible, Checkpoint and BucketBytes");
  static_assert(!recomputes_split_backward<Schedule, Arguments...>,
                "Pipeline<ZeroBubbleH1, Count, ..., Checkpoint<...>>: its weight gradients need "
                "activations for longer than they are computed again; leave Checkpoint out, or "
                "take OneFOneB");
};

// Each schedule's own rule; both numbers are printed.
template <class Schedule, int Parts, int Count>
struct ScheduleTakes {
  static constexpr bool value = true;
};
template <PipelineSchedule Schedule, int Parts, int Count>
  requires(Parts >= 1 && Count >= 1)
struct ScheduleTakes<Schedule, Parts, Count> {
  static constexpr bool value = true;
  static constexpr std::string_view name = Schedule::name;
  static constexpr bool whole = Parts % Schedule::chunks == 0;
  static constexpr bool fits = !whole || Schedule::fits(Parts / Schedule::chunks, Count);
  static_assert(whole,
                "Pipeline<Interleaved<v>, Count, ...>: the parts of the model must be a multiple "
                "of v; give v Splits a device");
  static_assert(name != "interleaved" || fits,
                "Pipeline<Interleaved<v>, Count, ...>: Count must be a multiple of the devices, "
                "which are the parts of the model / v");
  static_assert(name != "chimera" || fits,
                "Pipeline<Chimera, Count, ...>: the parts of the model and Count must be even, 2 "
                "or more");
  static_assert(name == "interleaved" || name == "chimera" || fits,
                "Pipeline<Schedule, Count, ...>: the schedule has no order for so many parts and "
                "microbatches; see its fits()");
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
