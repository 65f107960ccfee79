// SPDX-License-Identifier: Apache-2.0
// A profile has the times of every node that computes; what they are is the machine's affair.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/measure/profile/profile.hpp>
#include <tandem/plan/cost/measured_costs.hpp>
#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace profile_test {

ProfileOptions quick() { return {.samples = {2, 3}, .rounds = 2, .message_bytes = 1 << 17}; }

/// The network as the engine runs it on one device.
template <class Net>
constexpr auto const& engine_graph =
    Program<Net, SingleDevice<Microbatches<2>>, 4, rewrites_of<Host>()>::template Device<0>::graph;

template <class Net>
void check_profile(NetworkProfile const& profile) {
  auto const& graph = engine_graph<Net>;
  REQUIRE(profile.node.size() == static_cast<std::size_t>(graph.nodes));
  for (DeviceTimes const* const times : {&profile.alone, &profile.together}) {
    REQUIRE(times->node.size() == profile.node.size());
    for (int n = 0; n < graph.nodes; ++n) {
      CAPTURE(n);
      Node const& node = graph.node[n];
      PassTimes const& own = times->node[static_cast<std::size_t>(n)];
      bool const trains = node.computes() && node.parameters > 0 && !node.frozen;
      CHECK((own.forward.of(2) > 0) == node.computes());
      CHECK((own.input_gradient.of(2) > 0) == gives_input_gradient(graph, n));
      CHECK((own.weight_gradient.of(2) > 0) == trains);
      CHECK((own.added_gradient.of(2) > 0) == trains);
      CHECK(own.forward.fixed >= 0);
      CHECK(own.forward.per_sample >= 0);
    }
    CHECK(times->rest.of(2) > 0);
    CHECK(times->update > 0);
  }
}

TEST_CASE("every node that computes is profiled, alone and beside another device") {
  Watchdog const watchdog{"profile"};
  NetworkProfile const profile = tandem::profile<TinyNet>(quick());
  check_profile<TinyNet>(profile);
  CHECK(profile.backend == std::string{"host-"} + DefaultHostKernels::name);
  CHECK(profile.precision == "fp32");
  CHECK(profile.threads == 1);
  CHECK(profile.samples == std::vector<int>{2, 3});
  CHECK(profile.message.bandwidth > 0);
  CHECK(profile.reduction.bandwidth > 0);

  // What is known without a measurement: as static costs have it.
  CostGraph const costs = measured_costs(profile, 4);
  auto const& network = graph<TinyNet>;
  CHECK(costs.nodes() == network.nodes);
  CHECK(costs.edge.size() == static_cast<std::size_t>(network.edges));
  CHECK(costs.node[0].name == "input");
  CHECK(costs.node[0].output_bytes == 4 * 3 * 8 * 8 * 4);
  CHECK(costs.node[1].name == "0 Conv2d");
  CHECK(costs.node[1].output_bytes == 4 * 6 * 8 * 8 * 4);
  CHECK(costs.node[1].parameter_bytes == 6 * 3 * 3 * 3 * 4);
  CHECK(costs.node.back().part == 8);
  CHECK(costs.node.back().parameter_bytes == (13 * 5 + 5) * 4);
}

TEST_CASE("a network without batch norm, and one with nothing before its product") {
  Watchdog const watchdog{"profile"};
  check_profile<PlainNet>(tandem::profile<PlainNet>(quick()));
}

struct Words : models::Gpt<11, 6, 8, 2, 1> {};

TEST_CASE("a network of tokens, whose criterion makes its loss") {
  Watchdog const watchdog{"profile"};
  NetworkProfile const profile = tandem::profile<Words>(quick());
  check_profile<Words>(profile);
  CHECK(profile.node[1].name == "0 Embedding");
  CHECK(profile.node.back().name == "4 Vocabulary");
  CHECK(profile.node[4].output_bytes == 6 * 24 * 4);
}

TEST_CASE("a device whose passes are timed trains as any other") {
  Watchdog const watchdog{"profile"};
  using Strategy = SingleDevice<Microbatches<2>>;
  TrainerOptions const options{
      .batch = 4, .optimizer = Sgd{.learning_rate = 0.1F}, .threads_per_device = 1};
  Trainer<TinyNet, Strategy, Host> plain{options};
  Trainer<TinyNet, Strategy, Profiled<Host>> timed{options};
  Samples<float> const batch{timed.input, 5, 4};
  for (int step = 0; step < 2; ++step) {
    StepResult const a = plain.step(batch.x, batch.y);
    StepResult const b = timed.step(batch.x, batch.y);
    CHECK(a.loss == b.loss);
    CHECK(a.metric == b.metric);
  }

  Trainer<Words, Strategy, Host> reads{options};
  Trainer<Words, Strategy, Profiled<Host>> timed_reads{options};
  std::vector<std::int32_t> const x{1, 10, 3, 4, 0, 6, 2, 2, 9, 8, 7, 5};
  std::vector<std::int32_t> const y{10, 3, 4, 0, 6, -1, 2, 9, 8, 7, 5, 1};
  std::vector<std::int32_t> const lengths{5, 6};
  for (int step = 0; step < 2; ++step) {
    double const loss = reads.step(x, y, {.lengths = lengths}).loss;
    CHECK(loss == timed_reads.step(x, y, {.lengths = lengths}).loss);
    CHECK(loss > 0.0);
  }
}

TEST_CASE("gradients of the first microbatch are told from those that are added") {
  Watchdog const watchdog{"profile"};
  auto const clock_of = []<class Strategy>(Strategy) {
    using Timed = Trainer<TinyNet, Strategy, Profiled<Host>>;
    Timed trainer{{.batch = 4, .threads_per_device = 1}};
    Samples<float> const batch{trainer.input, 5, 4};
    trainer.step(batch.x, batch.y);
    auto& rank = trainer.workers().rank(0);
    return static_cast<typename Timed::Workers::template RankOf<0>&>(rank).device().clock;
  };
  PassClock one = clock_of(SingleDevice<>{});
  PassClock two = clock_of(SingleDevice<Microbatches<2>>{});
  CHECK(one.of(1).weight_gradient > 0);
  CHECK(one.of(1).added_gradient == 0);
  CHECK(two.of(1).weight_gradient > 0);
  CHECK(two.of(1).added_gradient > 0);
  CHECK(one.forks == 0);  // they are counted with the node whose gradient they are
  CHECK(two.forks == 0);
}

TEST_CASE("a profile that was written is read again") {
  std::string const path =
      (std::filesystem::temp_directory_path() / ("profile_" + std::to_string(getpid()))).string();
  NetworkProfile const profile = tandem::profile<PlainNet>(quick());
  write_profile(profile, path);
  CHECK(read_profile(path) == profile);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(write_profile(profile, path + "/none/none"), FileError);
}

TEST_CASE("what cannot be measured is refused") {
  for (std::vector<int> const& samples : {std::vector<int>{}, {0}, {4, 4}, {8, 4}}) {
    CHECK_THROWS_WITH_AS((Profiler<PlainNet>{{.samples = samples}}),
                         doctest::Contains("give samples one size of a microbatch or more"),
                         ContractError);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(tandem::profile<PlainNet>({.rounds = 0})),
                       doctest::Contains("give 1 round or more"), ContractError);
  Profiler<PlainNet> const none{quick()};
  CHECK_THROWS_WITH_AS(static_cast<void>(none.profile()), doctest::Contains("call round() before"),
                       ContractError);
}

}  // namespace profile_test
}  // namespace tandem::test
