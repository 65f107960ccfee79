// SPDX-License-Identifier: Apache-2.0
// run(): the strategy is what is there, and no other one changes the numbers.

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/threads_as_processes.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace elastic_run_test {

using Plan =
    Elastic<DataParallel<4, Reproducible<>, BucketBytes<64, 256>, ShardedParameters>,
            Hybrid<DataParallel<1, Reproducible<4>>, Pipeline<OneFOneB, 4, Split<3>, Split<6>>>,
            SingleDevice<Microbatches<4>, Reproducible<4>>>;

TrainerOptions options() {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .seed = 3,
          .threads_per_device = 1};
}

using Weights = std::vector<std::vector<float>>;

template <class Work>
int run_on(int devices, Work&& work, Checkpoints const& checkpoints = {}) {
  TrainerOptions with = options();
  with.world.devices = devices;
  with.checkpoints = checkpoints;
  return run<test::TinyNet, Plan, Host>(with, work);
}

/// Where a run began, on how many ranks it was, and what it leaves.
struct Ran {
  std::int64_t began = -1;
  int ranks = 0;
  Weights weights;
};

/// Trains from the newest checkpoint of a folder to the end of epoch @p until.
Ran train_on(int devices, int until, std::string const& folder) {
  Ran ran;
  CHECK(run_on(devices,
               [&](auto& trainer) {
                 ran.began = trainer.position().step;
                 for (auto epoch : epochs(until)) {
                   trainer.train(test::dataset(image_shape(3, 8, 8), 5, 20), epoch);
                 }
                 ran.ranks = std::remove_reference_t<decltype(trainer)>::ProgramType::ranks;
                 ran.weights = test::values_of(trainer.parameters());
               },
               {.folder = folder, .every_steps = 1, .keep = 1}) == 0);
  return ran;
}

TEST_CASE("an Elastic trains on what is there, and goes on elsewhere with the same bits") {
  test::Watchdog const watchdog{"elastic_run_test"};
  test::TemporaryFolder const folder;
  Ran const whole = train_on(4, 4, folder.file("whole"));
  int done = 0;
  Ran last;
  for (auto const& [devices, ranks] : {std::pair{5, 4}, {3, 2}, {2, 2}, {1, 1}}) {
    last = train_on(devices, done + 1, folder.file("run"));
    CHECK(last.began == 3 * done);
    CHECK(last.ranks == ranks);
    ++done;
  }
  CHECK(last.weights == whole.weights);
}

TEST_CASE("processes that an Elastic's strategy does not need are spare") {
  test::Watchdog const watchdog{"elastic_run_test"};
  std::mutex mutex;
  std::map<int, Weights> trained;
  test::as_processes(3, [&](World const& world) {  // of a device each: 2 of them
    TrainerOptions with = options();
    with.world = world;
    using Two =
        Elastic<DataParallel<4, Reproducible<>>, DataParallel<2, Microbatches<2>, Reproducible<4>>>;
    int const code =
        run<test::TinyNet, Two, Host, SoftmaxCrossEntropy<>, Accuracy, test::ThreadsAsProcesses>(
            with, [&](auto& trainer) {
              trainer.train(test::dataset(image_shape(3, 8, 8), 5, 16), 0);
              std::lock_guard const lock{mutex};
              trained[world.process] = test::values_of(trainer.parameters());
            });
    std::lock_guard const lock{mutex};
    CHECK(code == 0);
  });
  CHECK(trained.size() == 2);
  CHECK(trained[0] == trained[1]);
}

TEST_CASE("run() says by its exit code whose error it was") {
  CHECK(run_on(1, [](auto&) { throw std::runtime_error{"run() prints this line"}; }) == 1);
  CHECK(run_on(1, [](auto&) { throw TimeoutError{"run() prints this line"}; }) == 70);
  CHECK(run_on(1, [](auto&) {
          try {
            throw AbortedError{"rank 3 has failed"};
          } catch (...) {
            std::throw_with_nested(RankError{0, "run() prints this line"});
          }
        }) == 70);
  CHECK(run_on(1, [](auto& trainer) { trainer.load("/no/such/file"); }) == 1);
}

TEST_CASE("a strategy is chosen by devices, and its ranks are dealt evenly") {
  int const ranks[] = {8, 4, 2};
  CHECK(choose_strategy(ranks, 1, 8) == ElasticChoice{0, 1});
  CHECK(choose_strategy(ranks, 1, 7) == ElasticChoice{1, 1});
  CHECK(choose_strategy(ranks, 6, 1) == ElasticChoice{1, 4});
  CHECK(choose_strategy(ranks, 3, 3) == ElasticChoice{1, 2});  // 8 over 3 processes is not even
  CHECK(choose_strategy(ranks, 16, 1) == ElasticChoice{0, 8});
  CHECK(choice_text(ranks, 6, 1, {1, 4}, "DataParallel<4>") ==
        "8 devices listed, 6 there: DataParallel<4>, 2 processes spare");
  CHECK(choice_text(ranks, 1, 8, {0, 1}, "DataParallel<8>") ==
        "8 devices listed, 8 there: DataParallel<8>");
  CHECK(
      test::message<ContractError>([&] { choose_strategy(ranks, 1, 1); }) ==
      "run(): the smallest strategy of this plan is of 2 devices, which cannot be dealt evenly to "
      "what is there, 1 x 1 (processes x devices of each); start more processes, say that each "
      "has more (.world.devices), or list a strategy of fewer devices");
}

}  // namespace elastic_run_test
}  // namespace tandem
