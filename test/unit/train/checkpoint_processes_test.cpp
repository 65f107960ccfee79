// SPDX-License-Identifier: Apache-2.0
// Processes save behind the same steps, whichever of them sees the signal or has the clock, and
// each writes its share, and reads its share.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
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

using All = std::vector<std::vector<float>>;

/// What two processes, each with a path of its own, have loaded.
std::vector<LoadedBytes> load_by_two(std::vector<std::string> const& paths, All const& expected,
                                     double best = PlateauState{}.best) {
  std::mutex mutex;
  std::vector<LoadedBytes> loaded(2);
  test::as_processes(2, [&](World const& world) {
    auto const own = static_cast<std::size_t>(world.process);
    OfTwo trainer{options({}, world)};
    trainer.load(paths[own]);
    std::lock_guard const lock{mutex};
    CHECK(test::values_of(trainer.parameters()) == expected);
    CHECK(trainer.position().plateaus[0].best == best);
    loaded[own] = trainer.loaded_bytes();
  });
  return loaded;
}

// What process 0 tells: the position and plateaus.
constexpr std::int64_t position_bytes = 4 * sizeof(std::int64_t) + 12 * sizeof(double);

TEST_CASE("a file or a folder is read once, half by each of two processes with all of it") {
  test::Watchdog const watchdog{"reading of processes"};
  test::TemporaryFolder const folder;
  T trainer{options({})};
  trainer.train(data, 0);
  trainer.plateau()(0.5);
  trainer.save(folder.file("one"));
  std::string const plain = folder.file("plain");  // as others write it
  std::filesystem::create_directory(plain);
  trainer.save(plain + "/model.safetensors");
  for (std::string const& path : {folder.file("one"), plain, trainer.save_in(folder.name())}) {
    CAPTURE(path);
    auto const loaded = load_by_two({path, path}, test::values_of(trainer.parameters()), 0.5);
    T alone{options({})};
    alone.load(path);
    std::int64_t const whole = alone.loaded_bytes().read;
    CHECK(alone.loaded_bytes().received == 0);
    CHECK(loaded[0].read + loaded[1].read == whole);
    CHECK(loaded[0].received == loaded[1].read);
    CHECK(loaded[1].received == loaded[0].read - position_bytes);
    CHECK(std::min(loaded[0].read, loaded[1].read) > whole / 3);
  }
}

TEST_CASE("only process 0 must see the checkpoint, and what others see in its place is left") {
  test::Watchdog const watchdog{"who sees a checkpoint"};
  test::TemporaryFolder const folder;
  T trainer{options({})};
  trainer.train(data, 0);
  trainer.save(folder.file("old"));
  std::string const old = trainer.save_in(folder.name());
  trainer.train(data, 1);
  trainer.plateau()(0.25);
  trainer.save(folder.file("new"));
  std::string const newer = trainer.save_in(folder.name());
  for (std::string const& seen : {folder.file("nothing"), folder.file("old"), old}) {
    for (std::string const& path : {folder.file("new"), newer}) {
      auto const loaded = load_by_two({path, seen}, test::values_of(trainer.parameters()), 0.25);
      CHECK(loaded[0].received == 0);
      CHECK(loaded[1] == LoadedBytes{.read = 0, .received = loaded[0].read - position_bytes});
    }
  }
}

TEST_CASE("what one process cannot read is one sentence in all, and nothing has changed") {
  test::Watchdog const watchdog{"damage of processes"};
  test::TemporaryFolder const folder;
  T trainer{options({})};
  trainer.train(data, 0);
  std::string const good = folder.file("good");
  trainer.save(good);
  auto const saved = test::values_of(trainer.parameters());
  std::string const path = trainer.save_in(folder.name());
  std::vector<std::string> files{folder.file("nothing"), folder.file("damaged")};
  std::string bytes = test::content(good);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::put(files[1], bytes);
  for (std::string const& name : detail::names_in(path)) {  // one damaged file each
    std::string const damaged = folder.file("damaged-" + name);
    std::filesystem::copy(path, damaged);
    bytes = test::content(damaged + "/" + name);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    test::put(damaged + "/" + name, bytes);
    files.push_back(damaged);
  }
  std::vector<std::vector<std::string>> said(2);
  std::mutex mutex;
  test::as_processes(2, [&](World const& world) {
    OfTwo own{options({}, world)};
    auto const before = test::values_of(own.parameters());
    std::vector<std::string> sentences;
    for (std::string const& file : files) {
      sentences.push_back(test::message<FileError>([&] { own.load(file); }));
    }
    bool const untouched = test::values_of(own.parameters()) == before;
    own.load(good);
    bool const as_saved = test::values_of(own.parameters()) == saved;
    std::lock_guard const lock{mutex};
    CHECK(untouched);
    CHECK(as_saved);
    said[static_cast<std::size_t>(world.process)] = sentences;
  });
  CHECK(said[0] == said[1]);
  REQUIRE(said[0].size() == files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    CHECK(said[0][i].starts_with("'" + files[i]));
  }
}

TEST_CASE("processes take the mean of a checkpoint of two models") {
  test::Watchdog const watchdog{"two models of processes"};
  test::TemporaryFolder const folder;
  T trainer{options({})};
  trainer.train(data, 0);
  trainer.save(folder.file("one"));
  Safetensors const one = Safetensors::read(folder.file("one"));
  std::vector<TensorView> tensors = one.tensors();
  std::vector<std::byte> const zeros(1 << 16);
  std::string const state = "optimizer.momentum_buffer.";
  for (TensorView const& tensor : one.tensors()) {
    if (!tensor.name.starts_with("tandem.")) {
      bool const is_state = tensor.name.starts_with(state);
      tensors.push_back(tensor);
      tensors.back().name =
          is_state ? state + "second." + tensor.name.substr(state.size()) : "second." + tensor.name;
      tensors.back().data = std::span{zeros}.first(tensor.data.size());
    }
  }
  std::string const two = folder.file("two");
  write_safetensors(two, tensors, with_checksums(tensors, {}));
  T mean{options({})};
  mean.load(two);
  auto const expected = test::values_of(mean.parameters());
  REQUIRE(expected != test::values_of(trainer.parameters()));
  load_by_two({two, two}, expected);
  load_by_two({two, folder.file("nothing")}, expected);
}

}  // namespace checkpoint_processes_test
}  // namespace tandem

#endif
