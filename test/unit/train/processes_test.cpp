// SPDX-License-Identifier: Apache-2.0
// Ranks dealt to processes do what they do in one: the same steps, outputs, texts and checkpoints.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/threads_as_processes.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace processes_test {

constexpr int samples = 29;
auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);

/// What a process has seen.
struct Seen {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  std::vector<float> outputs;
  std::int64_t right = 0;
  LoadedBytes loaded{};
  bool operator==(Seen const&) const = default;
};

template <class Trainer>
Seen train(World const& world, std::string const& file) {
  Trainer trainer{{.batch = 8,
                   .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
                   .threads_per_device = 1,
                   .world = world}};
  test::Samples<float> const batch{trainer.input, 5, 8};
  Seen seen;
  for (int step = 0; step < 3; ++step) {
    seen.losses.push_back(trainer.step(batch.x, batch.y).loss);
  }
  trainer.save(file);
  trainer.step(batch.x, batch.y);
  trainer.load(file);
  seen.loaded = trainer.loaded_bytes();
  seen.losses.push_back(trainer.step(batch.x, batch.y).loss);
  seen.losses.push_back(trainer.evaluate(data).loss);
  seen.weights = test::values_of(trainer.parameters());
  seen.outputs = trainer.predict(data);
  Confusion const confusion = trainer.confusion(data);
  for (int c = 0; c < 5; ++c) {
    seen.right += confusion(c, c);
  }
  return seen;
}

/// A number of processes, and how many of them have each parameter.
struct Count {
  int processes;
  int holders;
};

template <class S>
void check(std::vector<Count> const& counts) {
  test::TemporaryFolder const folder;
  Seen const one = train<Trainer<test::TinyNet, S, Host>>({}, folder.file("one"));
  REQUIRE(one.outputs.size() == 5 * samples);
  for (Count const& count : counts) {
    int const processes = count.processes;
    CAPTURE(processes);
    std::mutex mutex;
    LoadedBytes all;
    test::as_processes(processes, [&](World const& world) {
      using Many = Trainer<test::TinyNet, S, Host, SoftmaxCrossEntropy<>, Accuracy,
                           test::ThreadsAsProcesses>;
      Seen const seen = train<Many>(world, folder.file("many" + std::to_string(processes)));
      std::lock_guard const lock{mutex};
      all.read += seen.loaded.read;
      all.received += seen.loaded.received;
      CHECK(seen.losses == one.losses);
      CHECK(seen.weights == one.weights);
      CHECK(seen.outputs == one.outputs);
      CHECK(seen.right == one.right);
    });
    constexpr std::int64_t position = 4 * sizeof(std::int64_t);  // which process 0 tells
    CHECK(all.read == one.loaded.read);
    CHECK(all.received == (count.holders - 1) * (one.loaded.read - position));
  }
}

TEST_CASE("ranks of several processes train, evaluate and predict as those of one do") {
  test::Watchdog const watchdog{"processes"};
  check<DataParallel<4>>({{2, 2}, {4, 4}});
  check<Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<4>, Split<5>>>>({{2, 2}, {4, 2}});
}

struct Kept : Network<Tokens<6, 7>, Sequential<Embedding<7, 8>, Lstm<8, Stateful>, Vocabulary<7>>> {
};
using One = Trainer<Kept, DataParallel<2>, Host>;
using Many = Trainer<Kept, DataParallel<2>, Host, DefaultLoss<Kept>,
                     DefaultMetric<DefaultLoss<Kept>>, test::ThreadsAsProcesses>;

TEST_CASE("processes write the same text") {
  test::Watchdog const watchdog{"processes write"};
  std::vector<std::int32_t> const prompt{3, 1, 4};
  GenerateOptions const draws{.tokens = 9, .temperature = 1.0F};
  TrainerOptions const options{.batch = 4, .seed = 5, .threads_per_device = 1};
  One one{options};
  auto const text = one.generate(prompt, draws);
  std::mutex mutex;
  test::as_processes(2, [&](World const& world) {
    TrainerOptions own = options;
    own.world = world;
    Many trainer{own};
    auto const written = trainer.generate(prompt, draws);
    std::lock_guard const lock{mutex};
    CHECK(written == text);
  });
}

template <class Trainer>
std::vector<double> carry_on(World const& world, std::string const& file) {
  Trainer trainer{{.batch = 4, .threads_per_device = 1, .world = world}};
  std::vector<std::int32_t> tokens(24);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * i % 7);
  }
  trainer.step(tokens, tokens);
  trainer.save(file);
  std::vector<double> losses{trainer.step(tokens, tokens).loss};
  trainer.load(file);
  losses.push_back(trainer.step(tokens, tokens).loss);
  return losses;
}

TEST_CASE("a checkpoint of processes has the states of all") {
  test::Watchdog const watchdog{"processes' states"};
  test::TemporaryFolder const folder;
  auto const one = carry_on<One>({}, folder.file("one"));
  CHECK(one[0] == one[1]);
  std::mutex mutex;
  test::as_processes(2, [&](World const& world) {
    auto const losses = carry_on<Many>(world, folder.file("two"));
    std::lock_guard const lock{mutex};
    CHECK(losses == one);
  });
}

}  // namespace processes_test
}  // namespace tandem
