// SPDX-License-Identifier: Apache-2.0
// Chunks of time with states that live on, replicas, rows of a table's file; and what is refused
// when it runs.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <support/temporary_folder.hpp>

#include <support/chunk_runs.hpp>

namespace chunks_test {

using namespace tandem;

using Two = Pipeline<OneFOneB, 1, Chunks<2>, Split<3>, Split<5>>;

TEST_CASE("states that live on, in replicas of a pipeline") {
  Run<SingleDevice<Microbatches<2>>, Layers<Stateful>> const one;
  Run<Hybrid<DataParallel<2>, Two>, Layers<Stateful>> const four;
  CHECK(distance(one.numbers, four.numbers) <= 1e-12);
  CHECK(distance(one.numbers, Run<SingleDevice<Microbatches<2>>>{}.numbers) > 1e-6);
}

TEST_CASE("passes of the caller's own order, and what has none") {
  using test::message;
  TrainerOptions options{.batch = batch, .seed = 3};
  options.rows = make_schedule("gpipe", 2, 3);
  std::vector<std::int32_t> const x(batch * rows, 1);
  Trainer<Layers<>, Two, Double> trainer{options};
  Trainer<Layers<>, SingleDevice<Microbatches<3>>, Double> one{{.batch = batch, .seed = 3}};
  CHECK(std::fabs(trainer.step(x, x).loss - one.step(x, x).loss) <= 1e-14);
  CHECK(std::fabs(trainer.step(x, x).loss - one.step(x, x).loss) <= 1e-14);
  options.rows = lower(options.rows, make_map("gpipe", 2));
  CHECK(message<ContractError>([&] {
          Trainer<Layers<>, Two, Double>{options};
        }).find("give its passes alone") != std::string::npos);
  CHECK(message<ContractError>([&] {
          trainer.generate(std::vector<std::int32_t>{1, 2}, {.tokens = 1});
        }).find("load the weights in a Predictor") != std::string::npos);
}

TEST_CASE("a chunk that goes back before the one behind it is refused by name") {
  using test::message;
  constexpr Graph<GraphSize{1, 0, 0}> graph{};
  host::Device device{1};
  CarriedChunks<Double> chunks{device, graph, {OpNeeds{}}, 1};
  chunks.go_back(0, false, 4, 6, 6);
  chunks.go_back(0, false, 2, 4, 6);
  CHECK(message<ContractError>([&] { chunks.go_back(0, true, 2, 4, 6); }) != "");
  CHECK(message<ContractError>([&] { chunks.go_back(0, false, 2, 4, 6); }) ==
        "Chunks<K>: stage 0 goes back through rows 2 to 4 of a microbatch before the rows behind "
        "them, whose gradient they need");
  chunks.go_back(0, false, 0, 2, 6);
}

}  // namespace chunks_test
