// SPDX-License-Identifier: Apache-2.0
// Checkpoints that train() writes by itself: when, how many stay, that a run goes on from any of
// them with its own bits, and what happens where they cannot be written.

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <interrupted.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace scheduled_checkpoint_test {

using T = Trainer<test::TinyNet, DataParallel<2>, Host>;
using Steps = std::vector<std::int64_t>;

constexpr int samples = 28;  // batches of 8, 8, 8, 4
auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);

TrainerOptions options(Checkpoints checkpoints = {}) {
  return {.batch = 8,
          .optimizer = AdamW{.learning_rate = 0.01F},
          .schedule = {Cosine{.steps = 20}, 3},
          .seed = 11,
          .threads_per_device = 1,
          .checkpoints = std::move(checkpoints)};
}

void train_to_the_end(T& trainer) {
  for (auto epoch : epochs(3)) {
    trainer.train(data, epoch);
  }
  CHECK(trainer.position().step == 12);
}

TEST_CASE("a schedule counts steps, and the seconds since the last checkpoint") {
  using std::chrono::milliseconds;
  CheckpointSchedule::Time const start{};
  CheckpointSchedule schedule{{.folder = "x", .every_steps = 3, .every_seconds = 2.0}, start};
  CHECK_FALSE(schedule.by_steps(2));
  CHECK(schedule.by_steps(3));
  CHECK_FALSE(schedule.by_time(start + milliseconds{1999}));
  CHECK(schedule.by_time(start + milliseconds{2000}));
  schedule.saved(3, start + milliseconds{2000});
  CHECK(schedule.has(3));
  CHECK_FALSE(schedule.by_steps(3));
  CHECK(schedule.by_steps(6));
  CHECK_FALSE(schedule.by_time(start + milliseconds{3999}));
  CHECK(schedule.by_time(start + milliseconds{4000}));
  CheckpointSchedule const none{{.folder = "x"}, start};
  CHECK_FALSE(none.by_steps(0));
  CHECK_FALSE(none.by_time(start + std::chrono::hours{1000}));
}

TEST_CASE("train() saves by itself, the newest stay, and no bit of the training changes") {
  test::Watchdog const watchdog{"scheduled"};
  test::TemporaryFolder const folder;
  T whole{options()};
  train_to_the_end(whole);
  for (auto const& [when, complete] :
       {std::pair<Checkpoints, Steps>{{.every_steps = 5, .keep = 9}, {5, 10}},
        {{.every_steps = 1, .keep = 2}, {11, 12}},
        {{.every_seconds = 1e-9, .keep = 99}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {{.every_seconds = 1e9}, {}},
        {{}, {}}}) {
    Checkpoints own = when;
    own.folder = folder.file("run" + std::to_string(complete.size()) + "/inner");
    T trainer{options(own)};
    train_to_the_end(trainer);
    trainer.await_checkpoint();
    CHECK(detail::complete_checkpoints(own.folder) == complete);
    CHECK(detail::names_in(own.folder).size() == complete.size());
    CHECK(test::first_difference(trainer.parameters(), whole.parameters()) == "");
  }
}

TEST_CASE("a run that ends goes on from its newest checkpoint to the bits of one that does not") {
  test::Watchdog const watchdog{"resume of a schedule"};
  T whole{options()};
  train_to_the_end(whole);
  for (int const every : {3, 4}) {  // in the middle of an epoch, and at its end
    test::TemporaryFolder const folder;
    Checkpoints const when{.folder = folder.file("run"), .every_steps = every, .keep = 2};
    {
      T stopped{options(when)};
      CHECK(stopped.resume().empty());
      test::Interrupted const some{data, samples + 3 * 8};  // the 8th batch does not come
      CHECK(test::message<std::runtime_error>([&] {
              for (auto epoch : epochs(3)) {
                stopped.train(some, epoch);
              }
            }) == "interrupted");
    }  // what is being written is finished
    T resumed{options(when)};
    CHECK(resumed.resume() == folder.file(every == 3 ? "run/step-000006" : "run/step-000004"));
    train_to_the_end(resumed);
    CHECK(test::first_difference(resumed.parameters(), whole.parameters()) == "");
    resumed.await_checkpoint();
    CHECK(resumed.resume() == folder.file("run/step-000012"));
    train_to_the_end(resumed);  // done already
    CHECK(test::first_difference(resumed.parameters(), whole.parameters()) == "");
  }
}

TEST_CASE("a checkpoint that cannot be written is said, and training goes on") {
  test::Watchdog const watchdog{"no checkpoint"};
  test::TemporaryFolder const folder;
  test::put(folder.file("file"), "x");
  T whole{options()};
  train_to_the_end(whole);
  T trainer{options({.folder = folder.file("file/run"), .every_steps = 1})};
  int said = 0;
  for (auto epoch : epochs(3)) {
    trainer.train(data, epoch, [&](StepReport const& report) {
      said += report.checkpoint_failure.empty() ? 0 : 1;
      CHECK((report.checkpoint_failure.empty() ||
             test::contains(report.checkpoint_failure, "this checkpoint was not written: '")));
      CHECK((report.step > 1 || said == 0));
    });
  }
  CHECK(said > 0);
  CHECK(said <= 11);
  CHECK(test::first_difference(trainer.parameters(), whole.parameters()) == "");
  CHECK(test::message<FileError>([&] { trainer.await_checkpoint(); }) ==
        "'" + folder.file("file/run/step-000012") + "': this checkpoint was not written: '" +
            folder.file("file/run/step-000012.tmp") +
            "': cannot make this folder: Not a directory; there is no other in the folder");
  CHECK(trainer.resume().empty());
}

/// On a disk of 96 KiB at @p folder; returns 0, 1 if it cannot be mounted, or the check that
/// failed.
int train_on_a_small_disk(std::string const& folder) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return 1;
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=96k") != 0) {
    return 1;
  }
  Checkpoints const when{.folder = folder + "/run", .every_steps = 1, .keep = 99};
  T trainer{options(when)};
  for (auto epoch : epochs(3)) {
    trainer.train(data, epoch);
  }
  if (trainer.position().step != 12) {
    return 2;
  }
  try {
    trainer.await_checkpoint();
    return 3;
  } catch (FileError const& error) {
    if (!test::contains(error.what(), "No space left on device; the newest that is complete is")) {
      return 4;
    }
  }
  auto const steps = detail::complete_checkpoints(when.folder);
  if (steps.empty() || steps.back() == 12 || detail::names_in(when.folder).size() != steps.size()) {
    return 5;
  }
  return trainer.resume() == when.folder + "/" + detail::checkpoint_name(steps.back()) ? 0 : 6;
}

