// SPDX-License-Identifier: Apache-2.0
// Processes save behind the same steps, whichever of them sees the signal or has the clock, and
// each writes its share.

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/threads_as_processes.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

// Not under clang 14's thread sanitizer: see processes_test.cpp.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TANDEM_LEAVE_OUT_PROCESSES
#endif
#endif
#if !defined(TANDEM_LEAVE_OUT_PROCESSES)

namespace tandem {
namespace checkpoint_processes_test {

using T = Trainer<test::TinyNet, DataParallel<2>, Host>;
using OfTwo = Trainer<test::TinyNet, DataParallel<2>, Host, SoftmaxCrossEntropy<>, Accuracy,
                      test::ThreadsAsProcesses>;

auto const data = test::dataset(image_shape(3, 8, 8), 5, 28);  // batches of 8, 8, 8, 4

TrainerOptions options(Checkpoints const& checkpoints, World const& world = {}) {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .seed = 11,
          .threads_per_device = 1,
          .timeout = std::chrono::seconds{20},
          .checkpoints = checkpoints,
          .world = world};
}

template <class Trainer>
void train_to_the_end(Trainer& trainer) {
  for (auto epoch : epochs(3)) {
    trainer.train(data, epoch);
  }
  CHECK(trainer.position().step == 12);
}

TEST_CASE("all processes stop behind the same step, whichever has seen the signal first") {
  test::Watchdog const watchdog{"signal of processes"};
  test::TemporaryFolder const folder;
  T whole{options({})};
  train_to_the_end(whole);
  Checkpoints const when{.folder = folder.name(), .on_signals = true};
  std::mutex mutex;
  std::vector<std::int64_t> steps;
  test::as_processes(2, [&](World const& world) {
    OfTwo trainer{options(when, world)};
    int status = 0;
    try {
      for (auto epoch : epochs(3)) {
        trainer.train(data, epoch, [&](StepReport const& report) {
          if (world.process == 1 && report.step == 3) {
            // The other has looked meanwhile; if not, it will see the signal at this step, too.
            std::this_thread::sleep_for(std::chrono::milliseconds{100});
            std::raise(SIGTERM);
          }
        });
      }
    } catch (StoppedBySignal const& stopped) {
      status = stopped.exit_status();
    }
    std::lock_guard const lock{mutex};
    CHECK(status == 75);
    steps.push_back(trainer.position().step);
  });
  REQUIRE(steps.size() == 2);
  CHECK(steps[0] == steps[1]);
  CHECK(steps[0] >= 3);
  CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{steps[0]});
  test::as_processes(2, [&](World const& world) {
    OfTwo trainer{options(when, world)};
    std::string const from = trainer.resume();
    train_to_the_end(trainer);
    std::lock_guard const lock{mutex};
    CHECK(from == folder.file(detail::checkpoint_name(steps[0])));
    CHECK(test::values_of(trainer.parameters()) == test::values_of(whole.parameters()));
  });
}

TEST_CASE("each process writes its share, and one alone goes on with the same bits") {
  test::Watchdog const watchdog{"shares of processes"};
  test::TemporaryFolder const folder;
  T whole{options({})};
  train_to_the_end(whole);
  Checkpoints const when{.folder = folder.file("run"), .every_steps = 3, .keep = 2};
  std::mutex mutex;
  test::as_processes(2, [&](World const& world) {
    OfTwo trainer{options(when, world)};
    for (auto epoch : epochs(2)) {
      trainer.train(data, epoch);
    }
    std::string const path = trainer.save_in(folder.file("own"));
    std::lock_guard const lock{mutex};
    CHECK(path == folder.file("own/step-000008"));
    CHECK(detail::complete_checkpoints(folder.file("own")) == std::vector<std::int64_t>{8});
  });
  CHECK(detail::names_in(when.folder) == std::vector<std::string>{"step-000003", "step-000006"});
  CHECK(detail::names_in(when.folder + "/step-000006") ==
        std::vector<std::string>{"model-00001-of-00002.safetensors",
                                 "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                                 "optimizer-00001-of-00002.safetensors",
                                 "optimizer-00002-of-00002.safetensors", "tandem.json"});
  T resumed{options(when)};
  CHECK(resumed.resume() == folder.file("run/step-000006"));
  train_to_the_end(resumed);
  CHECK(test::first_difference(resumed.parameters(), whole.parameters()) == "");
  T other{options(when)};
  other.load(folder.file("own/step-000008"));
  train_to_the_end(other);
  CHECK(test::first_difference(other.parameters(), whole.parameters()) == "");
}

TEST_CASE("process 0's clock decides for all") {
  test::Watchdog const watchdog{"clock of processes"};
  test::TemporaryFolder const folder;
  T whole{options({})};
  train_to_the_end(whole);
  std::mutex mutex;
  test::as_processes(2, [&](World const& world) {
    // A clock of each process's own would say yes in one and no in the other.
    OfTwo trainer{options(
        {.folder = folder.name(), .every_seconds = world.process == 0 ? 1e-9 : 1e9, .keep = 99},
        world)};
    train_to_the_end(trainer);
    trainer.await_checkpoint();
    std::lock_guard const lock{mutex};
    CHECK(test::values_of(trainer.parameters()) == test::values_of(whole.parameters()));
  });
  CHECK(detail::complete_checkpoints(folder.name()).size() >= 2);
}

}  // namespace checkpoint_processes_test
}  // namespace tandem

#endif
