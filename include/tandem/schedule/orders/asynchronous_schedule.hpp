// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AsynchronousSchedule: a pipeline that is never emptied between steps.

#include <concepts>

#include <tandem/schedule/rules/asynchrony.hpp>

namespace tandem {

/// - `name`: as files and messages write it
/// - `fits(devices, microbatches)`: whether it is defined for these
/// - `asynchrony(devices, microbatches)`: how it trains
template <class S>
concept AsynchronousSchedule = requires(int devices, int microbatches) {
  { S::name } -> std::convertible_to<char const*>;
  { S::fits(devices, microbatches) } -> std::same_as<bool>;
  { S::asynchrony(devices, microbatches) } -> std::same_as<Asynchrony>;
};

namespace detail {

/// The members that orders whose steps are of one microbatch have alike.
template <WeightRule Weights, int Delays = 1>
struct UpdatesEachMicrobatch {
  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches == 1;
  }
  static constexpr Asynchrony asynchrony(int devices, int microbatches) {
    return {.devices = devices, .microbatches = microbatches, .weights = Weights, .delays = Delays};
  }
};

}  // namespace detail

}  // namespace tandem
