// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NoPart: what a rank has in place of a part that its program does not need. All that it is asked
/// to do is nothing, and nothing of the part is compiled.

#include <cstdint>
#include <vector>

#include <tandem/graph/branches.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

struct NoPart {
  static constexpr bool comes_late = false;

  NoPart(auto const&... /*arguments*/) {}

  static void add_up(auto const&... /*arguments*/) {}
  static void arrive(auto const&... /*arguments*/) {}
  static void await(auto const&... /*arguments*/) {}
  static void await_all(auto const&... /*arguments*/) {}
  static void begin(auto const&... /*arguments*/) {}
  static void begin_evaluation(auto const&... /*arguments*/) {}
  static void begin_pass() {}
  static void begin_step(auto const&... /*arguments*/) {}
  static void bring_together(auto const&... /*arguments*/) {}
  static void clear(auto const&... /*arguments*/) {}
  static void exchange(auto const&... /*arguments*/) {}
  static void forget() {}
  static void gather(auto const&... /*arguments*/) {}
  static void get(auto const&... /*arguments*/) {}
  static void give_back(auto const&... /*arguments*/) {}
  static void join_tree(auto const&... /*arguments*/) {}
  static void keep(auto const&... /*arguments*/) {}
  static void open(auto const&... /*arguments*/) {}
  static void open_stage(auto const&... /*arguments*/) {}
  static void point(auto const&... /*arguments*/) {}
  static void put(auto const&... /*arguments*/) {}
  static void run(auto const&... /*arguments*/) {}
  static void settle(auto const&... /*arguments*/) {}
  static void take_back(auto const&... /*arguments*/) {}
  static void undo(auto const&... /*arguments*/) {}
  static void use(auto const&... /*arguments*/) {}

  [[nodiscard]] static constexpr bool arrived() { return true; }
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }
  template <class Batch>
  static Batch const& given(Batch const& batch, std::int64_t /*limit*/) {
    return batch;
  }
  [[nodiscard]] static constexpr bool on() { return false; }
  [[nodiscard]] static std::vector<OwnedRange> owned() { return {}; }
  [[nodiscard]] static constexpr Branches const* plan() { return nullptr; }
  [[nodiscard]] static constexpr std::int64_t scratch_bytes() { return 0; }
  [[nodiscard]] static constexpr Slice slice() { return {}; }
};

}  // namespace tandem
