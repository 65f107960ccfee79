// SPDX-License-Identifier: Apache-2.0
// What planners know of gradients of rows: replicas gather them, nothing of a table's size is
// written, summed or kept for them, and what the compiler refuses is not recommended.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/gradient_rows.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/simulate_worker.hpp>

namespace row_gradient_costs_test {

using namespace tandem;

constexpr int words = 90'000;
constexpr int drawn = 40;
constexpr int time = 5;
constexpr int batch = 8;  // of a worker

template <class... Options>
struct Net : Network<Tokens<time, words>,
                     Sequential<Embedding<words, 16, Options...>, Linear<64>, Linear<16>,
                                Vocabulary<words, Sampled<drawn>, Options...>>> {};
using Dense = Net<>;
using Rows = Net<RowGradient>;
constexpr int embedding = 1;
constexpr int softmax = 4;

template <class N>
CostGraph costs(int samples, Machine const& machine = dgx1_v100()) {
  return static_costs(graph<N>, machine, MathPrecision::fp32, samples);
}

// Numbers of rows and values, without what aligns them.
constexpr double bytes_of(int rows, int width) { return rows * (4.0 + 4.0 * width); }

TEST_CASE("a replica's rows: of each microbatch, and once of what the step draws") {
  CostGraph const dense = costs<Dense>(2);
  CostGraph const rows = costs<Rows>(2);
  for (int const n : {embedding, softmax}) {
    auto const at = static_cast<std::size_t>(n);
    CHECK(rows.node[at].parameter_bytes == dense.node[at].parameter_bytes);
    CHECK(rows.node[at].dense_bytes() == 0);
    CHECK(dense.node[at].dense_bytes() == static_cast<double>(dense.node[at].parameter_bytes));
    CHECK(dense.node[at].rows.bytes(7) == 0);
  }
  CHECK(rows.node[2].dense_bytes() == 4 * (16 * 64 + 64));
  RowCosts const& of_words = rows.node[embedding].rows;
  CHECK(of_words.bytes() == bytes_of(2 * time, 16));
  CHECK(of_words.bytes(4) == bytes_of(4 * 2 * time, 16));
  RowCosts const& of_softmax = rows.node[softmax].rows;
  CHECK(of_softmax.bytes() == bytes_of(drawn + 2 * time, 16) + bytes_of(drawn + 2 * time, 1));
  CHECK(of_softmax.bytes(4) ==
        bytes_of(drawn + 4 * 2 * time, 16) + bytes_of(drawn + 4 * 2 * time, 1));
  CHECK(of_words.bytes(words) == bytes_of(words, 16));  // there are no more
  // What the engine sends, but for padding to 64 bytes.
  CHECK(of_words.bytes(4) <= static_cast<double>(gradient_rows_bytes(4 * 2 * time, 16, 4)));
  CHECK(of_words.bytes(4) + 256 > static_cast<double>(gradient_rows_bytes(4 * 2 * time, 16, 4)));
}

TEST_CASE("backward does not write a gradient of all words") {
  double const of_words = 4.0 * words * 16 / dgx1_v100().memory_bandwidth;
  for (int const n : {embedding, softmax}) {
    auto const at = static_cast<std::size_t>(n);
    double const spared = costs<Dense>(2).node[at].backward - costs<Rows>(2).node[at].backward;
    CHECK(spared > 0.99 * of_words);
    CHECK(spared < 1.07 * of_words);  // and biases
  }
}

TEST_CASE("the seconds of gradients: sums of dense ones, and rows that all gather") {
  Machine const machine = dgx1_v100();
  DeviceGroup const four{4, 1};
  CHECK(gradient_seconds(machine, four, 1e6, 0) == all_reduce_seconds(machine, four, 1e6));
  CHECK(gradient_seconds(machine, four, 0, 1e5) == all_gather_seconds(machine, four, 4e5));
  CHECK(gradient_seconds(machine, four, 1e6, 1e5) ==
        all_reduce_seconds(machine, four, 1e6) + all_gather_seconds(machine, four, 4e5));
  CHECK(gradient_seconds(machine, four, 0, 0) == all_reduce_seconds(machine, four, 0));
}

template <class N>
WorkerSteps steps_of(int devices) {
  SearchTask const task{.machine = dgx1_v100(),
                        .batch_per_worker = batch,
                        .samples = 1e5,
                        .most_devices_a_worker = devices,
                        .late_gradients = true,
                        .network = graph<N>};
  return WorkerSteps{task, [](int samples) { return costs<N>(samples); }};
}

EpochCurve epochs() { return EpochCurve::measured(parse_epoch_points("8:4,64:9")); }

TEST_CASE("data parallel workers wait for few bytes, and hold each other's rows") {
  WorkerSteps const dense = steps_of<Dense>(1);
  WorkerSteps const rows = steps_of<Rows>(1);
  double held = 0;
  for (int const workers : {2, 4, 8}) {
    CAPTURE(workers);
    Plan const of_dense = search_plans(dense, epochs(), workers).front();
    Plan const of_rows = search_plans(rows, epochs(), workers).front();
    REQUIRE(of_rows.feasible());
    CHECK(of_rows.reduction < 0.25 * of_dense.reduction);
    // Neither gradient of a table, but all workers' rows, each beside the sum.
    CHECK(of_rows.step.memory < of_dense.step.memory - 8.0 * words * 16);
    CHECK(of_rows.step.memory > held);
    held = of_rows.step.memory;
  }
  CHECK(rows.all().front().step.memory < held);  // of one worker alone
}

TEST_CASE("pipelines gather rows where the layer is; the simulator waits as long") {
  WorkerSteps const steps = steps_of<Rows>(2);
  int seen = 0;
  for (WorkerSteps::One const& one : steps.all()) {
    if (one.strategy.schedule != "one_f_one_b" || one.strategy.repeats_stages()) {
      continue;
    }
    ++seen;
    CAPTURE(one.strategy.batching.microbatches);
    REQUIRE(one.step.problem.empty());
    CostGraph const whole = costs<Rows>(batch / one.strategy.batching.microbatches);
    double const both = whole.node[embedding].rows.bytes(one.strategy.batching.microbatches) +
                        whole.node[softmax].rows.bytes(one.strategy.batching.microbatches);
    REQUIRE(one.step.row_bytes.size() == 2);
    CHECK(one.step.row_bytes[0] + one.step.row_bytes[1] == both);
    CHECK(one.step.gradient_bytes[0] + one.step.gradient_bytes[1] ==
          4 * (16 * 64 + 64 + 64 * 16 + 16));
    SimulatedStep const simulated =
        simulate_worker(one.strategy, one.step, whole, dgx1_v100(), {.workers = 2});
    double last = 0;
    for (std::size_t d = 0; d < 2; ++d) {
      double const sums =
          gradient_seconds(dgx1_v100(), {2, 2}, one.step.gradient_bytes[d], one.step.row_bytes[d]);
      REQUIRE(simulated.device[d].reduction.size() == 1);
      PlacementSpan const& span = simulated.device[d].reduction[0].span;
      CHECK(1e9 * (span.end - span.begin) == doctest::Approx(1e9 * sums));
      last = std::max(last, one.step.done[d] + sums);
    }
    CHECK(1e9 * simulated.makespan == doctest::Approx(1e9 * last));
  }
  CHECK(seen > 0);
}

struct Lives
    : Network<Tokens<time, 50>, Sequential<Embedding<50, 8>, Lstm<8, Stateful>, Vocabulary<50>>> {};

TEST_CASE("what the compiler refuses is not recommended, with its reason") {
  WorkerSteps const rows = steps_of<Rows>(2);
  WorkerSteps const lives = steps_of<Lives>(2);
  for (WorkerSteps::One const& one : rows.all()) {
    CAPTURE(one.strategy.schedule);
    bool const late = one.strategy.asynchrony().on();
    if (late || detail::has_two_copies(one.strategy.schedule)) {
      CHECK(one.step.problem == detail::sentence_of(late ? detail::Rule::rows_asynchronous
                                                         : detail::Rule::rows_two_copies));
    } else if (one.strategy.cut != CutKind::placed) {
      CHECK(one.step.problem == "");
    }
  }
  for (WorkerSteps::One const& one : lives.all()) {
    CAPTURE(one.strategy.schedule);
    bool const fits = one.strategy.replica_devices() * one.strategy.stages_a_device <= 3 &&
                      one.strategy.cut != CutKind::placed;
    bool const late = one.strategy.asynchrony().on();
    if (fits) {
      CHECK(one.step.problem ==
            (late ? detail::sentence_of(detail::Rule::states_asynchronous) : ""));
    }
  }
}

}  // namespace row_gradient_costs_test
