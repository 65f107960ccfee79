// SPDX-License-Identifier: Apache-2.0
// Ranks and datasets that never return: the sentence, the hook, the end of the process. Each case
// is a process of its own, this program started again; all of them wait at the same time.

#include <tandem/core/stall.hpp>

#include <doctest/doctest.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <sanitizers.hpp>
#include <tiny_network.hpp>
#include <trap_network.hpp>

extern char** environ;

namespace tandem::test {
namespace stall_test {

using Cpu = BasicHost<Portable>;
constexpr std::chrono::hours never{1};
using One = Trainer<TrapNet, SingleDevice<Microbatches<2>>, Cpu>;
constexpr Shape input = One::input;

/// No launcher that starts a program again after "stopped, all saved" may do so after a stall.
constexpr int stalled_status = 69;
static_assert(static_cast<int>(ExitCode::stalled) == stalled_status &&
              ExitCode::stalled != ExitCode::start_again);

// Ranks that work must come within it where eleven programs share two cores, sanitizers and all.
constexpr std::chrono::seconds limit{TANDEM_TEST_SANITIZED ? 2 : 1};

TrainerOptions options() {
  return {.batch = 8, .shuffle = false, .threads_per_device = 1, .timeout = limit};
}
Samples<float> const data{input, 3, 8};

/// Fails, too, where it waits for ever.
[[noreturn]] void run_to_the_end(auto const& f) {
  ::alarm(60);
  f();
  std::puts("it returned");
  std::fflush(stdout);
  std::_Exit(0);
}

template <class S>
void stall_in_step(int layer, Pass pass, int call) {
  run_to_the_end([&] {
    Trainer<TrapNet, S, Cpu> trainer{options()};
    trainer.step(data.x, data.y);
    Trap::set(layer, pass, call, never);
    trainer.step(data.x, data.y);
  });
}

/// Sample `at` never comes, or does when it is let go.
struct Stuck {
  using Target = std::int32_t;
  std::atomic<bool>* let_go = nullptr;
  int at = 20;
  std::atomic<bool>* reached = nullptr;  ///< set when it is asked for

