// SPDX-License-Identifier: Apache-2.0
// What planners know of a GPT: the graph of run-time sizes is that of the type, costs are those of
// its products, and plans of it are sane.
#include <algorithm>
#include <numeric>
#include <string>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/search.hpp>

#include <same_graph.hpp>

namespace gpt_test {

using namespace tandem;
using test::check_same;

TEST_CASE("a graph of sizes is that of the type") {
  GptGraph const small{{65, 32, 48, 4, 3}};
  check_same(small.view(), graph<models::Gpt<65, 32, 48, 4, 3>>);
  GptGraph const gpt2{{}};
  check_same(gpt2.view(), graph<models::Gpt2<>>);
}

TEST_CASE("sizes that cannot be are refused") {
  CHECK_THROWS_AS(GptGraph({.width = 100, .heads = 12}), ContractError);
  CHECK_THROWS_AS(GptGraph({.layers = 0}), ContractError);
}

// 1 op a second, or byte of bandwidth, so that numbers are counts.
Machine counting(double math, double bandwidth) {
  Machine machine = two_cpus();
  machine.peak = {.fp64 = math, .fp32 = math, .tf32 = math, .bf16 = math};
  machine.efficiency = 1;
  machine.memory_bandwidth = bandwidth;
  machine.launch_overhead = 0;
  return machine;
}

struct Net : models::Gpt<40, 8, 16, 2, 1> {};
constexpr int words = 1;
constexpr int attention = 5;
constexpr int vocabulary = 14;

TEST_CASE("bound by products: rows, pairs and words") {
  CostGraph const g = static_costs(graph<Net>, counting(1, 1e12), MathPrecision::fp32, 3);
  CHECK(g.node[4].name == "2.0.0.body.1 Linear");
  CHECK(g.node[4].forward == doctest::Approx(2 * 3 * 8 * 16 * 48));
  CHECK(g.node[4].backward == doctest::Approx(2 * g.node[4].forward));
  CHECK(g.node[attention].forward == doctest::Approx(2 * 3 * 2 * 36 * 16));  // 36 pairs
  CHECK(g.node[attention].backward == doctest::Approx(2.5 * g.node[attention].forward));
  CHECK(g.node[vocabulary].name == "4 Vocabulary");
  CHECK(g.node[vocabulary].forward == doctest::Approx(2 * 3 * 8 * 16 * 40));
  CHECK(g.node[vocabulary].backward == doctest::Approx(2 * g.node[vocabulary].forward));
  CHECK(g.node[4].output_bytes == 4 * 3 * 8 * 48);  // a message of (T, C)
}

TEST_CASE("bound by memory: rows that are looked up, logits") {
  CostGraph const g = static_costs(graph<Net>, counting(1e12, 1), MathPrecision::fp32, 3);
  CHECK(g.node[words].forward == doctest::Approx(4 * 3 * 8 * (1 + 16 + 16)));
  CHECK(g.node[words].backward ==
        doctest::Approx(4 * (3 * 8 * (1 + 3 * 16) + 40 * 16 - 3 * 8 * 16)));
  CHECK(g.node[vocabulary].forward == doctest::Approx(4 * (3 * 8 * (16 + 3 + 40) + 40 * 16)));
}

TEST_CASE("a pipeline of GPT-2 is cut in halves of its work") {
  CostGraph const g = static_costs(graph<models::Gpt2<>>, dgx1_v100(), MathPrecision::fp32, 4);
  std::vector<double> const times = detail::part_times(g);
  REQUIRE(times.size() == 16);
  WorkerStep const step =
      worker_step(detail::chain_worker("one_f_one_b", 2, 8), g, dgx1_v100(), 4.0);
  REQUIRE(step.problem.empty());
  REQUIRE(step.sizes.size() == 2);
  CHECK(step.sizes[0] > 8);  // the words at the end weigh more than three blocks
  double const first = std::accumulate(times.begin(), times.begin() + step.sizes[0], 0.0);
  CHECK(first / g.time() == doctest::Approx(0.5).epsilon(0.08));
}

SearchTask task_of(GraphView network) {
  return {.machine = dgx1_v100(),
          .batch_per_worker = 8,
          .samples = 1000,
          .bytes_of_parameter = 4,
          .most_devices_a_worker = 2,
          .network = network};
}

TEST_CASE("the words that both ends of a pipeline hold are added between them, or it cannot be") {
  GraphView const gpt2 = graph<models::Gpt2<>>;
  SearchTask const task = task_of(gpt2);
  WorkerSteps const steps{task, [&](int samples) {
                            return static_costs(gpt2, task.machine, MathPrecision::fp32, samples);
                          }};
  double const bytes = 4.0 * 50257 * 768;
  double const once = all_reduce_seconds(task.machine, {2, 1}, bytes);
  int late = 0;
  for (WorkerSteps::One const& one : steps.all()) {
    CAPTURE(one.strategy.schedule);
    bool const shares = one.strategy.replica_devices() == 2 && one.strategy.cut != CutKind::placed;
    if (one.strategy.asynchrony().on()) {
      ++late;
      CHECK(one.step.problem == detail::sentence_of(detail::Rule::ties_asynchronous));
    } else if (shares) {
      bool const two = detail::has_two_copies(one.strategy.schedule);
      auto const map = make_map(one.strategy.schedule, 2, one.strategy.stages_a_device);
      bool const turns = !two && map.device.front() == map.device.back();
      CHECK(one.step.ties == doctest::Approx(turns ? 0 : two ? 2 * once : once));
    } else if (one.strategy.replica_devices() == 1) {
      CHECK(one.step.ties == 0);
    }
  }
  CHECK(late > 0);
}

TEST_CASE("on equal devices with fast links GPT-2 trains data parallel, as long as it fits") {
  GraphView const gpt2 = graph<models::Gpt2<>>;
  SearchTask task = task_of(gpt2);
  auto const costs = [&](int samples) {
    return static_costs(gpt2, task.machine, MathPrecision::fp32, samples);
  };
  auto const best = [&] {
    std::vector<EpochPoint> const one{{.batch = 1, .epochs = 1}};
    WorkerSteps const steps{task, costs};
    return search_plans(steps, EpochCurve::measured(one), 2).front();
  };
  CHECK(best().worker.replica_devices() == 1);
  task.memory = 7e9;  // 9.4 GB are needed
  Plan const cut = best();
  CHECK(cut.worker.replica_devices() == 2);
  CHECK(cut.problem.empty());
}

}  // namespace gpt_test
