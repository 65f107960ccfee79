// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The list of all schedules, which are found by their names in it: a new one is included and named
/// here, and has the rest in its own file.

#include <concepts>
#include <string_view>

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/chimera.hpp>
#include <tandem/schedule/orders/cross_model.hpp>
#include <tandem/schedule/orders/delayed_gradient.hpp>
#include <tandem/schedule/orders/dual_pipe.hpp>
#include <tandem/schedule/orders/dual_pipe_v.hpp>
#include <tandem/schedule/orders/features_replay.hpp>
#include <tandem/schedule/orders/gpipe.hpp>
#include <tandem/schedule/orders/interleaved.hpp>
#include <tandem/schedule/orders/one_f_one_b.hpp>
#include <tandem/schedule/orders/pipedream.hpp>
#include <tandem/schedule/orders/pipedream_2bw.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/pipelined_model.hpp>
#include <tandem/schedule/orders/post_validated.hpp>
#include <tandem/schedule/orders/sequential.hpp>
#include <tandem/schedule/orders/v_half.hpp>
#include <tandem/schedule/orders/v_min.hpp>
#include <tandem/schedule/orders/weight_prediction.hpp>
#include <tandem/schedule/orders/words.hpp>
#include <tandem/schedule/orders/zero_bubble_h1.hpp>
#include <tandem/schedule/orders/zero_bubble_h2.hpp>
#include <tandem/schedule/orders/zero_bubble_v.hpp>

namespace tandem {

namespace detail {

template <class... S>
struct ScheduleList {};

/// In the order in which they are named, and tried by the planner. Interleaved stands for those of
/// any number of chunks.
using AllSchedules =
    ScheduleList<SequentialStages, GPipe, OneFOneB, Interleaved<1>, ZeroBubbleH1, ZeroBubbleH2,
                 ZeroBubbleV, VHalf, VMin, DualPipeV, Chimera, DualPipe, CrossModel, PipeDream,
                 PipeDreamVerticalSync, PipeDream2BW, DelayedGradient, WeightPrediction,
                 FeaturesReplay, PipelinedModel>;

/// Has an order for any number of chunks: generate() with it behind the microbatches.
template <class S>
concept TakesChunks = requires(int number, NoSink& sink) {
  { S::generate(number, number, number, sink) } -> std::same_as<void>;
};

/// A schedule as a value.
struct NamedSchedule {
  std::string_view name;
  ScheduleWords words;
  int chunks = 1;  ///< stages a device, of which it may have any number if it takes_chunks
  int copies = 1;  ///< of the model
  bool takes_chunks = false;
  bool turns_back = false;  ///< its stages do, at the last device
  bool is_asynchronous = false;
  bool splits_backward = false;  ///< I and W in place of B
  bool (*fits)(int devices, int microbatches);
  Asynchrony (*asynchrony)(int devices, int microbatches);  ///< off where it is synchronous
};

constexpr Asynchrony synchronous(int, int) { return {}; }

template <class S>
  requires(PipelineSchedule<S> || AsynchronousSchedule<S>)
constexpr NamedSchedule as_value() {
  if constexpr (AsynchronousSchedule<S>) {
    return {.name = S::name,
            .words = S::words,
            .is_asynchronous = true,
            .fits = &S::fits,
            .asynchrony = &S::asynchrony};
  } else {
    return {.name = S::name,
            .words = S::words,
            .chunks = S::chunks,
            .copies = S::copies,
            .takes_chunks = TakesChunks<S>,
            .turns_back = turns_back<S>,
            .splits_backward = S::splits_backward,
            .fits = &S::fits,
            .asynchrony = &synchronous};
  }
}

template <class List>
struct ScheduleValues;
template <class... S>
struct ScheduleValues<ScheduleList<S...>> {
  static constexpr NamedSchedule value[] = {as_value<S>()...};
};

/// What AllSchedules lists.
inline constexpr auto const& all_schedules = ScheduleValues<AllSchedules>::value;

/// Whether there is one of that name. A constant for g++'s undefined-behaviour sanitizer, too,
/// which find_schedule() != nullptr is not.
constexpr bool is_schedule(std::string_view name) {
  bool is = false;
  for (NamedSchedule const& one : all_schedules) {
    is = is || one.name == name;
  }
  return is;
}

/// Null where there is none of that name.
constexpr NamedSchedule const* find_schedule(std::string_view name) {
  for (NamedSchedule const& one : all_schedules) {
    if (one.name == name) {
      return &one;
    }
  }
  return nullptr;
}

/// Off where the name is that of a synchronous schedule, or of none.
constexpr Asynchrony asynchrony_named(std::string_view name, int devices, int microbatches) {
  NamedSchedule const* const found = find_schedule(name);
  return found != nullptr ? found->asynchrony(devices, microbatches) : Asynchrony{};
}

/// Whether it has two copies of the model.
constexpr bool has_two_copies(std::string_view name) {
  NamedSchedule const* const found = find_schedule(name);
  return found != nullptr && found->copies == 2;
}

}  // namespace detail

}  // namespace tandem
