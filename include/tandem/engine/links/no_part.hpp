// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NoPart: what a rank has in place of a part that none of its programs needs. All that it is asked
/// to do is nothing, and nothing of the part is compiled. RankPart: one that a program may not
/// need.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

struct NoPart {
  static constexpr bool comes_late = false;

  NoPart(auto const&... /*arguments*/) {}

  static void add(auto const&... /*arguments*/) {}
  static void add_up(auto const&... /*arguments*/) {}
  static void arrive(auto const&... /*arguments*/) {}
  static void await(auto const&... /*arguments*/) {}
  static void await_all(auto const&... /*arguments*/) {}
  static void begin(auto const&... /*arguments*/) {}
  static void begin_all(auto const&... /*arguments*/) {}
  static void begin_evaluation(auto const&... /*arguments*/) {}
  static void begin_pass() {}
  static void begin_step(auto const&... /*arguments*/) {}
  static void bring_together(auto const&... /*arguments*/) {}
  static void clear(auto const&... /*arguments*/) {}
  static void exchange(auto const&... /*arguments*/) {}
  static void fill(auto const&... /*arguments*/) {}
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
  static void restore(auto const&... /*arguments*/) {}
  static void run(auto const&... /*arguments*/) {}
  static void set_missed_steps(auto const&... /*arguments*/) {}
  static void settle(auto const&... /*arguments*/) {}
  static void stand_in(auto const&... /*arguments*/) {}
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

/// Points to a NoPart, and is null.
struct NoPartPointer {
  NoPartPointer(std::nullptr_t) {}
  constexpr explicit operator bool() const { return false; }
  NoPart* operator->() const { return &**this; }
  NoPart& operator*() const {
    static NoPart none;
    return none;
  }
};

/// A part that a program may not need: then it is null.
template <class P>
using RankPart = std::conditional_t<std::is_same_v<P, NoPart>, NoPartPointer, std::unique_ptr<P>>;

template <class P, class... Arguments>
TANDEM_COLD RankPart<P> make_part(bool is_needed, Arguments&&... arguments) {
  if constexpr (!std::is_same_v<P, NoPart>) {
    if (is_needed) {
      return std::make_unique<P>(std::forward<Arguments>(arguments)...);
    }
  }
  return nullptr;
}

}  // namespace tandem
