// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace verify_test {

using namespace tandem;
using enum ActionKind;

ActionRows lowered(char const* name, int devices, int microbatches, int chunks = 1) {
  return lower(make_schedule(name, devices, microbatches, chunks), make_map(name, devices, chunks));
}

Action action(ActionKind kind, int stage, int index) {
  return {kind, 0, static_cast<std::int16_t>(stage), index};
}

using Row = std::vector<Action>;

Row::iterator find(Row& row, Action const& wanted) {
  auto at = row.begin();
  while (at != row.end() && !(*at == wanted)) {
    ++at;
  }
  REQUIRE(at != row.end());
  return at;
}
void erase(Row& row, Action const& wanted) { row.erase(find(row, wanted)); }
void swap(Row& row, Action const& a, Action const& b) { std::swap(*find(row, a), *find(row, b)); }

void check_flaw(ActionRows const& rows, StageMapView const& map, int microbatches, int depth,
                Flaw flaw, std::string const& sentence) {
  Verdict const verdict = verify(rows, map, microbatches, depth);
  CHECK(!verdict);
  CHECK(verdict.flaw == flaw);
  CHECK(to_string(verdict) == sentence);
  if (flaw != Flaw::missing && flaw != Flaw::unsound_map && flaw != Flaw::uneven_copies) {
    auto const& row = rows[static_cast<std::size_t>(verdict.rank)];
    CHECK(row[static_cast<std::size_t>(verdict.position)] == verdict.action);
  }
}

TEST_CASE("a valid table") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  Verdict const verdict = verify(lowered("one_f_one_b", 2, 3), map, 3);
  CHECK(verdict);
  CHECK(to_string(verdict) == "the action table is valid");
}

TEST_CASE("an action that is of no stage, device or microbatch of the table") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  ActionRows const good = lowered("one_f_one_b", 2, 3);
  ActionRows rows = good;
  rows[1].push_back(action(forward, 2, 0));
  check_flaw(rows, map, 3, 1, Flaw::unknown_stage,
             "rank 1: 2F0 is of a stage that does not exist; stages are 0 to 1");
  rows = good;
  rows[1].push_back(action(forward, 0, 0));
  check_flaw(rows, map, 3, 1, Flaw::wrong_device,
             "rank 1: 0F0 belongs to rank 0, which has its stage");
  rows = good;
  rows[0].push_back(action(forward, 0, 3));
  check_flaw(rows, map, 3, 1, Flaw::unknown_microbatch,
             "rank 0: 0F3 is of a microbatch that its stage does not have; it has 0 to 2");
  rows = good;
  rows[0].push_back(action(update, 0, 0));
  check_flaw(rows, map, 3, 1, Flaw::foreign_action,
             "rank 0: 0U is neither a pass nor a message of weight version 0; leave reductions and "
             "updates out of the table");
  rows = good;
  rows[0][0].version = 1;
  CHECK(verify(rows, map, 3).flaw == Flaw::foreign_action);
}

TEST_CASE("a copy's microbatches are its run of the replica's") {
  RuntimeMap const map = make_map("chimera", 2);
  ActionRows rows = lowered("chimera", 2, 4);
  *find(rows[1], action(forward, 2, 2)) = action(forward, 2, 1);
  check_flaw(rows, map, 4, 1, Flaw::unknown_microbatch,
             "rank 1: 2F1 is of a microbatch that its stage does not have; it has 2 to 3");
}

TEST_CASE("actions that are missing, doubled or out of order") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  ActionRows const good = lowered("one_f_one_b", 2, 3);
  ActionRows rows = good;
  erase(rows[1], action(forward, 1, 1));
  check_flaw(rows, map, 3, 1, Flaw::missing, "rank 1: 1F1 is missing before 1B1");
  rows = good;
  erase(rows[1], action(receive_forward, 1, 1));
  check_flaw(rows, map, 3, 1, Flaw::missing, "rank 1: 1RECV_F1 is missing before 1F1");
  rows = good;
  erase(rows[0], action(backward, 0, 2));
  check_flaw(rows, map, 3, 1, Flaw::missing, "rank 0: 0B2 is missing");
  rows = good;
  rows[0].push_back(action(backward, 0, 1));
  check_flaw(rows, map, 3, 1, Flaw::doubled,
             "rank 0: 0B1 stands there although it was done before");
  rows = good;
  swap(rows[0], action(forward, 0, 0), action(forward, 0, 1));
  check_flaw(rows, map, 3, 1, Flaw::out_of_order,
             "rank 0: 0F1 stands before 0F0; the microbatches of a stage must come in ascending "
             "order");
  rows = lowered("gpipe", 2, 3);
  swap(rows[1], action(backward, 1, 0), action(backward, 1, 1));
  check_flaw(rows, map, 3, 1, Flaw::retired_out_of_order,
             "rank 1: 1B1 stands before 1B0; the microbatches of a stage must be retired in "
             "ascending order");
}

