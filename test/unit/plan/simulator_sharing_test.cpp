// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <unit/plan/simulator_cases.hpp>

namespace tandem::test {
namespace simulator_sharing_test {

using namespace simulator_cases;

/// Rates by another way: all flows grow at one pace, in steps, until a port of theirs is full.
std::vector<double> grown_rates(std::vector<double> const& capacity,
                                std::vector<detail::PortRoute> const& routes, double pace) {
  std::vector<double> rate(routes.size(), 0);
  std::vector<char> stopped(routes.size(), 0);
  while (std::count(stopped.begin(), stopped.end(), 0) > 0) {
    std::vector<double> used(capacity.size(), 0);
    for (std::size_t i = 0; i < routes.size(); ++i) {
      for (int const p : routes[i]) {
        used[static_cast<std::size_t>(p)] += rate[i] + (stopped[i] != 0 ? 0 : pace);
      }
    }
    for (std::size_t i = 0; i < routes.size(); ++i) {
      for (int const p : routes[i]) {
        bool const full = used[static_cast<std::size_t>(p)] > capacity[static_cast<std::size_t>(p)];
        stopped[i] = stopped[i] != 0 || full;
      }
      rate[i] += stopped[i] != 0 ? 0 : pace;
    }
  }
  return rate;
}

TEST_CASE("shares are feasible, as large as those of flows that grow, and cannot be fairer") {
  std::mt19937 random{7};
  for (int round = 0; round < 200; ++round) {
    std::vector<double> capacity;
    for (int p = 0; p < 8; ++p) {
      capacity.push_back(1 + below(random, 9));
    }
    std::vector<detail::PortRoute> routes(1 + static_cast<std::size_t>(below(random, 10)));
    for (detail::PortRoute& route : routes) {
      int const first = below(random, 4);
      route = {.port = {first, 4 + below(random, 4), (first + 1) % 4},
               .ports = 1 + below(random, 3)};
    }
    std::vector<double> rate;
    detail::FairShares{capacity}.share(routes, rate);
    std::vector<double> used(capacity.size(), 0);
    std::vector<double> most(capacity.size(), 0);
    for (std::size_t i = 0; i < routes.size(); ++i) {
      for (int const p : routes[i]) {
        auto const at = static_cast<std::size_t>(p);
        used[at] += rate[i];
        most[at] = std::max(most[at], rate[i]);
      }
    }
    std::vector<double> const grown = grown_rates(capacity, routes, 1e-3);
    for (std::size_t i = 0; i < routes.size(); ++i) {
      bool bottleneck = false;  // a full port of which nobody has more than this flow
      for (int const p : routes[i]) {
        auto const at = static_cast<std::size_t>(p);
        CHECK(used[at] <= capacity[at] * (1 + 1e-12));
        bottleneck = bottleneck ||
                     (used[at] >= capacity[at] * (1 - 1e-12) && rate[i] >= most[at] * (1 - 1e-12));
      }
      CHECK(bottleneck);
      CHECK(std::abs(rate[i] - grown[i]) < 0.02);
    }
  }
}

struct Sent {
  int from;
  int to;
  double bytes;
  double begin = 0;
};

std::vector<double> ends(Machine const& machine, int devices, std::vector<Sent> const& all) {
  detail::MachinePorts const ports{machine, devices};
  detail::SimulatorJobs jobs;
  std::vector<int> job;
  for (Sent const& sent : all) {
    int const before = jobs.add(sent.begin);
    job.push_back(jobs.add_message(sent.from, sent.to, sent.bytes));
    jobs.order(before, job.back());
  }
  std::vector<PlacementSpan> const span = detail::JobRun{jobs, ports, true}.run();
  std::vector<double> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(span[static_cast<std::size_t>(job[i])].begin == all[i].begin);
    result.push_back(span[static_cast<std::size_t>(job[i])].end);
  }
  return result;
}

using Ends = std::vector<double>;

TEST_CASE("two messages over one port take twice as long, over two no longer") {
  Machine const machine = one_node(4, 2, 3);
  CHECK(ends(machine, 4, {{0, 1, 10}}) == Ends{8});
  CHECK(ends(machine, 4, {{0, 1, 10}, {0, 2, 10}}) == Ends{13, 13});  // out of 0
  CHECK(ends(machine, 4, {{1, 0, 10}, {2, 0, 10}}) == Ends{13, 13});  // into 0
  CHECK(ends(machine, 4, {{0, 1, 10}, {1, 0, 10}}) == Ends{8, 8});    // both ways
  CHECK(ends(machine, 4, {{0, 1, 10}, {2, 3, 10}}) == Ends{8, 8});
  // The shorter ends after 10 s and 10 bytes of each; the rest has the port for itself.
  CHECK(ends(machine, 4, {{0, 1, 10}, {0, 2, 30}}) == Ends{13, 23});
  CHECK(ends(machine, 4, {{0, 1, 30}, {0, 2, 10, 5}}) == Ends{23, 18});
  CHECK(ends(machine, 4, {{0, 1, 0}, {0, 2, 10}}) == Ends{3, 8});
}

TEST_CASE("three nodes of two devices: adapters of a device's own, or shared by the node") {
  Machine machine = one_node(2, 100, 0);
  machine.between = {.bandwidth = 1, .latency = 0};  // a node has 2 bytes a second
  CHECK(ends(machine, 6, {{0, 2, 6}, {1, 4, 6}}) == Ends{6, 6});
  CHECK(ends(machine, 6, {{0, 2, 6}, {4, 2, 6}}) == Ends{12, 12});
  CHECK(ends(machine, 6, {{2, 0, 6}, {2, 4, 6}}) == Ends{12, 12});
  machine.adapters = 1;
  CHECK(ends(machine, 6, {{0, 2, 6}}) == Ends{3});
  CHECK(ends(machine, 6, {{0, 2, 6}, {1, 4, 6}}) == Ends{6, 6});
  CHECK(ends(machine, 6, {{0, 2, 6}, {1, 0, 100}}) == Ends{3, 1});  // inside is apart
  // Node 2 takes 0 → 4, 1 → 5, 2 → 4 at 2/3 each; node 1 has 4/3 left for 3 → 0, then 2.
  CHECK(ends(machine, 6, {{0, 4, 2}, {1, 5, 2}, {2, 4, 2}, {3, 0, 8}})[3] == doctest::Approx(5));
  CHECK(ends(machine, 6, {{0, 4, 2}, {1, 5, 2}, {2, 4, 2}, {3, 0, 8}})[0] == doctest::Approx(3));
}

TEST_CASE("a DGX-1 with four adapters: a device alone has one, all eight have half of one each") {
  Machine const machine = dgx1_v100();  // 6.25 GB/s a device, of which links achieve a share
  double const latency = machine.between.latency;
  double const whole = latency + 1e9 / (link_share * 12.5e9);
  double const half = latency + 1e9 / (link_share * 6.25e9);
  CHECK(ends(machine, 16, {{0, 8, 1e9}})[0] == doctest::Approx(whole));
  std::vector<Sent> all;
  for (int d = 0; d < 8; ++d) {
    all.push_back({d, 8 + d, 1e9});
    Ends const so_far = ends(machine, 16, all);
    CHECK(so_far[0] == doctest::Approx(d < 4 ? whole : latency + (whole - latency) * (d + 1) / 4));
  }
  CHECK(ends(machine, 16, all)[7] == doctest::Approx(half));
}

TEST_CASE("random messages end when those of a run in small steps end") {
  std::mt19937 random{11};
  constexpr double step = 1e-3;
  for (int round = 0; round < 12; ++round) {
    Machine machine = one_node(2, 3, 0);
    machine.between = {.bandwidth = 1, .latency = 0};
    machine.adapters = 1 + round % 2;
    std::vector<Sent> all;
    for (int i = 0; i < 7; ++i) {
      int const from = below(random, 6);
      all.push_back({from, (from + 1 + below(random, 5)) % 6, 1.0 + below(random, 5),
                     0.5 * below(random, 6)});
    }
    Ends const exact = ends(machine, 6, all);
    detail::MachinePorts const ports{machine, 6};
    Ends left;
    for (Sent const& sent : all) {
      left.push_back(sent.bytes);
    }
    Ends slow(all.size(), 0);
    std::vector<std::size_t> on_way;
    std::vector<double> rate;
    for (int tick = 0; std::count(slow.begin(), slow.end(), 0) > 0; ++tick) {
      double const now = tick * step;
      std::vector<std::size_t> next;
      std::vector<detail::PortRoute> routes;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].begin <= now + step / 2 && left[i] > 0) {
          next.push_back(i);
          routes.push_back(ports.route(all[i].from, all[i].to));
        }
      }
      if (next != on_way) {
        rate = grown_rates(ports.capacity(), routes, 1e-3);
        on_way = next;
      }
      for (std::size_t k = 0; k < on_way.size(); ++k) {
        left[on_way[k]] -= rate[k] * step;
        slow[on_way[k]] = left[on_way[k]] <= 0 ? now + step : 0;
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(exact[i] == doctest::Approx(slow[i]).epsilon(0.02));
    }
  }
}

