// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PipelineSchedule: in which order each device runs the passes of its stages.
///
/// A schedule is a type that generates compute actions only, for any number of devices and
/// microbatches; table/lower.hpp adds the messages, verify/ checks the result. In the orders
/// below, p is the number of devices, m of microbatches, r a device.

#include <concepts>

#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map.hpp>

namespace tandem {

namespace detail {

/// A sink that does nothing: what the concept calls generate() with.
struct NoSink {
  constexpr void operator()(int, Action) const {}
};

/// The members that orders of one stage a device have alike.
struct ChainOrder {
  static constexpr int chunks = 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 1;
  }
};

/// The members that orders of two stages a device have alike, which turn back at the last device.
struct TurningOrder : ChainOrder {
  static constexpr int chunks = 2;
  static constexpr bool splits_backward = true;
  static constexpr bool turns_back = true;
};

constexpr Action pass(ActionKind kind, int stage, int microbatch) {
  return {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = microbatch};
}

}  // namespace detail

/// - `name`: as files and messages write it
/// - `chunks`: stages that a device has of one copy of the model; `copies`: of each stage
/// - `splits_backward`: I and W in place of B
/// - `turns_back`, if it is there and true: the second of two stages a device go back from the last
///   device to the first, see turning_map()
/// - `fits(devices, microbatches)`: whether the order is defined for these
/// - `generate(devices, microbatches, sink)`: sink(device, action) in each device's order;
/// forwards,
///   backwards and weight gradients of a stage each in ascending order of microbatches
template <class S>
concept PipelineSchedule = requires(int devices, int microbatches, detail::NoSink& sink) {
  { S::name } -> std::convertible_to<char const*>;
  { S::chunks } -> std::convertible_to<int>;
  { S::copies } -> std::convertible_to<int>;
  { S::splits_backward } -> std::convertible_to<bool>;
  { S::fits(devices, microbatches) } -> std::same_as<bool>;
  { S::generate(devices, microbatches, sink) } -> std::same_as<void>;
};

namespace detail {

/// Whether a schedule's stages turn back at the last device.
template <class S>
inline constexpr bool turns_back = false;
template <class S>
  requires requires { requires S::turns_back; }
inline constexpr bool turns_back<S> = true;

template <PipelineSchedule S, int Devices, int Microbatches>
struct ScheduleFits {
  static constexpr bool value = true;
  static_assert(S::fits(Devices, Microbatches),
                "schedule_table<S, Devices, Microbatches>(): the schedule has no order for these "
                "numbers; see its fits(), which says for which it has");
};

}  // namespace detail

/// The stages of schedule @p S: a chain, one that turns back, or two in opposite directions.
template <PipelineSchedule S, int Devices>
constexpr auto schedule_map() {
  if constexpr (S::copies == 2) {
    return bidirectional_map<Devices>();
  } else if constexpr (detail::turns_back<S>) {
    return turning_map<Devices>();
  } else {
    return chain_map<Devices, S::chunks>();
  }
}

/// The passes of each device in their order; no messages.
template <PipelineSchedule S, int Devices, int Microbatches>
constexpr auto schedule_table() {
  static_assert(detail::ScheduleFits<S, Devices, Microbatches>::value);
  constexpr int length = S::chunks * Microbatches * (S::splits_backward ? 3 : 2);
  ActionTable<Devices, length> table;
  auto sink = [&table](int device, Action action) { table.add(device, action); };
  if (S::fits(Devices, Microbatches)) {
    S::generate(Devices, Microbatches, sink);
  }
  return table;
}

}  // namespace tandem
