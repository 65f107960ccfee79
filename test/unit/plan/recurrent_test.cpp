// SPDX-License-Identifier: Apache-2.0
// What planners know of recurrent networks: a layer's time is that of its rows one after the other,
// a sampled softmax reads its sample; GNMT and BigLSTM gain on two GPUs what was measured on them.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/models/big_lstm.hpp>
#include <tandem/models/gnmt.hpp>
#include <tandem/plan/cost/big_lstm_graph.hpp>
#include <tandem/plan/cost/gnmt_graph.hpp>
#include <tandem/plan/cost/pipedream_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/search/search.hpp>

#include <profiles_folder.hpp>
#include <same_graph.hpp>

#include "../bench/plan/two_way/gains.hpp"

namespace recurrent_test {

using namespace tandem;

Machine counting(double math, double bandwidth, double launch) {
  Machine machine = two_cpus();
  machine.peak = {.fp64 = math, .fp32 = math, .tf32 = math, .bf16 = math};
  machine.efficiency = 1;
  machine.memory_bandwidth = bandwidth;
  machine.launch_overhead = launch;
  return machine;
}

struct Net
    : Network<Tokens<8, 40>, Sequential<Embedding<40, 16>, Lstm<12, Projection<6>>,
                                        Gru<10, Bidirectional>, Vocabulary<40, Sampled<9>>>> {};
constexpr int lstm = 2;
constexpr int gru = 3;
constexpr int vocabulary = 4;

double forward(int node, Machine const& machine) {
  return static_costs(graph<Net>, machine, MathPrecision::fp32, 3).node[node].forward;
}

TEST_CASE("a recurrent layer's rows are computed one after the other, in each direction") {
  Machine const launches = counting(1e18, 1e18, 1);
  CHECK(forward(lstm, launches) == doctest::Approx(1 + 8));
  CHECK(forward(gru, launches) == doctest::Approx(1 + 2 * 8));
  CHECK(static_costs(graph<Net>, launches, MathPrecision::fp32, 3).node[lstm].backward ==
        doctest::Approx(2 * 9));

  Machine const products = counting(1, 1e18, 0);
  CHECK(forward(lstm, products) == doctest::Approx(2.0 * 3 * 8 * (48 * 16 + 48 * 6 + 6 * 12)));
  CHECK(forward(gru, products) == doctest::Approx(2.0 * 3 * 8 * 2 * (30 * 6 + 30 * 10)));
}

TEST_CASE("the weights of its states are read for each row, all others once") {
  Machine const bytes = counting(1e18, 1, 0);
  Node const& node = graph<Net>.node[lstm];
  double const once = 3 * (8 * 16 + 8 * 6 + double(node.kept.scalars)) + 48 * 16 + 2 * 48;
  CHECK(forward(lstm, bytes) == doctest::Approx(4 * (once + 8 * (48 * 6 + 6 * 12))));
}

TEST_CASE("a sampled softmax reads its words, and writes the gradient of all") {
  Machine const bytes = counting(1e18, 1, 0);
  Node const& node = graph<Net>.node[vocabulary];
  double const rows = 3 * (8 * 20 + 8 * 3 + double(node.kept.scalars));
  double const read = 10 * (20 + 1);
  CHECK(forward(vocabulary, bytes) == doctest::Approx(4 * (rows + read)));
  double const backward =
      static_costs(graph<Net>, bytes, MathPrecision::fp32, 3).node[vocabulary].backward;
  CHECK(backward == doctest::Approx(4 * (2 * (rows + 3 * 8 * 3 + read) + 40 * 21 - read)));
}

struct Translates : models::Gnmt<32'000, 1024, 4> {};
struct Predicts : models::BigLstm<793'470, 8192, 1024, 2, Stateful, RowGradient> {};

TEST_CASE("graphs of sizes are those of the types") {
  test::check_same(GnmtGraph{{}}.view(), graph<Translates>);
  test::check_same(GnmtGraph{{40, 16, 2, 7}}.view(), graph<models::Gnmt<40, 16, 2, 7>>);
  test::check_same(BigLstmGraph{{}}.view(), graph<Predicts>);
  BigLstmGraph const small{{.vocabulary = 90, .states = 12, .projection = 6, .sampled = 30}};
  test::check_same(small.view(),
                   graph<models::BigLstm<90, 12, 6, 2, Sampled<30>, Stateful, RowGradient>>);
  CHECK_THROWS_AS(GnmtGraph({.layers = 1}), ContractError);
  CHECK_THROWS_AS(BigLstmGraph({.vocabulary = 8192}), ContractError);
}

/// The steps of workers of one and two V100.
WorkerSteps steps_of(GraphView network, int batch, double samples, double bytes_of_parameter) {
  Machine large = dgx1_v100();
  large.memory *= 2;  // BigLSTM does not fit into 16 GB
  SearchTask const task{.machine = large,
                        .batch_per_worker = batch,
                        .samples = samples,
                        .bytes_of_parameter = bytes_of_parameter,
                        .most_devices_a_worker = 2,
                        .network = network};
  return {task, [&](int of) { return static_costs(network, large, MathPrecision::fp32, of); }};
}

/// The time of one device over that of the best synchronous pipeline of two.
double gain_of_two(WorkerSteps const& steps) {
  double one = 0.0;
  double two = 1e30;
  for (WorkerSteps::One const& found : steps.all()) {
    bool const usable = found.step.problem.empty() && !found.strategy.asynchrony().on();
    if (usable && found.strategy.replica_devices() == 1 && found.strategy.checkpoint.every == 0) {
      one = found.step.seconds;
    } else if (usable && found.strategy.replica_devices() == 2 &&
               !detail::has_two_copies(found.strategy.schedule)) {
      two = std::min(two, found.step.seconds);
    }
  }
  return one / two;
}

/// The first of these numbers of devices from which on a hybrid converges first; 0: none.
int hybrid_from(WorkerSteps const& steps, char const* epochs, std::vector<int> const& devices) {
  EpochCurve const curve = EpochCurve::measured(parse_epoch_points(epochs));
  int from = 0;
  for (int const count : devices) {
    bool const wins = hybrid_gain(search_plans(steps, curve, count)) > 0;
    from = !wins ? 0 : from > 0 ? from : count;
  }
  return from;
}

// Batches and epochs of Pal et al. 2019 as docs/planner.md has them, with their speedups and the
// devices from which on their hybrids win.
TEST_CASE("GNMT: two V100 gain 1.15 or more, and a hybrid wins from 256 on") {
  WorkerSteps const steps = steps_of(graph<Translates>, 128, 3.5e6, 4);
  double const gain = gain_of_two(steps);
  CHECK(gain >= two_way::published_gnmt);
  CHECK(gain < 2.0);
  CHECK(hybrid_from(steps, "16384:5,32768:10", {2, 8, 32, 64, 128, 256}) == 256);
}

TEST_CASE("BigLSTM: two V100 gain 1.22 or more, and a hybrid wins from 32 on") {
  WorkerSteps const steps = steps_of(graph<Predicts>, 64, 4e7, 3);
  double const gain = gain_of_two(steps);
  CHECK(gain >= two_way::published_big_lstm);
  CHECK(gain < 2.0);
  CHECK(hybrid_from(steps, "1024:5,2048:16", {2, 4, 8, 16, 32}) == 32);
}

/// The step in seconds and the bytes of a device, data parallel on so many.
struct DataParallelStep {
  double seconds;
  double bytes;
};

DataParallelStep data_parallel(WorkerSteps const& steps, int devices) {
  EpochCurve const curve = EpochCurve::measured(parse_epoch_points("1024:5,2048:16"));
  for (Plan const& plan : search_plans(steps, curve, devices)) {
    if (plan.workers == devices && plan.worker.batching.microbatches == 1 &&
        plan.worker.checkpoint.every == 0 && plan.shard == Sharding::none) {
      return {plan.time.step, plan.step.memory};
    }
  }
  return {};
}

struct Dense : models::BigLstm<793'470, 8192, 1024, 2, Stateful> {};

TEST_CASE("what gradients of rows spare BigLSTM, as docs/planner.md has it") {
  WorkerSteps const by_rows = steps_of(graph<Predicts>, 64, 4e7, 3);
  WorkerSteps const dense = steps_of(graph<Dense>, 64, 4e7, 3);
  double const rows_ms[]{130.6, 133.1, 134.5, 135.3, 144.3, 150.2};
  double const rows_gb[]{15.5, 15.6, 15.7, 15.9, 16.4, 17.3};
  double const dense_ms[]{137.8, 164.9, 178.6, 186.0, 333.3, 398.8};
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    DataParallelStep const rows = data_parallel(by_rows, 1 << i);
    CHECK(1e3 * rows.seconds == doctest::Approx(rows_ms[i]).epsilon(5e-4));
    CHECK(rows.bytes / 1e9 == doctest::Approx(rows_gb[i]).epsilon(4e-3));
    DataParallelStep const all = data_parallel(dense, 1 << i);
    CHECK(1e3 * all.seconds == doctest::Approx(dense_ms[i]).epsilon(5e-4));
    CHECK(all.bytes / 1e9 == doctest::Approx(21.9).epsilon(4e-3));
  }
}

