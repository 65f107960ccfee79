// SPDX-License-Identifier: Apache-2.0
// run(): the strategy is what is there, and no other one changes the numbers.

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
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

// What an uninterrupted run of three epochs leaves, and on how many ranks it was.
struct Ran {
  int code = -1;
  int ranks = 0;
  Weights weights;
};

template <class Work>
int run_on(int devices, Work&& work, Checkpoints const& checkpoints = {}) {
  TrainerOptions with = options();
  with.world.devices = devices;
  with.checkpoints = checkpoints;
  return run<test::TinyNet, Plan, Host>(with, work);
}

Ran train_on(int devices, int from, int to, std::string const& file) {
  auto const data = test::dataset(image_shape(3, 8, 8), 5, 20);
  Ran ran;
  ran.code = run_on(devices, [&](auto& trainer) {
    if (from > 0) {
      trainer.load(file);
    }
    for (auto epoch : epochs(to)) {
      trainer.train(data, epoch);
    }
    trainer.save(file);
    ran.ranks = std::remove_reference_t<decltype(trainer)>::ProgramType::ranks;
    ran.weights = test::values_of(trainer.parameters());
  });
  return ran;
}

TEST_CASE("an Elastic trains on what is there, and goes on elsewhere with the same bits") {
  test::Watchdog const watchdog{"elastic_run_test"};
  test::TemporaryFolder const folder;
  Ran const whole = train_on(4, 0, 3, folder.file("whole"));
  REQUIRE(whole.code == 0);
  CHECK(whole.ranks == 4);
  std::map<int, int> const ranks_on{{1, 1}, {2, 2}, {3, 2}, {5, 4}};
  for (auto const& there : ranks_on) {
    int const devices = there.first;
    CAPTURE(devices);
    std::string const file = folder.file("run" + std::to_string(devices));
    CHECK(train_on(4, 0, 1, file).ranks == 4);
    Ran const rest = train_on(devices, 1, 3, file);
    CHECK(rest.ranks == there.second);
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("run() goes on from the newest checkpoint, on other devices, with the same bits") {
  test::Watchdog const watchdog{"elastic_run_test"};
  test::TemporaryFolder const folder;
  Ran const whole = train_on(4, 0, 3, folder.file("whole"));
  std::vector<std::int64_t> began;
  Weights weights;
  for (int const devices : {4, 2, 1}) {
    CHECK(run_on(devices,
                 [&](auto& trainer) {
                   began.push_back(trainer.position().step);
                   auto const data = test::dataset(image_shape(3, 8, 8), 5, 20);
                   for (auto epoch : epochs(devices == 1 ? 3 : 4 / devices)) {
                     trainer.train(data, epoch);
                   }
                   weights = test::values_of(trainer.parameters());
                 },
                 {.folder = folder.file("run"), .every_steps = 1, .keep = 1}) == 0);
  }
  CHECK(began == std::vector<std::int64_t>{0, 3, 6});
  CHECK(weights == whole.weights);
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