  [[nodiscard]] static std::int64_t size() { return 40; }
  [[nodiscard]] static Shape shape() { return input; }
  [[nodiscard]] static int targets() { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    if (index == at && reached != nullptr) {
      *reached = true;
    }
    while (index == at && (let_go == nullptr || !let_go->load())) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    std::ranges::fill(x, 0.5F);
    y[0] = 1;
  }
};

struct StuckMetric {
  static constexpr std::string_view name = "stuck";
  template <class T>
  static double value(std::span<T const> /*output*/, std::span<std::int32_t const> /*target*/) {
    std::this_thread::sleep_for(never);
    return 0.0;
  }
};

TEST_SUITE("stalls") {
  TEST_CASE("single device" * doctest::skip()) {
    stall_in_step<SingleDevice<Microbatches<2>>>(1, Pass::backward, 2);
  }
  TEST_CASE("data parallel" * doctest::skip()) {
    stall_in_step<DataParallel<3>>(1, Pass::forward, 3);
  }
  TEST_CASE("pipeline" * doctest::skip()) {
    stall_in_step<Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<3>>>(1, Pass::forward, 3);
  }
  TEST_CASE("hybrid" * doctest::skip()) {
    stall_in_step<Hybrid<DataParallel<2>, Pipeline<GPipe, 2, Split<4>, Split<3>>>>(2, Pass::forward,
                                                                                   1);
  }
  TEST_CASE("last stage of an asynchronous pipeline" * doctest::skip()) {
    run_to_the_end([] {
      Trainer<TrapNet, Pipeline<PipeDream, 1, Split<2>, Split<2>, Split<3>>, Cpu> trainer{
          options()};
      Trap::set(2, Pass::forward, 3, never);
      trainer.train(dataset(input, 3, 160), 0);
    });
  }
  TEST_CASE("predict" * doctest::skip()) {
    run_to_the_end([] {
      One trainer{options()};
      Trap::set(0, Pass::forward, 2, never);
      trainer.predict(dataset(input, 3, 8));
    });
  }
  TEST_CASE("metric" * doctest::skip()) {
    run_to_the_end([] {
      Trainer<TrapNet, SingleDevice<>, Cpu, SoftmaxCrossEntropy<>, StuckMetric> trainer{options()};
      trainer.evaluate(dataset(input, 3, 8));
    });
  }
  TEST_CASE("dataset" * doctest::skip()) {
    run_to_the_end([] {
      TrainerOptions mine = options();
      mine.loader_threads = 3;  // of which one is stuck
      One trainer{mine};
      trainer.train(Stuck{}, 0);
    });
  }
  TEST_CASE("dataset behind an error" * doctest::skip()) {
    run_to_the_end([] {
      std::atomic<bool> reached = false;  // the next batch, before the step of the first one fails
      One trainer{options()};
      Trap::until = &reached;
      Trap::set(1, Pass::forward, 1);
      trainer.train(Stuck{.at = 8, .reached = &reached}, 0);
    });
  }
  TEST_CASE("hook that ends" * doctest::skip()) {
    run_to_the_end([] {
      TrainerOptions mine = options();
      int status = 3;
      mine.on_stall = {.call = [](void* context, Stall const& stall) -> AfterStall {
                         std::printf("rank %d, %s", stall.rank,
                                     stall.idle >= limit ? "late" : "no");
                         std::fflush(stdout);
                         std::_Exit(*static_cast<int*>(context));
                       },
                       .context = &status};
      One trainer{mine};
      Trap::set(0, Pass::forward, 1, never);
      trainer.step(data.x, data.y);
    });
  }
  TEST_CASE("hook that waits" * doctest::skip()) {
    run_to_the_end([] {
      TrainerOptions mine = options();
      std::atomic<bool> let_go = false;
      mine.on_stall = {.call =
                           [](void* context, Stall const& /*stall*/) {
                             static_cast<std::atomic<bool>*>(context)->store(true);
                             return AfterStall::wait;
                           },
                       .context = &let_go};
      mine.loader_threads = 3;
      One trainer{mine};
      std::printf("steps: %d\n", static_cast<int>(trainer.train(Stuck{&let_go}, 0).steps));
    });
  }
}

/// This program with one of the cases above; what it writes comes through a pipe.
struct Process {
  pid_t id = -1;
  int pipe = -1;
};

Process start(std::string const& name) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::string program = "/proc/self/exe";
  std::string only = "--test-case=" + name;
  std::string suite = "--test-suite=stalls";
  std::string skipped = "--no-skip";
  std::array<char*, 5> arguments{program.data(), suite.data(), only.data(), skipped.data(),
                                 nullptr};
  Process process{.pipe = ends[0]};
  REQUIRE(::posix_spawn(&process.id, "/proc/self/exe", &actions, nullptr, arguments.data(),
                        environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  return process;
}

/// What it has written, and its exit status.
std::pair<std::string, int> await(Process const& process) {
  std::string text;
  std::array<char, 4096> some{};
  for (::ssize_t count = 0; (count = ::read(process.pipe, some.data(), some.size())) > 0;) {
    text.append(some.data(), static_cast<std::size_t>(count));
  }
  ::close(process.pipe);
  int status = 0;
  REQUIRE(::waitpid(process.id, &status, 0) == process.id);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

TEST_CASE("a rank or a dataset that never returns: the sentence, the hook, the end") {
  struct Expected {
    std::string name;
    int status;
    std::vector<std::string> parts;
  };
  std::vector<Expected> const cases{
      {"single device",
       stalled_status,
       {"tandem: rank 0 does not return from a training step: it has stood at 0B1 (microbatch 1) "
        "for ",
        ", and the time-out is " + std::to_string(limit.count()) +
            " s; where its work may take that long, set a larger TrainerOptions::timeout, or 0 for "
            "no limit"}},
      {"data parallel",
       stalled_status,
       {" does not return from a training step: it has stood at 0F0 (microbatch 0) for ",
        "; meanwhile rank ", " has failed: rank "}},
      {"pipeline",
       stalled_status,
       {"tandem: rank 1 does not return from a training step: it has stood at 1F2 (microbatch 2)",
        "; meanwhile rank ", " has failed: boundary ", ": rank 1 did not "}},
      {"hybrid", stalled_status, {"it has stood at 1F0 (microbatch 0) for "}},
      {"last stage of an asynchronous pipeline",
       stalled_status,
       {"tandem: rank 2 does not return from training: it has stood at 2F2"}},
      {"predict",
       stalled_status,
       {"rank 0 does not return from evaluate() or predict(): it has stood at 0F1"}},
      {"metric",
       stalled_status,
       {"rank 0 does not return from evaluate() or predict(): it has stood at 0F0"}},
      {"dataset",
       stalled_status,
       {"tandem: the dataset does not return from read(20), sample 20 of the epoch: it has been "
        "there for "}},
      {"dataset behind an error", stalled_status, {"does not return from read(8)"}},
      {"hook that ends", 3, {"tandem: rank 0 does not return from", "rank 0, late"}},
      {"hook that waits", 0, {"does not return from read(20)", "steps: 5", "it returned"}},
  };
  std::vector<Process> processes;
  for (Expected const& one : cases) {
    processes.push_back(start(one.name));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::pair<std::string, int> const end = await(processes[i]);
    std::string const& text = end.first;
    INFO(cases[i].name << ": " << text);
    CHECK(end.second == cases[i].status);
    CHECK(text.find("Sanitizer") == std::string::npos);
    for (std::string const& part : cases[i].parts) {
      INFO("expected: " << part);
      CHECK(text.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("a time-out of 0 is none, one below it is refused") {
  CHECK(!StallLimit{.timeout = {}}.passed(std::chrono::hours{1000}));
  CHECK(StallLimit{.timeout = std::chrono::seconds{1}}.passed(std::chrono::seconds{3}));
  CHECK(!StallLimit{.timeout = std::chrono::seconds{1}}.passed(std::chrono::seconds{2}));
  // looked at every 375 ms
  CHECK(detail::stood_still({.timeout = std::chrono::seconds{1}}, std::chrono::seconds{2}));
  CHECK(!detail::stood_still({.timeout = std::chrono::seconds{1}}, std::chrono::seconds{1}));
  TrainerOptions mine = options();
  mine.timeout = {};
  CHECK(One{mine}.step(data.x, data.y).samples == 8);
  mine.timeout = std::chrono::milliseconds{-1};
  CHECK_THROWS_WITH_AS(One{mine},
                       doctest::Contains("TrainerOptions: timeout must be 0 (no limit) or more"),
                       ContractError);
}

}  // namespace stall_test
}  // namespace tandem::test