TEST_CASE("a step whose stage sends to two devices, and one whose workers share a node") {
  StageMap<3, 2> map{.devices = 3, .links = 2};
  map.device[1] = 1;
  map.device[2] = 2;
  map.edge[0] = {0, 1, 0};
  map.edge[1] = {0, 2, 1};
  ActionRows passes(3);
  for (int d = 0; d < 3; ++d) {
    auto const stage = static_cast<std::int16_t>(d);
    passes[static_cast<std::size_t>(d)] = {{ActionKind::forward, 0, stage, 0},
                                           {ActionKind::backward, 0, stage, 0}};
  }
  SimulatedCosts const costs = costs_of(RuntimeMap{map}, {.forward = 1, .backward = 2}, 10);
  ActionRows const table = lower(passes, map);
  // Both messages leave device 0 at 1, then come back into it at 1 + t + 3.
  CHECK(simulate_on(one_node(3, 2, 0), table, map, costs, {.shares_links = false}).makespan == 16);
  CHECK(simulate_on(one_node(3, 2, 0), table, map, costs).makespan == 26);

  Machine machine = one_node(2, 1e9, 0);  // devices 0, 1 | 2, 3 | 4, 5 of workers 0 0 0 1 1 1
  machine.between = {.bandwidth = 1, .latency = 0};
  RuntimeMap const chain = make_map("gpipe", 3);
  ActionRows const rows = lower(make_schedule("gpipe", 3, 1), chain);
  SimulatedCosts load = costs_of(chain, {.forward = 1, .backward = 1}, 4);
  // Worker 0 crosses behind its second stage at 2, worker 1 behind its first at 1: other ways.
  SimulatedStep const own = simulate_on(machine, rows, chain, load, {.workers = 2});
  CHECK(own.makespan == doctest::Approx(6 + 4 + 4));
  load.stage[1].forward = 0.5;
  load.stage[0].backward = load.stage[1].backward = 1;
  for (int const adapters : {1, 2}) {
    machine.adapters = adapters;
    SimulationOptions options{.workers = 2};
    SimulatedStep const shared = simulate_on(machine, rows, chain, load, options);
    options.shares_links = false;
    SimulatedStep const alone = simulate_on(machine, rows, chain, load, options);
    CHECK(shared.makespan >= alone.makespan);
    CHECK(alone.makespan == doctest::Approx(5.5 + (adapters == 1 ? 4 : 8)));
  }
}

TEST_CASE("no schedule is faster where links are shared") {
  Machine machine = one_node(2, 8, 0.25);
  machine.between = {.bandwidth = 4, .latency = 0.5};
  machine.adapters = 1;
  for (One const& one : all_schedules()) {
    if (one.microbatches % one.devices != 0) {
      continue;
    }
    RuntimeMap const map = make_map(one.name, one.devices, one.chunks);
    SimulatedCosts const costs = costs_of(map, {.forward = 1, .backward = 2}, 3);
    for (int const workers : {1, 3}) {
      SimulationOptions options{.workers = workers, .depth = 2};
      SimulatedStep const shared = simulate_on(machine, one.table(map), map, costs, options);
      options.shares_links = false;
      SimulatedStep const alone = simulate_on(machine, one.table(map), map, costs, options);
      CHECK(shared.makespan >= alone.makespan * (1 - 1e-12));
      CHECK(alone.message.size() == shared.message.size());
    }
  }
}

}  // namespace simulator_sharing_test
}  // namespace tandem::test