TEST_CASE("an action that stands before what it needs") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  ActionRows rows = lowered("one_f_one_b", 2, 3);
  swap(rows[0], action(receive_backward, 0, 1), action(backward, 0, 1));
  check_flaw(rows, map, 3, 1, Flaw::before_its_input,
             "rank 0: 0B1 stands before 0RECV_B1, which it needs");
  rows = lowered("one_f_one_b", 2, 3);
  swap(rows[0], action(forward, 0, 2), action(send_forward, 0, 2));
  check_flaw(rows, map, 3, 1, Flaw::before_its_input,
             "rank 0: 0SEND_F2 stands before 0F2, which it needs");
  rows = lowered("interleaved", 1, 1, 2);
  swap(rows[0], action(backward, 0, 0), action(backward, 1, 0));
  check_flaw(rows, make_map("interleaved", 1, 2), 1, 1, Flaw::before_its_input,
             "rank 0: 0B0 stands before 1B0, which it needs");
}

TEST_CASE("a backward in two parts") {
  RuntimeMap const map = make_map("zero_bubble_h1", 2);
  ActionRows const good = lowered("zero_bubble_h1", 2, 3);
  ActionRows rows = good;
  erase(rows[1], action(weight_gradient, 1, 2));
  check_flaw(rows, map, 3, 1, Flaw::missing, "rank 1: 1W2 is missing");
  rows = good;
  swap(rows[1], action(weight_gradient, 1, 1), action(weight_gradient, 1, 2));
  check_flaw(rows, map, 3, 1, Flaw::retired_out_of_order,
             "rank 1: 1W2 stands before 1W1; the microbatches of a stage must be retired in "
             "ascending order");
  rows = good;
  swap(rows[0], action(weight_gradient, 0, 1), action(input_gradient, 0, 1));
  check_flaw(rows, map, 3, 1, Flaw::before_its_input,
             "rank 0: 0W1 stands before 0I1, which it needs");
  rows = good;
  rows[0].push_back(action(backward, 0, 2));
  check_flaw(rows, map, 3, 1, Flaw::doubled,
             "rank 0: 0B2 stands there although it was done before");
}

TEST_CASE("both forms of a backward in one row") {
  auto const table = [](std::initializer_list<Action> backwards) {
    ActionRows rows = {{action(forward, 0, 0), action(forward, 0, 1)}};
    rows[0].insert(rows[0].end(), backwards);
    return rows;
  };
  StageMap<1, 0> const map = chain_map<1>();
  CHECK(verify(
      table({action(input_gradient, 0, 0), action(weight_gradient, 0, 0), action(backward, 0, 1)}),
      map, 2));
  check_flaw(
      table({action(input_gradient, 0, 0), action(backward, 0, 1), action(weight_gradient, 0, 0)}),
      map, 2, 1, Flaw::retired_out_of_order,
      "rank 0: 0B1 stands before 0W0; the microbatches of a stage must be retired in "
      "ascending order");
}

TEST_CASE("messages without a counterpart") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  ActionRows const good = lowered("one_f_one_b", 2, 3);
  ActionRows rows = good;
  erase(rows[1], action(send_backward, 1, 2));
  check_flaw(rows, map, 3, 1, Flaw::unmatched_receive,
             "rank 0: 0RECV_B2 waits for a message, but rank 1 has no 1SEND_B2 that would send it");
  ActionRows const stopped = {good[0], {}};
  check_flaw(stopped, map, 3, 1, Flaw::unmatched_send,
             "rank 0: 0SEND_F1 waits for a free place, but rank 1 has no 1RECV_F0 that would make "
             "one");
  rows = good;
  rows[1].push_back(action(send_forward, 1, 0));
  check_flaw(rows, map, 3, 1, Flaw::nothing_to_send,
             "rank 1: 1SEND_F0 has nothing to send: no other device needs what it names");
  rows = good;
  rows[1].push_back(action(receive_backward, 1, 0));
  check_flaw(rows, map, 3, 1, Flaw::nothing_to_receive,
             "rank 1: 1RECV_B0 has nothing to receive: no other device makes what it names");
}