TEST_CASE("on a disk that is full training goes on, and the last good checkpoint stays") {
  test::TemporaryFolder const folder;
  ::pid_t const child = ::fork();  // its mount is seen by no other process, and ends with it
  REQUIRE(child >= 0);
  if (child == 0) {
    int result = 7;
    try {
      result = train_on_a_small_disk(folder.name());
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 1) {
    MESSAGE("skipped: no disk can be mounted here");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the newest is damaged: it is named, and nothing changes") {
  test::TemporaryFolder const folder;
  T trainer{options({.folder = folder.name(), .every_steps = 2})};
  trainer.train(data, 0);
  trainer.await_checkpoint();
  auto const before = test::values_of(trainer.parameters());
  std::filesystem::resize_file(folder.file("step-000004/model-00001-of-00001.safetensors"), 100);
  CHECK(test::contains(test::message<FileError>([&] { trainer.resume(); }), "step-000004"));
  CHECK(test::values_of(trainer.parameters()) == before);
  std::filesystem::remove_all(folder.file("step-000004"));
  CHECK(trainer.resume() == folder.file("step-000002"));
}

TEST_CASE("options of checkpoints that are out of range are refused") {
  auto const refusal = [](Checkpoints const& when) {
    return test::message<ContractError>([&] { T const trainer{options(when)}; });
  };
  CHECK(test::contains(refusal({.folder = "x", .every_steps = -1}), "every_steps must be 0"));
  CHECK(test::contains(refusal({.folder = "x", .every_seconds = -1.0}), "every_seconds must be 0"));
  CHECK(test::contains(
      refusal({.folder = "x", .every_seconds = std::numeric_limits<double>::infinity()}),
      "every_seconds must be 0"));
  CHECK(test::contains(refusal({.folder = "x", .keep = 0}), "keep must be 1 or more"));
  CHECK(test::contains(refusal({.every_steps = 5}), "give checkpoints.folder"));
  Checkpoints grown{.every_steps = 5};
  grown.folder.push_back('x');
  CHECK(test::contains(refusal(grown), "a whole path"));
  grown.folder = "";
  CHECK((grown.folder += "x") == "x");
  CHECK((grown.folder.obey() != nullptr));
  T trainer{options()};
  CHECK(test::message<ContractError>([&] { trainer.resume(); }) ==
        "resume(): no folder is given to look in; give TrainerOptions::checkpoints a .folder");
  CHECK_NOTHROW(trainer.await_checkpoint());
}

}  // namespace scheduled_checkpoint_test
}  // namespace tandem
