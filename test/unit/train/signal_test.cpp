// SPDX-License-Identifier: Apache-2.0
// A signal that asks to end: train() saves, says the exit status, and the run that is started again
// has the bits of one that no signal reached.

#include <doctest/doctest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace signal_test {

using T = Trainer<test::TinyNet, DataParallel<2>, Host>;

auto const data = test::dataset(image_shape(3, 8, 8), 5, 28);  // batches of 8, 8, 8, 4

TrainerOptions options(Checkpoints const& checkpoints) {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .seed = 11,
          .threads_per_device = 1,
          .checkpoints = checkpoints};
}

void train_to_the_end(T& trainer) {
  for (auto epoch : epochs(3)) {
    trainer.train(data, epoch);
  }
  CHECK(trainer.position().step == 12);
}

/// Behind step @p step a signal comes; its status, or 0.
int train_until(T& trainer, std::int64_t step, int signal, std::string& text) {
  try {
    for (auto epoch : epochs(3)) {
      trainer.train(data, epoch, [&](StepReport const& report) {
        if (report.step == step) {
          std::raise(signal);
        }
      });
    }
    return 0;
  } catch (StoppedBySignal const& stopped) {
    text = stopped.what();
    CHECK(stopped.signal() == signal);
    return stopped.exit_status();
  }
}

void nothing(int /*signal*/) {}

TEST_CASE("a signal ends train() with a checkpoint, and the next run goes on with the same bits") {
  test::Watchdog const watchdog{"signal"};
  T whole{options({})};
  train_to_the_end(whole);
  for (int const signal : {SIGTERM, SIGUSR1, SIGINT}) {
    CAPTURE(signal);
    test::TemporaryFolder const folder;
    auto const before = std::signal(signal, nothing);
    Checkpoints const when{.folder = folder.name(), .every_steps = 4, .on_signals = true};
    std::string text;
    {
      T stopped{options(when)};
      CHECK(train_until(stopped, 6, signal, text) == (signal == SIGINT ? 130 : 75));
      CHECK(text == std::string{detail::name_of_signal(signal)} +
                        " came, so training ends behind step 6, saved as '" +
                        folder.file("step-000006") + "'; started again it goes on there");
      CHECK(stopped.position().step == 6);
      CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{4, 6});
    }
    bool const is_restored = std::signal(signal, before) == nothing;
    CHECK(is_restored);
    T resumed{options(when)};
    CHECK(resumed.resume() == folder.file("step-000006"));
    train_to_the_end(resumed);
    CHECK(test::first_difference(resumed.parameters(), whole.parameters()) == "");
  }
}

TEST_CASE("a program may train on behind a signal, and a step that is saved is not saved again") {
  test::Watchdog const watchdog{"signal, and on"};
  test::TemporaryFolder const folder;
  T whole{options({})};
  train_to_the_end(whole);
  T trainer{options({.folder = folder.name(), .every_steps = 5, .on_signals = true})};
  std::string text;
  CHECK(train_until(trainer, 5, SIGTERM, text) == 75);
  CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{5});
  train_to_the_end(trainer);
  CHECK(test::first_difference(trainer.parameters(), whole.parameters()) == "");
}

TEST_CASE("a signal and a checkpoint that cannot be written: it is said, and training ends") {
  test::TemporaryFolder const folder;
  test::put(folder.file("file"), "x");
  T trainer{options({.folder = folder.file("file/run"), .on_signals = true})};
  std::string text;
  CHECK(train_until(trainer, 2, SIGTERM, text) == 75);
  CHECK(text == "SIGTERM came, so training ends behind step 2, which could not be saved as '" +
                    folder.file("file/run/step-000002") +
                    "'; started again it goes on from the newest checkpoint");
}

TEST_CASE("processes look again after about so long, and never after many more steps than before") {
  CHECK(steps_until(0.5, 1, 0.0) == 3);
  CHECK(steps_until(0.5, 1, 0.2) == 2);
  CHECK(steps_until(0.5, 10, 0.1) == 21);
  CHECK(steps_until(0.5, 21, 0.21) == 43);
  CHECK(steps_until(0.5, 100, 1.0) == 50);
  CHECK(steps_until(0.5, 3, 60.0) == 1);
}

TEST_CASE("a process that is sent SIGTERM leaves a checkpoint and the status 75") {
  test::TemporaryFolder const folder;
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(120);  // whatever happens, it ends
    ::_exit(run<test::TinyNet, DataParallel<2>, Host>(
        options({.folder = folder.name(), .every_steps = 1, .keep = 2, .on_signals = true}),
        [](auto& trainer) {
          for (auto epoch : epochs(1'000'000)) {
            trainer.train(data, epoch);
          }
        }));
  }
  while (detail::complete_checkpoints(folder.name()).empty()) {
    REQUIRE(::waitpid(child, nullptr, WNOHANG) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  ::kill(child, SIGTERM);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
  auto const steps = detail::complete_checkpoints(folder.name());
  REQUIRE_FALSE(steps.empty());
  T trainer{options({.folder = folder.name()})};
  CHECK(trainer.resume() == folder.file(detail::checkpoint_name(steps.back())));
  CHECK(trainer.position().step == steps.back());
}

TEST_CASE("signals are for who has a folder, and a SIGINT that is ignored stays so") {
  CHECK(test::contains(
      test::message<ContractError>([] { T const trainer{options({.on_signals = true})}; }),
      "give checkpoints.folder"));
  auto const before = std::signal(SIGINT, SIG_IGN);
  test::TemporaryFolder const folder;
  {
    T const trainer{options({.folder = folder.name(), .on_signals = true})};
    std::raise(SIGINT);
    bool const is_ignored = std::signal(SIGINT, SIG_IGN) == SIG_IGN;
    CHECK(is_ignored);
  }
  bool const is_ignored = std::signal(SIGINT, before) == SIG_IGN;
  CHECK(is_ignored);
}

}  // namespace signal_test
}  // namespace tandem
