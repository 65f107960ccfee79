// SPDX-License-Identifier: Apache-2.0
// Each of several processes reads what its ranks train on, and nothing else; the numbers are those
// of one process that reads everything.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/threads_as_processes.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace shares_test {

constexpr int samples = 29;  // batches of 8, 8, 8 and 5
using Reads = std::array<std::atomic<int>, samples>;

/// Counts what is read of each sample, by one process; sample `bad` has a label that there is not.
struct Counted {
  using Target = std::int32_t;

  [[nodiscard]] std::int64_t size() const { return samples; }
  [[nodiscard]] Shape shape() const { return image_shape(3, 8, 8); }
  [[nodiscard]] int targets() const { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const {
    ++(*reads)[static_cast<std::size_t>(index)];
    for (std::size_t e = 0; e < x.size(); ++e) {
      x[e] =
          static_cast<float>((static_cast<std::size_t>(index) * 37 + e * 11) % 19) / 19.0F - 0.5F;
    }
    y[0] = index == bad ? 99 : static_cast<std::int32_t>(index % 5);
  }

  Reads* reads;
  std::int64_t bad = -1;
};

int total(Reads const& reads) {
  int sum = 0;
  for (std::atomic<int> const& count : reads) {
    sum += count.load();
  }
  return sum;
}

/// What a process has trained.
struct Seen {
  double loss = 0.0;
  double evaluated = 0.0;
  std::vector<std::vector<float>> weights;
  std::vector<float> outputs;
  std::int64_t right = 0;
  bool operator==(Seen const&) const = default;
};

template <class Trainer>
Seen train(World const& world, Reads& epoch, Reads& evaluation) {
  Trainer trainer{{.batch = 8,
                   .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
                   .seed = 3,
                   .threads_per_device = 1,
                   .loader_threads = 2,
                   .world = world}};
  Counted const counted{&epoch};
  auto const data = augment(counted, RandomCrop{1}, RandomFlip{});  // by seed, epoch and sample
  Seen seen;
  seen.loss = trainer.train(data, Epoch{}).loss;
  seen.evaluated = trainer.evaluate(Counted{&evaluation}).loss;
  seen.weights = test::values_of(trainer.parameters());
  seen.outputs = trainer.predict(Counted{&evaluation});
  Confusion const confusion = trainer.confusion(Counted{&evaluation});
  for (int c = 0; c < 5; ++c) {
    seen.right += confusion(c, c);
  }
  return seen;
}

template <class S>
using Many =
    Trainer<test::TinyNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, test::ThreadsAsProcesses>;

TEST_CASE("each process reads its share, and all have the numbers of one") {
  test::Watchdog const watchdog{"shares"};
  using S = DataParallel<4>;
  Reads all{};
  Reads evaluated{};
  Seen const one = train<Trainer<test::TinyNet, S, Host>>({}, all, evaluated);
  CHECK(total(all) == samples);
  CHECK(total(evaluated) == 3 * samples);
  for (int const processes : {2, 4}) {
    CAPTURE(processes);
    std::mutex mutex;
    std::array<int, samples> sum{};
    std::array<int, samples> evaluations{};
    int most = 0;
    test::as_processes(processes, [&](World const& world) {
      Reads own{};
      Reads others{};
      Seen const seen = train<Many<S>>(world, own, others);
      std::lock_guard const lock{mutex};
      CHECK(seen == one);
      most = std::max(most, total(own));
      for (std::size_t s = 0; s < samples; ++s) {
        sum[s] += own[s];
        evaluations[s] += others[s];
      }
    });
    CHECK(most == 3 * 8 / processes + (processes == 2 ? 3 : 2));  // of 5: 2, 1, 1 and 1
    CHECK(std::ranges::all_of(sum, [](int reads) { return reads == 1; }));
    CHECK(std::ranges::all_of(evaluations, [](int reads) { return reads == 3; }));
  }
}

TEST_CASE("a sample that one process alone has read ends the others' wait") {
  test::Watchdog const watchdog{"a bad share"};
  std::mutex mutex;
  std::vector<std::string> errors(2);
  test::as_processes(2, [&](World const& world) {
    Reads reads{};
    Many<DataParallel<2>> trainer{
        {.batch = 8, .shuffle = false, .threads_per_device = 1, .world = world}};
    std::string text = "none";
    try {
      trainer.train(Counted{&reads, 14}, Epoch{});  // of the second batch, rank 1's
    } catch (Error const& error) {
      text = error.what();
    }
    std::lock_guard const lock{mutex};
    errors[static_cast<std::size_t>(world.process)] = text;
  });
  CHECK(errors[1].find("label 99 of sample 14 of the dataset is out of range") !=
        std::string::npos);
  CHECK(errors[0].find("rank 1 failed: label 99 of sample 14") != std::string::npos);
}

/// Labels of which some count for nothing: the loss is a mean over those that count.
TEST_CASE("where targets are counted each process reads all of them") {
  test::Watchdog const watchdog{"counted targets"};
  using Ignoring = SoftmaxCrossEntropy<IgnoreIndex<3>>;
  auto const losses = [](auto& trainer, Reads& reads) {
    return trainer.train(Counted{&reads}, Epoch{}).loss;
  };
  TrainerOptions const options{.batch = 8, .threads_per_device = 1};
  Reads all{};
  Trainer<test::TinyNet, DataParallel<2>, Host, Ignoring> one{options};
  double const loss = losses(one, all);
  std::mutex mutex;
  test::as_processes(2, [&](World const& world) {
    TrainerOptions own = options;
    own.world = world;
    Reads reads{};
    Trainer<test::TinyNet, DataParallel<2>, Host, Ignoring, Accuracy, test::ThreadsAsProcesses>
        trainer{own};
    double const same = losses(trainer, reads);
    std::lock_guard const lock{mutex};
    CHECK(same == loss);
    CHECK(total(reads) == samples);
  });
}

}  // namespace shares_test
}  // namespace tandem