TEST_CASE("receives that do not keep the order of the sends") {
  StageMap<3, 2> const map{
      .devices = 2, .links = 1, .device = {0, 1, 1}, .edge = {{0, 1, 0}, {0, 2, 0}}};
  ActionRows rows = {{action(forward, 0, 0), action(backward, 0, 0)},
                     {action(forward, 1, 0), action(forward, 2, 0), action(backward, 1, 0),
                      action(backward, 2, 0)}};
  rows = lower(rows, map);
  REQUIRE(verify(rows, map, 1));
  swap(rows[1], action(receive_forward, 1, 0), action(receive_forward, 2, 0));
  swap(rows[1], action(forward, 1, 0), action(forward, 2, 0));
  check_flaw(rows, map, 1, 1, Flaw::out_of_fifo_order,
             "rank 1: 2RECV_F0 is not the next message of its link, which is that of 0SEND_F0; "
             "receive in the order of the sends");
}

TEST_CASE("1F1B deadlocks under rendezvous, GPipe and Sequential do not") {
  RuntimeMap const map = make_map("one_f_one_b", 2);
  check_flaw(lowered("one_f_one_b", 2, 2), map, 2, 0, Flaw::deadlock,
             "rank 1: 1SEND_B0 waits for 0RECV_B0, but rank 0 waits at 0SEND_F1: a deadlock with 0 "
             "messages in flight for each link and direction");
  for (int const devices : {2, 3, 4, 8}) {
    RuntimeMap const chain = make_map("gpipe", devices);
    CHECK(verify(lowered("one_f_one_b", devices, 8), chain, 8, 0).flaw == Flaw::deadlock);
    CHECK(verify(lowered("zero_bubble_h1", devices, 8), chain, 8, 0).flaw == Flaw::deadlock);
    CHECK(verify(lowered("interleaved", devices, 24, 2), make_map("interleaved", devices, 2), 24, 0)
              .flaw == Flaw::deadlock);
    CHECK(verify(lowered("gpipe", devices, 8), chain, 8, 0));
    CHECK(verify(lowered("sequential", devices, 8), chain, 8, 0));
    CHECK(verify(lowered("one_f_one_b", devices, 1), chain, 1, 0));
  }
  CHECK(verify(lowered("chimera", 4, 8), make_map("chimera", 4), 8, 0).flaw == Flaw::deadlock);
}

TEST_CASE("a deadlock in spite of free places") {
  RuntimeMap const map = make_map("gpipe", 2);
  ActionRows rows = lowered("gpipe", 2, 2);
  swap(rows[0], action(forward, 0, 1), action(receive_backward, 0, 1));
  swap(rows[0], action(send_forward, 0, 1), action(receive_backward, 0, 0));
  // 0F0 0SEND_F0 0RECV_B1 …: the order of a kind is looked at before anything is waited for.
  CHECK(verify(rows, map, 2).flaw == Flaw::out_of_order);
  rows = lowered("gpipe", 2, 2);
  erase(rows[0], action(receive_backward, 0, 0));
  rows[0].insert(find(rows[0], action(forward, 0, 1)), action(receive_backward, 0, 0));
  check_flaw(rows, map, 2, 1, Flaw::deadlock,
             "rank 1: 1RECV_F1 waits for 0SEND_F1, but rank 0 waits at 0RECV_B0: a deadlock with 1 "
             "message in flight for each link and direction");
}

TEST_CASE("maps and numbers that cannot be") {
  ActionRows const rows = lowered("gpipe", 2, 2);
  CHECK(verify(rows, chain_map<3>(), 2).flaw == Flaw::unsound_map);
  StageMap<2, 1> map = chain_map<2>();
  map.edge[0].link = 1;
  Verdict const verdict = verify(rows, map, 2);
  CHECK(verdict.flaw == Flaw::unsound_map);
  CHECK(to_string(verdict).find("give as many rows as devices") != std::string::npos);
  StageMap<4, 2> two_ways{.devices = 2,
                          .links = 1,
                          .device = {0, 1, 1, 0},
                          .edge = {{0, 1, 0}, {2, 3, 0}}};  // one link, two directions
  CHECK(verify(rows, two_ways, 2).flaw == Flaw::unsound_map);
  two_ways.links = 2;
  two_ways.edge[1].link = 1;
  CHECK(verify(rows, two_ways, 2).flaw == Flaw::missing);
  Verdict const uneven = verify(lowered("chimera", 2, 2), make_map("chimera", 2), 3);
  CHECK(to_string(uneven) ==
        "3 microbatches cannot be dealt evenly to 2 copies of the model; give a multiple of the "
        "copies");
  CHECK_THROWS_AS(static_cast<void>(verify(rows, chain_map<2>(), 0)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(verify(rows, chain_map<2>(), 2, -1)), ContractError);
}

}  // namespace verify_test
