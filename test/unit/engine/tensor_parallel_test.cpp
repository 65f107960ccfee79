// SPDX-License-Identifier: Apache-2.0
// Devices that share each layer: the numbers of one device, which no slice changes, and what they
// send each other.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/graph/spread/volume.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace tensor_parallel_test {

using test::Double;

/// Of four heads, with dropout of embeddings, probabilities and both sums of a block.
struct Heads : models::Gpt<test::gpt_words, test::gpt_time, 8, 4, 2, Percent<20>> {};

using One = SingleDevice<Microbatches<2>>;
template <int N, class... Options>
using Slices = TensorParallel<N, Microbatches<2>, Options...>;

template <class S>
using On = Trainer<Heads, S, Double>;

template <class S>
void check_as_one_device() {
  static test::TrainedGpt<One, Double, Heads> const one;
  test::check_trained_alike(one, test::TrainedGpt<S, Double, Heads>{5}, S::ranks);
}

TEST_CASE("two and four devices that share each block train as one does") {
  check_as_one_device<Slices<2>>();
  check_as_one_device<Slices<4>>();
}

TEST_CASE("so they do where activations are computed again") {
  check_as_one_device<Slices<2, Checkpoint<Every<2>>>>();
}

TEST_CASE("all ranks have the same bits of what is whole, and each run has them") {
  test::TrainedGpt<Slices<4>, Double, Heads> const first;
  test::TrainedGpt<Slices<4>, Double, Heads> const again;
  auto const bits = first.trainer.parameters();
  CHECK(test::first_difference(again.trainer.parameters(), bits) == "");
  for (int rank = 1; rank < 4; ++rank) {
    CHECK(test::first_difference(first.trainer.parameters(rank), bits) == "");
  }
}

TEST_CASE("initial values are those of the whole network, and so is the file") {
  test::TemporaryFolder const folder;
  On<One> const one{test::gpt_options()};
  On<Slices<4>> const four{test::gpt_options()};
  CHECK(test::first_difference(four.parameters(3), one.parameters(0)) == "");
  one.save(folder.file("one"));
  four.save(folder.file("four"));
  CHECK(test::content(folder.file("four")) == test::content(folder.file("one")));
}

TEST_CASE("a checkpoint goes on under another number of devices, states and all") {
  test::Watchdog const watchdog{"a checkpoint of slices"};
  test::TemporaryFolder const folder;
  On<Slices<2>> two{test::gpt_options()};
  test::gpt_step(two, 0);
  two.save(folder.file("saved"));
  std::string const steps = two.save_in(folder.file("steps"));
  On<Slices<4>> four{test::gpt_options()};
  four.load(folder.file("saved"));
  CHECK(test::first_difference(four.parameters(1), two.parameters(0)) == "");
  On<One> one{test::gpt_options()};
  one.load(steps);
  CHECK(test::first_difference(one.parameters(0), two.parameters(1)) == "");
  double const loss = test::gpt_step(two, 1).loss;
  CHECK(std::fabs(test::gpt_step(four, 1).loss - loss) <= 1e-12);
  CHECK(std::fabs(test::gpt_step(one, 1).loss - loss) <= 1e-12);
}

TEST_CASE("what they write is what one device writes") {
  test::TrainedGpt<One, Double, Heads> one;
  test::TrainedGpt<Slices<4>, Double, Heads> four;
  std::vector<std::int32_t> const prompt{1, 5, 2};
  GenerateOptions const greedy{.tokens = 3, .temperature = 0.0F};
  CHECK(four.trainer.generate(prompt, greedy) == one.trainer.generate(prompt, greedy));
}

// A block adds its rows, (B, T, C), twice in forward and twice in backward.
TEST_CASE("a block makes four all-reduces a microbatch, of what a table of its spreads says") {
  Trainer<Heads, Slices<2>, Double, DefaultLoss<Heads>, DefaultMetric<DefaultLoss<Heads>>,
          test::LoggingTransport>
      trainer{test::gpt_options()};
  using Own = test::DeviceOf<decltype(trainer)>;
  test::LoggingTransport<2>::clear();
  test::gpt_step(trainer, 0);  // 9 samples of 6 rows in two microbatches
  constexpr std::int64_t rows = std::int64_t{9} * test::gpt_time * 8 * sizeof(double);
  for (int rank = 0; rank < 2; ++rank) {
    auto const& log = test::LoggingTransport<2>::log(rank);
    test::Volume const forward = test::volume(log, Operation::all_reduce, "reduce");
    test::Volume const backward = test::volume(log, Operation::all_reduce, "gradient of copy");
    CHECK(forward == test::Volume{.calls = 2 * 2 * 2, .bytes = 4 * rows});
    CHECK(backward == forward);
    CHECK(test::volume(log, Operation::all_reduce, "norm").calls == 1);
    CHECK(test::volume(log, Operation::all_reduce, "losses").calls == 1);
    CHECK(log.size() == 18);
  }
  constexpr SpreadVolume volume = spread_volume(Own::graph);
  CHECK(volume.forward * 9 * std::int64_t{sizeof(double)} == 4 * rows);
  CHECK(volume.backward == volume.forward);
}

TEST_CASE("a rank has its slices alone, and fits<> counts as many") {
  using Own = test::DeviceOf<On<Slices<4>>>;
  using Whole = test::DeviceOf<On<One>>;
  // Of a block 12 C C of weights are dealt out, and 7 C of biases.
  constexpr std::int64_t dealt = 2 * (12 * 8 * 8 + 7 * 8);
  static_assert(Own::graph.parameter_elements() ==
                Whole::graph.parameter_elements() - dealt + dealt / 4);
  On<Slices<4>> const trainer{test::gpt_options()};
  MemoryReport const own = trainer.memory(1);
  CHECK(own.parameters == Own::layout.elements * std::int64_t{sizeof(double)});
  constexpr DeviceMemory most = device_memory<Heads, Slices<4>, AdamW, Fp64>(9, 0);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.optimizer_state == most.optimizer_state);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
}

TEST_CASE("an optimizer that takes norms of whole parameters is refused") {
  TrainerOptions options = test::gpt_options();
  options.optimizer = own_optimizer<Double>(Lamb{});
  std::string const why =
      test::message<ContractError>([&] { On<Slices<2>> const trainer{options}; });
  CHECK(why.find("with TensorParallel each device has a slice") != std::string::npos);
}

}  // namespace tensor_parallel_test
}  // namespace tandem
