// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace lower_table_test {

using namespace tandem;

template <class Table>
std::string text(Table const& table, int device) {
  std::string all;
  for (Action const& action : row_of(table, device)) {
    all += (all.empty() ? "" : " ") + to_string(action);
  }
  return all;
}

TEST_CASE("messages stand at the passes that need and make them") {
  static constexpr auto map = schedule_map<OneFOneB, 3>();
  static constexpr auto table = lower(schedule_table<OneFOneB, 3, 2>(), map);
  CHECK(text(table, 0) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1");
  CHECK(text(table, 1) ==
        "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1");
  CHECK(text(table, 2) == "2RECV_F0 2F0 2B0 2SEND_B0 2RECV_F1 2F1 2B1 2SEND_B1");
}

TEST_CASE("a split backward sends behind I, before W") {
  static constexpr auto map = schedule_map<ZeroBubbleH1, 2>();
  static constexpr auto table = lower(schedule_table<ZeroBubbleH1, 2, 2>(), map);
  CHECK(text(table, 0) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0I0 0W0 0RECV_B1 0I1 0W1");
  CHECK(text(table, 1) == "1RECV_F0 1F0 1I0 1SEND_B0 1RECV_F1 1F1 1I1 1SEND_B1 1W0 1W1");
}

TEST_CASE("nothing is sent where an edge stays on its device") {
  static constexpr auto map = schedule_map<Interleaved<2>, 1>();
  static constexpr auto table = lower(schedule_table<Interleaved<2>, 1, 1>(), map);
  CHECK(text(table, 0) == "0F0 1F0 1B0 0B0");
}

TEST_CASE("an action sends and receives all that a stage has for other devices") {
  StageMap<3, 3> const map{
      .devices = 3, .links = 3, .device = {0, 1, 2}, .edge = {{0, 1, 0}, {0, 2, 1}, {1, 2, 2}}};
  auto const table = lower(schedule_table<GPipe, 3, 1>(), map);
  CHECK(text(table, 0) == "0F0 0SEND_F0 0RECV_B0 0B0");
  CHECK(text(table, 1) == "1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0");
  CHECK(text(table, 2) == "2RECV_F0 2F0 2B0 2SEND_B0");
  CHECK(verify(table, map, 1));
}

/// Stage 0 sends to stages 1 and 2 of the other device over one link, in this order.
constexpr StageMap<3, 2> fork{
    .devices = 2, .links = 1, .device = {0, 1, 1}, .edge = {{0, 1, 0}, {0, 2, 0}}};

constexpr ActionTable<2, 4> fork_table() {
  ActionTable<2, 4> table;
  table.add(0, {ActionKind::forward, 0, 0, 0});
  table.add(0, {ActionKind::backward, 0, 0, 0});
  table.add(1, {ActionKind::forward, 0, 2, 0});
  table.add(1, {ActionKind::forward, 0, 1, 0});
  table.add(1, {ActionKind::backward, 0, 1, 0});
  table.add(1, {ActionKind::backward, 0, 2, 0});
  return table;
}

TEST_CASE("a receive that is not the next of its link stands behind those before it") {
  static constexpr auto table = lower(fork_table(), fork);
  static_assert(verify(table, fork, 1));
  CHECK(text(table, 0) == "0F0 0SEND_F0 0RECV_B0 0B0");
  CHECK(text(table, 1) == "1RECV_F0 2RECV_F0 2F0 1F0 1B0 1SEND_B0 2B0 2SEND_B0");
}

TEST_CASE("the two forms of a table are lowered alike") {
  static constexpr auto map = schedule_map<Chimera, 4>();
  static constexpr auto table = lower(schedule_table<Chimera, 4, 6>(), map);
  ActionRows const rows = lower(make_schedule("chimera", 4, 6), make_map("chimera", 4));
  for (int d = 0; d < 4; ++d) {
    CHECK(text(rows, d) == text(table, d));
  }
}

TEST_CASE("what is no pass of a stage is kept as it is") {
  ActionRows const rows = {{{ActionKind::forward, 0, 9, 0}, {ActionKind::forward, 0, 0, -1}}};
  CHECK(text(lower(rows, chain_map<1>()), 0) == "9F0 0F-1");
}

TEST_CASE("a map that does not fit the table is refused") {
  ActionRows const rows(2);
  CHECK_THROWS_AS(static_cast<void>(lower(rows, chain_map<3>())), ContractError);
  StageMap<2, 1> down = chain_map<2>();
  down.edge[0] = {1, 0, 0};
  CHECK_THROWS_AS(static_cast<void>(lower(rows, down)), ContractError);
}

}  // namespace lower_table_test
