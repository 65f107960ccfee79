// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <tandem/strategy/action.hpp>

namespace {

using namespace tandem;

static_assert(sizeof(Action) == sizeof(std::uint64_t));
static_assert(unpack_action(pack({ActionKind::backward, 3, 7})) ==
              Action{ActionKind::backward, 3, 7});
static_assert(unpack_action(0) == Action{});
static_assert(Action{ActionKind::forward, 0, 1} != Action{ActionKind::backward, 0, 1});

TEST_CASE("an action survives packing, extremes included") {
  for (ActionKind const kind :
       {ActionKind::forward, ActionKind::backward, ActionKind::reduce_gradient,
        ActionKind::reduce_loss, ActionKind::update, ActionKind::end}) {
    for (std::int16_t const stage : {std::int16_t{0}, std::int16_t{1}, std::int16_t{-1},
                                     std::numeric_limits<std::int16_t>::max()}) {
      for (std::int32_t const index :
           {0, 1, -1, 65'536, std::numeric_limits<std::int32_t>::max()}) {
        Action const action{kind, stage, index};
        CHECK(unpack_action(pack(action)) == action);
      }
    }
  }
}

TEST_CASE("different actions have different words") {
  CHECK(pack({ActionKind::forward, 0, 1}) != pack({ActionKind::forward, 1, 0}));
  CHECK(pack({ActionKind::forward, 0, 1}) != pack({ActionKind::backward, 0, 0}));
}

TEST_CASE("the grammar") {
  CHECK(to_string(Action{ActionKind::forward, 0, 3}) == "0F3");
  CHECK(to_string(Action{ActionKind::backward, 2, 0}) == "2B0");
  CHECK(to_string(Action{ActionKind::reduce_gradient, 0, 1}) == "0REDUCE_GRAD1");
  CHECK(to_string(Action{ActionKind::reduce_loss, 0, 0}) == "0REDUCE_LOSS");
  CHECK(to_string(Action{ActionKind::update, 1, 0}) == "1U");
}

}  // namespace