TEST_CASE("the same gains by costs that were measured on a V100") {
  for (two_way::Tried const tried : {two_way::Tried::gpipe, two_way::Tried::all}) {
    two_way::Gain const samples = two_way::big_lstm_microbatches(graph<Predicts>, tried);
    CHECK(samples.one == doctest::Approx(0.6059).epsilon(1e-4));
    CHECK(samples.two ==
          doctest::Approx(tried == two_way::Tried::all ? 0.3439 : 0.3921).epsilon(3e-4));
  }
  CHECK(two_way::big_lstm_chunks(graph<Predicts>, 5).two == doctest::Approx(0.3765).epsilon(3e-4));
  CHECK(two_way::big_lstm_chunks(graph<Predicts>, 20).two == doctest::Approx(0.3317).epsilon(3e-4));
  for (int const chunks : {2, 5, 20}) {  // p K / (K + p - 1), of two equal stages
    CAPTURE(chunks);
    two_way::Gain const time = two_way::big_lstm_chunks(graph<Predicts>, chunks);
    CHECK(time.speedup() >= two_way::published_big_lstm);
    CHECK(time.speedup() < 2.0 * chunks / (chunks + 1));
  }
  if (std::string const folder = test::profiles_folder(); !folder.empty()) {
    CostGraph const profile = read_pipedream_graph(folder + "gnmt.txt");
    CHECK(two_way::gnmt(profile, two_way::Tried::gpipe).two ==
          doctest::Approx(0.2301).epsilon(3e-4));
    CHECK(two_way::gnmt(profile).two == doctest::Approx(0.1886).epsilon(3e-4));
    for (CostGraph const& costs : {profile, two_way::with_even_backward(profile)}) {
      double const gpipe = two_way::gnmt(costs, two_way::Tried::gpipe).speedup();
      two_way::Gain const gain = two_way::gnmt(costs);
      CHECK(gain.one == doctest::Approx(0.3577).epsilon(3e-4));
      CHECK(gpipe >= two_way::published_gnmt);
      CHECK(gpipe < 2.0 * 4 / 5);  // of two equal stages
      CHECK(gain.speedup() >= gpipe);
      CHECK(gain.speedup() < 2.0);
    }
  }
}

}  // namespace recurrent_test
