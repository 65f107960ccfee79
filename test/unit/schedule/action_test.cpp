// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <tandem/schedule/table/action.hpp>

namespace action_test {

using namespace tandem;

static_assert(sizeof(Action) == sizeof(std::uint64_t));
static_assert(unpack_action(pack({ActionKind::backward, 0, 3, 7})) ==
              Action{ActionKind::backward, 0, 3, 7});
static_assert(unpack_action(0) == Action{});
static_assert(Action{ActionKind::forward, 0, 0, 1} != Action{ActionKind::backward, 0, 0, 1});

constexpr ActionKind every_kind[] = {
    ActionKind::forward,         ActionKind::backward,         ActionKind::input_gradient,
    ActionKind::weight_gradient, ActionKind::send_forward,     ActionKind::receive_forward,
    ActionKind::send_backward,   ActionKind::receive_backward, ActionKind::reduce_gradient,
    ActionKind::begin_loss,      ActionKind::await_loss,       ActionKind::reduce_norm,
    ActionKind::update,          ActionKind::exchange,         ActionKind::end};

TEST_CASE("an action survives packing, extremes included") {
  for (ActionKind const kind : every_kind) {
    for (std::uint8_t const version : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{255}}) {
      for (std::int16_t const stage : {std::int16_t{0}, std::int16_t{1}, std::int16_t{-1},
                                       std::numeric_limits<std::int16_t>::max()}) {
        for (std::int32_t const index :
             {0, 1, -1, 65'536, std::numeric_limits<std::int32_t>::max()}) {
          Action const action{kind, version, stage, index};
          REQUIRE(unpack_action(pack(action)) == action);
        }
      }
    }
  }
}

TEST_CASE("different actions have different words") {
  CHECK(pack({ActionKind::forward, 0, 0, 1}) != pack({ActionKind::forward, 0, 1, 0}));
  CHECK(pack({ActionKind::forward, 1, 0, 0}) != pack({ActionKind::forward, 0, 1, 0}));
  CHECK(pack({ActionKind::forward, 0, 0, 1}) != pack({ActionKind::backward, 0, 0, 0}));
}

TEST_CASE("the grammar") {
  std::string all;
  for (ActionKind const kind : every_kind) {
    all += to_string(Action{kind, 0, 2, 3}) + " ";
  }
  CHECK(all ==
        "2F3 2B3 2I3 2W3 2SEND_F3 2RECV_F3 2SEND_B3 2RECV_B3 2REDUCE_GRAD3 2BEGIN_LOSS 2AWAIT_LOSS "
        "2REDUCE_NORM 2U 2X 2END ");
  CHECK(to_string(Action{ActionKind::forward, 0, 0, 65'536}) == "0F65536");
  CHECK(to_string(Action{ActionKind::forward, 2, 0, 3}) == "0F3@2");
}

}  // namespace action_test
