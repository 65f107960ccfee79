// SPDX-License-Identifier: Apache-2.0
// Chunks of time under attention, whose rows look at those of all chunks before theirs, and whose
// keys' and values' gradients come back to them; in schedules whose devices send each other
// gradients both ways, and in tables of one's own; with states that live on; and what is refused
// when it runs.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <support/table_schedule.hpp>
#include <support/temporary_folder.hpp>

#include <support/chunk_runs.hpp>

namespace chunks_test {

using namespace tandem;

using Gpt = models::Gpt<words, rows, 8, 2, 2, Percent<20>>;

TEST_CASE("a GPT in chunks of time is the GPT") {
  using Two = Pipeline<OneFOneB, 2, Chunks<3>, Split<3>, Split<3>>;
  check_chunks<Two, Gpt>();
  CHECK(Run<Two, Gpt>{}.trainer.memory(0).states > 0);
}

TEST_CASE("replicas that deal states, of devices that share heads and words") {
  check_chunks<Hybrid<DataParallel<2, ShardedState>,
                      Pipeline<GPipe, 1, Chunks<2>, Split<3>, Split<3>>, TensorParallel<2>>,
               Gpt>();
}

TEST_CASE("masks between products that devices share") {
  check_chunks<Hybrid<Pipeline<GPipe, 1, Chunks<2>, Split<3>, Split<3>>, TensorParallel<2>>,
               Llama>();
}

TEST_CASE("keys of heads, angles of rows and lengths, both gradients apart") {
  using Three = Pipeline<ZeroBubbleH1, 1, Chunks<3>, Split<3>, Split<1>, Split<2>>;
  check_chunks<Three, Llama>({6, 1, 2, 3, 4, 5, 6});
  for (int const time : {6, 5, 1}) {
    check_chunks<Three, Llama>({}, time);
  }
}

// Schedules of one map are tables for one trainer.
TEST_CASE("down the devices and back up, and a table of one's own") {
  using Two = Pipeline<TableSchedule, 4, Chunks<3>, Split<2>, Split<2>, Split<1>, Split<1>>;
  check_chunks<Two, Llama>();
  for (char const* const name : {"zero_bubble_v", "v_half", "v_min", "dual_pipe_v"}) {
    CAPTURE(name);
    check_chunks<Two, Llama>({}, rows, make_schedule(name, 2, 4));
  }
}

TEST_CASE("from both ends, in rounds, and with more warming up") {
  using Both = Pipeline<DualPipe, 4, Chunks<2>, Split<4>, Split<4>>;
  check_chunks<Both>();
  check_chunks<Both>({}, rows, make_schedule("chimera", 2, 4));
  check_chunks<Pipeline<Interleaved<2>, 4, Chunks<3>, Split<2>, Split<2>, Split<2>, Split<2>>>();
  check_chunks<Pipeline<ZeroBubbleH2, 4, Chunks<2>, Split<3>, Split<5>>>();
}

using InTwo = Pipeline<OneFOneB, 1, Chunks<2>, Split<3>, Split<5>>;

TEST_CASE("states that live on, in replicas of a pipeline") {
  check_chunks<Hybrid<DataParallel<2>, InTwo>, Layers<Stateful>>();
  using One = SingleDevice<Microbatches<2>>;
  CHECK(distance(Run<One, Layers<Stateful>>{}.numbers, Run<One>{}.numbers) > 1e-6);
}

TEST_CASE("passes of the caller's own order, and what has none") {
  using test::message;
  TrainerOptions options{.batch = batch, .seed = 3};
  options.rows = make_schedule("gpipe", 2, 3);
  std::vector<std::int32_t> const x(batch * rows, 1);
  Trainer<Layers<>, InTwo, Double> trainer{options};
  Trainer<Layers<>, SingleDevice<Microbatches<3>>, Double> one{{.batch = batch, .seed = 3}};
  CHECK(std::fabs(trainer.step(x, x).loss - one.step(x, x).loss) <= 1e-14);
  CHECK(std::fabs(trainer.step(x, x).loss - one.step(x, x).loss) <= 1e-14);
  options.rows = lower(options.rows, make_map("gpipe", 2));
  CHECK(message<ContractError>([&] {
          Trainer<Layers<>, InTwo, Double>{options};
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
