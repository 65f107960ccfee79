// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tandem/schedules.hpp>

struct TableSchedule {
  static constexpr char const* name = "TableSchedule";
  static constexpr int chunks = 2;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = true;
  static constexpr bool turns_back = true;

  static constexpr bool fits(int devices, int microbatches) {
    return devices == 2 && microbatches == 4;
  }

  template <class Sink>
  static constexpr void generate(int, int, Sink& sink) {
    using tandem::ActionKind;
    sink(0, {ActionKind::forward, 0, 0, 0});
    sink(0, {ActionKind::forward, 0, 0, 1});
    sink(0, {ActionKind::forward, 0, 0, 2});
    sink(0, {ActionKind::forward, 0, 3, 0});
    sink(0, {ActionKind::input_gradient, 0, 3, 0});
    sink(0, {ActionKind::forward, 0, 3, 1});
    sink(0, {ActionKind::input_gradient, 0, 3, 1});
    sink(0, {ActionKind::weight_gradient, 0, 3, 0});
    sink(0, {ActionKind::input_gradient, 0, 0, 0});
    sink(0, {ActionKind::weight_gradient, 0, 3, 1});
    sink(0, {ActionKind::forward, 0, 0, 3});
    sink(0, {ActionKind::input_gradient, 0, 0, 1});
    sink(0, {ActionKind::forward, 0, 3, 2});
    sink(0, {ActionKind::input_gradient, 0, 3, 2});
    sink(0, {ActionKind::weight_gradient, 0, 3, 2});
    sink(0, {ActionKind::forward, 0, 3, 3});
    sink(0, {ActionKind::input_gradient, 0, 3, 3});
    sink(0, {ActionKind::input_gradient, 0, 0, 2});
    sink(0, {ActionKind::weight_gradient, 0, 3, 3});
    sink(0, {ActionKind::weight_gradient, 0, 0, 0});
    sink(0, {ActionKind::input_gradient, 0, 0, 3});
    sink(0, {ActionKind::weight_gradient, 0, 0, 1});
    sink(0, {ActionKind::weight_gradient, 0, 0, 2});
    sink(0, {ActionKind::weight_gradient, 0, 0, 3});
    sink(1, {ActionKind::forward, 0, 1, 0});
    sink(1, {ActionKind::forward, 0, 2, 0});
    sink(1, {ActionKind::forward, 0, 1, 1});
    sink(1, {ActionKind::forward, 0, 2, 1});
    sink(1, {ActionKind::forward, 0, 1, 2});
    sink(1, {ActionKind::input_gradient, 0, 2, 0});
    sink(1, {ActionKind::input_gradient, 0, 1, 0});
    sink(1, {ActionKind::input_gradient, 0, 2, 1});
    sink(1, {ActionKind::input_gradient, 0, 1, 1});
    sink(1, {ActionKind::forward, 0, 2, 2});
    sink(1, {ActionKind::weight_gradient, 0, 2, 0});
    sink(1, {ActionKind::weight_gradient, 0, 2, 1});
    sink(1, {ActionKind::forward, 0, 1, 3});
    sink(1, {ActionKind::forward, 0, 2, 3});
    sink(1, {ActionKind::input_gradient, 0, 2, 2});
    sink(1, {ActionKind::input_gradient, 0, 1, 2});
    sink(1, {ActionKind::input_gradient, 0, 2, 3});
    sink(1, {ActionKind::input_gradient, 0, 1, 3});
    sink(1, {ActionKind::weight_gradient, 0, 2, 2});
    sink(1, {ActionKind::weight_gradient, 0, 2, 3});
    sink(1, {ActionKind::weight_gradient, 0, 1, 0});
    sink(1, {ActionKind::weight_gradient, 0, 1, 1});
    sink(1, {ActionKind::weight_gradient, 0, 1, 2});
    sink(1, {ActionKind::weight_gradient, 0, 1, 3});
  }
};
