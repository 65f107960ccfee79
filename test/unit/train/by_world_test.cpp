// SPDX-License-Identifier: Apache-2.0
// DataParallel<>: as many replicas as the program is started with, and the numbers of a type that
// says how many.

#include <doctest/doctest.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/threads_as_processes.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace by_world_test {

using Weights = std::vector<std::vector<float>>;
using Ordered = DataParallel<by_world, Reproducible<4>>;

TrainerOptions options(int devices = 0) {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .seed = 3,
          .threads_per_device = 1,
          .world = {.devices = devices}};
}

// Two epochs, the last step of each of fewer samples; and an evaluation.
template <class S>
Weights trained(TrainerOptions const& with) {
  test::Watchdog const watchdog{"by_world_test"};
  Trainer<test::TinyNet, S, Host> trainer{with};
  auto const data = test::dataset(image_shape(3, 8, 8), 5, 20);
  std::vector<float> losses;
  for (auto epoch : epochs(2)) {
    losses.push_back(static_cast<float>(trainer.train(data, epoch).loss));
  }
  losses.push_back(static_cast<float>(trainer.evaluate(data).loss));
  Weights weights = test::values_of(trainer.parameters());
  weights.push_back(losses);
  return weights;
}

template <class S>
std::string refusal(TrainerOptions const& with) {
  return test::message<ContractError>([&] { Trainer<test::TinyNet, S, Host> const trainer{with}; });
}

TEST_CASE("as many replicas as there are devices, with the bits of a type that says how many") {
  CHECK(trained<DataParallel<>>(options()) == trained<SingleDevice<>>(options()));
  CHECK(trained<DataParallel<>>(options(3)) == trained<DataParallel<3>>(options()));
}

TEST_CASE("in a fixed order each number of replicas has the bits of one device") {
  Weights const one = trained<SingleDevice<Microbatches<4>, Reproducible<4>>>(options());
  for (int const devices : {1, 2, 4}) {
    CAPTURE(devices);
    CHECK(trained<Ordered>(options(devices)) == one);
  }
  CHECK(refusal<Ordered>(options(3)) ==
        "DataParallel<>: the batch is cut into 4 microbatches, which cannot be dealt to 3 "
        "replicas; start as many as divide them, or give another number "
        "(TrainerOptions::microbatches)");
}

TEST_CASE("microbatches of the whole batch, by the options") {
  using Any = DataParallel<by_world, Microbatches<2>, Reproducible<>>;
  CHECK(trained<Any>(options(2)) ==
        trained<DataParallel<2, Microbatches<2>, Reproducible<>>>(options()));
  TrainerOptions with = options(4);
  with.microbatches = 4;
  CHECK(trained<Any>(with) == trained<Ordered>(options()));
  with.world.devices = 1;
  CHECK(trained<Any>(with) == trained<Ordered>(options()));

  with.microbatches = 6;  // three leaves a replica make no tree
  with.world.devices = 2;
  CHECK(refusal<Any>(with) ==
        "DataParallel<>: Reproducible<> adds 6 leaves, of which each of 2 replicas must have a "
        "power of two that divides its microbatches, 3; start another number of them, or write "
        "other leaves or microbatches");
  with.rows = {{{.kind = ActionKind::forward}, {.kind = ActionKind::backward}}};
  CHECK(refusal<Any>(with) ==
        "TrainerOptions: .rows are of so many microbatches; leave .microbatches out");
  with.microbatches = -1;
  CHECK(refusal<Any>(with) == "TrainerOptions: microbatches must be 0 (as the type says) or more");
  with = options();
  with.microbatches = 4;
  CHECK(refusal<SingleDevice<>>(with) ==
        "TrainerOptions: microbatches are of DataParallel<>, whose replicas take a share each; "
        "give them to any other strategy in its type, as Microbatches<k> or a Pipeline's Count");
}

TEST_CASE("a batch of fewer samples than replicas, and a world of less than no device") {
  CHECK(refusal<DataParallel<>>(options(9)) ==
        "a training batch of 8 samples cannot be split into 9 microbatches; use a larger batch, "
        "fewer microbatches or devices, or .drop_last = true for the last batch of an epoch");
  CHECK(refusal<DataParallel<>>(options(-1)) ==
        "World: devices must be 0 (one of each process) or more");
}

/// Of each process in turn: trains by run() until an epoch, from the newest checkpoint on.
void train_in_turn(std::string const& folder, std::vector<Weights>& all,
                   std::vector<std::array<int, 2>> const& processes_and_devices) {
  auto const data = test::dataset(image_shape(3, 8, 8), 5, 20);
  std::mutex mutex;
  auto const run_from = [&](World const& world, int devices, int until) {
    TrainerOptions with = options();
    with.world = world;
    with.world.devices = devices;
    with.checkpoints = {.folder = folder, .every_steps = 2};
    int const code = run<test::TinyNet, Ordered, Host, SoftmaxCrossEntropy<>, Accuracy,
                         test::ThreadsAsProcesses>(with, [&](auto& trainer) {
      for (auto epoch : epochs(until)) {
        trainer.train(data, epoch);
      }
      trainer.await_checkpoint();
      std::lock_guard const lock{mutex};
      CHECK(trainer.workers().mesh().size() == world.processes * devices);
      CHECK(trainer.parameters().size() > 0);
      all.push_back(test::values_of(trainer.parameters()));
    });
    std::lock_guard const lock{mutex};
    CHECK(code == 0);
  };
  int until = 0;
  for (auto const& each : processes_and_devices) {
    all.clear();
    ++until;
    test::as_processes(each[0], [&](World const& world) { run_from(world, each[1], until); });
  }
}

TEST_CASE("processes have a replica each, and go on in an epoch from the checkpoint of others") {
  test::Watchdog const watchdog{"by_world_test"};
  test::TemporaryFolder const folder;
  std::vector<Weights> all;
  train_in_turn(folder.file("run"), all, {{4, 1}, {2, 2}, {1, 1}, {2, 1}, {4, 1}});
  Trainer<test::TinyNet, Ordered, Host> whole{options()};
  for (auto epoch : epochs(5)) {
    whole.train(test::dataset(image_shape(3, 8, 8), 5, 20), epoch);
  }
  CHECK(all == std::vector<Weights>(4, test::values_of(whole.parameters())));
}

}  // namespace by_world_test
}  // namespace tandem
