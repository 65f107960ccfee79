// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machines.hpp>

namespace collectives_test {

using namespace tandem;

bool near(double value, double expected) {
  return std::fabs(value - expected) <= 1e-12 * std::fabs(expected);
}

// Round numbers: nodes of 8, 100 bytes a second and 1 s inside, 10 bytes a second and 5 s between.
Machine plain() {
  return {.devices_per_node = 8,
          .inside = {.bandwidth = 100, .latency = 1},
          .between = {.bandwidth = 10, .latency = 5}};
}

using Seconds = double (*)(Machine const&, DeviceGroup const&, double);
constexpr Seconds collectives[] = {all_reduce_seconds, reduce_scatter_seconds, all_gather_seconds,
                                   broadcast_seconds, exchange_seconds};

bool operator==(GroupSpan const& a, GroupSpan const& b) {
  return a.nodes == b.nodes && a.most == b.most && a.least == b.least;
}

TEST_CASE("how groups lie on nodes of 8") {
  Machine const machine = plain();
  CHECK(span_of(machine, {1, 1}) == GroupSpan{1, 1, 1});
  CHECK(span_of(machine, {8, 1}) == GroupSpan{1, 8, 8});
  CHECK(span_of(machine, {9, 1}) == GroupSpan{2, 8, 1});
  CHECK(span_of(machine, {64, 1}) == GroupSpan{8, 8, 8});
  CHECK(span_of(machine, {4, 2}) == GroupSpan{1, 4, 4});
  CHECK(span_of(machine, {16, 2}) == GroupSpan{4, 4, 4});
  CHECK(span_of(machine, {16, 8}) == GroupSpan{16, 1, 1});
  CHECK(span_of(machine, {16, 16}) == GroupSpan{16, 1, 1});
  CHECK(span_of(machine, {4, 3}) == GroupSpan{2, 3, 1});  // devices 0 3 6 | 9
  CHECK(span_of(machine, {8, 3}) == GroupSpan{3, 3, 2});  // 0 3 6 | 9 12 15 | 18 21
  Machine fours = machine;
  fours.devices_per_node = 4;
  CHECK(span_of(fours, {6, 3}) == GroupSpan{4, 2, 1});  // 0 3 | 6 | 9 | 12 15
}

TEST_CASE("nodes that are far apart share the ways up from their leaf switches") {
  constexpr Fabric fabric{.leaf_nodes = 4, .oversubscription = 8};
  static_assert(Fabric{}.slowdown(100) == 1);
  static_assert(fabric.slowdown(1) == 2);  // one of four nodes sends up, where there is an eighth
  static_assert(fabric.slowdown(4) == 8);
  static_assert(fabric.slowdown(64) == 8);
  static_assert(leaf_nodes(32, 8, true) == 32 && leaf_nodes(32, 8, false) == 4);
  Machine machine = plain();
  Machine flat = machine;
  machine.fabric = fabric;
  double const bytes = 1e9;  // latency is nothing
  auto const slower = [&](DeviceGroup const& group) {
    return all_reduce_seconds(machine, group, bytes) / all_reduce_seconds(flat, group, bytes);
  };
  CHECK(slower({32, 1}) == 1);                   // one leaf
  CHECK(slower({4, 8}) == 1);                    // also with a device of each node
  CHECK(std::fabs(slower({64, 1}) - 2) < 1e-3);  // neighbours
  CHECK(std::fabs(slower({8, 16}) - 4) < 1e-3);  // every second node, as others do
  CHECK(std::fabs(slower({8, 64}) - 8) < 1e-3);  // each at a leaf of its own
  CHECK(neighbour_seconds(flat, 8, 100) == 5 + 10);
  CHECK(neighbour_seconds(machine, 8, 100) == 5 + 20);
  CHECK(neighbour_seconds(machine, 32, 100) == 5 + 80);
  CHECK(neighbour_seconds(machine, 4, 100) == 1 + 1);  // within a node
}

TEST_CASE("a node with one rank of 9 is a bottleneck") {
  Machine const machine = plain();
  double const bytes = 1e6;
  CHECK(near(reduce_scatter_seconds(machine, {9, 1}, bytes),
             7 * (1 + bytes / 8 / 100) + (5 + bytes / 2 / 10)));
  Machine slow = machine;  // inside as between: a plain ring is best
  slow.inside.bandwidth = 10;
  CHECK(near(reduce_scatter_seconds(slow, {9, 1}, bytes), 8 * (5 + bytes / 9 / 10)));
  CHECK(all_reduce_seconds(machine, {9, 1}, bytes) >
        2 * all_reduce_seconds(machine, {16, 1}, bytes));
}

TEST_CASE("within a node: the closed forms") {
  Machine const machine = plain();
  for (int n = 2; n <= 8; ++n) {
    CAPTURE(n);
    for (double const bytes : {0.0, 1.0, 100.0, 1e4, 1e7}) {
      CAPTURE(bytes);
      for (int const stride : {1, 7 / (n - 1)}) {  // no link is shared
        DeviceGroup const group{n, stride};
        double const rounds = std::ceil(std::log2(n));
        double const ring = 2 * (n - 1) * 1.0 + 2.0 * (n - 1) / n * bytes / 100;
        double const trees = 2 * rounds * 1.0 + 2 * bytes / 100;
        CHECK(near(all_reduce_seconds(machine, group, bytes), std::min(ring, trees)));
        CHECK(near(reduce_scatter_seconds(machine, group, bytes), ring / 2));
        CHECK(near(all_gather_seconds(machine, group, bytes), ring / 2));
        CHECK(near(broadcast_seconds(machine, group, bytes), rounds + bytes / 100));
        CHECK(near(exchange_seconds(machine, group, bytes), 1 + bytes / 100));
      }
    }
  }
}

TEST_CASE("one rank a node: the same over the links between nodes") {
  Machine const machine = plain();
  for (int const n : {2, 3, 8, 100}) {
    CAPTURE(n);
    for (int const stride : {8, 16}) {
      double const bytes = 1000;
      double const rounds = std::ceil(std::log2(n));
      double const ring = 2 * (n - 1) * 5.0 + 2.0 * (n - 1) / n * bytes / 10;
      double const trees = 2 * rounds * 5.0 + 2 * bytes / 10;
      CHECK(near(all_reduce_seconds(machine, {n, stride}, bytes), std::min(ring, trees)));
      CHECK(near(reduce_scatter_seconds(machine, {n, stride}, bytes), ring / 2));
      CHECK(near(broadcast_seconds(machine, {n, stride}, bytes), rounds * 5 + bytes / 10));
      CHECK(near(exchange_seconds(machine, {n, stride}, bytes), 5 + bytes / 10));
    }
  }
}

// Rings over devices in order, one for each rank of a node, at once; each leaves a node by a device
// of its own and has its share of the links inside. Steps wait for each other.
double rings_step_by_step(Machine const& machine, DeviceGroup const& group, double bytes) {
  GroupSpan const span = span_of(machine, group);
  double time = 0;
  for (int step = 0; step < group.ranks - 1; ++step) {
    double slowest = 0;
    for (int rank = 0; rank < group.ranks; ++rank) {
      int const next = (rank + 1) % group.ranks;
      bool const stays = rank * group.stride / machine.devices_per_node ==
                         next * group.stride / machine.devices_per_node;
      LinkSpeed link = stays ? machine.inside : machine.between;
      link.bandwidth /= stays ? span.least : 1;
      slowest = std::max(slowest, link.seconds(bytes / span.least / group.ranks));
    }
    time += slowest;
  }
  return time;
}

TEST_CASE("across nodes: no slower than rings, and rings within nodes and between them") {
  std::mt19937 random{3};
  int flat_wins = 0;
  int nested_wins = 0;
  for (int trial = 0; trial < 500; ++trial) {
    Machine machine = plain();
    machine.devices_per_node = 1 << (random() % 5);
    machine.inside.bandwidth = static_cast<double>(1 + random() % 200);
    machine.between.latency = static_cast<double>(1 + random() % 10);
    int const stride = 1 << (random() % 3);
    int const ranks = 1 << (1 + random() % 8);
    double const bytes = static_cast<double>(random() % 100'000);
    DeviceGroup const group{ranks, stride};
    GroupSpan const span = span_of(machine, group);
    double const flat = rings_step_by_step(machine, group, bytes);
    Machine const lone{.inside = machine.between, .between = machine.between};
    double const nested = reduce_scatter_seconds(machine, {span.most, stride}, bytes) +
                          reduce_scatter_seconds(lone, {span.nodes, 1}, bytes / span.most);
    double const seconds = reduce_scatter_seconds(machine, group, bytes);
    REQUIRE(near(seconds, std::min(flat, nested)));
    REQUIRE(all_gather_seconds(machine, group, bytes) == seconds);
    REQUIRE(all_reduce_seconds(machine, group, bytes) <= 2 * seconds * (1 + 1e-12));
    if (span.nodes > 1 && span.most > 1) {
      flat_wins += flat < nested ? 1 : 0;
      nested_wins += nested < flat ? 1 : 0;
    }
  }
  CHECK(flat_wins > 20);
  CHECK(nested_wins > 20);
}

TEST_CASE("two nodes of 8: each of the three ways is the fastest somewhere") {
  Machine machine = plain();
  DeviceGroup const group{16, 1};
  // Small messages: the depth of the trees, 3 rounds inside and one between, up and down.
  CHECK(near(all_reduce_seconds(machine, group, 0), 2 * (3 * 1 + 5)));
  CHECK(near(all_reduce_seconds(machine, group, 1000), 2 * (8 + 1000.0 / 8 / 10)));
  // Large ones: a ring, links of 100 and 80 bytes a second being nearly the same.
  double const large = 1e6;
  CHECK(near(all_reduce_seconds(machine, group, large), 30 * (5 + large / 16 / 8 / 10)));
  machine.inside.bandwidth = 70;  // now the bottleneck
  CHECK(near(all_reduce_seconds(machine, group, large), 30 * (1 + large / 16 / 70)));
  // Faster links inside: rings in nodes, so that half of an eighth leaves each device, twice.
  machine.inside.bandwidth = 1000;
  CHECK(near(all_reduce_seconds(machine, group, large),
             14 * (1 + large / 8 / 1000) + 2 * (5 + large / 8 / 2 / 10)));
}

TEST_CASE("groups that reduce at once share the adapters of their nodes") {
  Machine machine = plain();
  machine.inside = {.bandwidth = 1e9, .latency = 0};
  machine.between.latency = 0;
  double const bytes = 8000;
  // Two nodes. 16 ranks use all adapters; of 8 groups {d, d + 8} each has an eighth of them.
  // Inside costs next to nothing; half of the bytes leave a node.
  auto const rate = [&](DeviceGroup const& group) {
    return bytes / 2 / reduce_scatter_seconds(machine, group, bytes);
  };
  CHECK(rate({16, 1}) == doctest::Approx(80));
  CHECK(rate({8, 2}) == doctest::Approx(40));
  CHECK(rate({4, 4}) == doctest::Approx(20));
  CHECK(rate({2, 8}) == doctest::Approx(10));
}

TEST_CASE("one rank costs nothing; more bytes cost more, more ranks not less") {
  for (std::string_view const name : machine_names) {
    CAPTURE(std::string{name});
    Machine machine = *find_machine(name);
    machine.nodes = 0;
    for (Seconds const seconds : collectives) {
      for (int const stride : {1, 2, 8}) {
        CHECK(seconds(machine, {1, stride}, 1e6) == 0);
        double fewer = 0;
        for (int ranks = 2; ranks <= 1024; ranks *= 2) {
          CAPTURE(ranks);
          double before = 0;
          for (double bytes = 1; bytes < 1e12; bytes *= 3) {
            double const now = seconds(machine, {ranks, stride}, bytes);
            CHECK(now > before);
            before = now;
          }
          if (machine.devices_per_node == 72) {
            continue;  // a last node that is not full is a bottleneck, which more ranks fill
          }
          double const now = seconds(machine, {ranks, stride}, 1e8);
          CHECK(now >= fewer);
          fewer = now;
        }
      }
      CHECK(seconds(machine, {8, machine.devices_per_node}, 1e8) >= seconds(machine, {8, 1}, 1e8));
    }
  }
}

TEST_CASE("messages from device to device") {
  Machine const machine = plain();
  CHECK(send_seconds(machine, 3, 3, 1000) == 0);
  CHECK(send_seconds(machine, 0, 7, 1000) == 11);
  CHECK(send_seconds(machine, 15, 8, 1000) == 11);
  CHECK(send_seconds(machine, 7, 8, 1000) == 105);
}

TEST_CASE("what is no group is refused") {
  Machine machine = plain();
  machine.nodes = 2;
  CHECK_THROWS_WITH_AS(static_cast<void>(span_of(machine, {0, 1})),
                       doctest::Contains("a rank or more"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(all_reduce_seconds(machine, {2, 0}, 1)),
                       doctest::Contains("a stride of at least 1"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(broadcast_seconds(machine, {17, 1}, 1)),
                       doctest::Contains("fewer devices than the group needs"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(exchange_seconds(machine, {2, 1}, -1)),
                       doctest::Contains("not negative"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(send_seconds(machine, 0, 16, 1)),
                       doctest::Contains("devices that the machine has"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(send_seconds(machine, 0, 1, -1)),
                       doctest::Contains("not negative"), ContractError);
}

}  // namespace collectives_test
