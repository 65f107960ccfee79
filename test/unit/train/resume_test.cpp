// SPDX-License-Identifier: Apache-2.0
// A run that stops in the middle of an epoch and goes on from a checkpoint has the bits of one that
// never stopped, also on another number of devices.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace resume_test {

using test::TinyNet;

constexpr int samples = 28;  // batches of 8, 8, 8, 4

/// Data whose reader fails after a number of samples, as a user who presses Ctrl-C would.
class Interrupted {
 public:
  using Target = std::int32_t;
  explicit Interrupted(std::int64_t reads) : left_{reads} {}

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    if (left_.fetch_sub(1) <= 0) {
      throw std::runtime_error{"interrupted"};
    }
    data_.read(index, x, y);
  }
  [[nodiscard]] std::int64_t size() const { return data_.size(); }
  [[nodiscard]] Shape shape() const { return data_.shape(); }
  [[nodiscard]] int targets() const { return data_.targets(); }

 private:
  TensorDataset<std::int32_t> data_ = test::dataset(image_shape(3, 8, 8), 5, samples);
  mutable std::atomic<std::int64_t> left_;
};

TrainerOptions options(Optimizer const& optimizer) {
  return {.batch = 8,
          .optimizer = optimizer,
          .schedule = {Cosine{.steps = 20}, 3},
          .clip_norm = 1.0,
          .seed = 11,
          .threads_per_device = 1};
}

template <class S>
using Tiny = Trainer<TinyNet, S, Host>;

/// Stops after 8 batches of three epochs of 4: in none, in the second, at the end of the second.
template <class S>
void interrupted_run(std::string const& path, Optimizer const& optimizer, int batches) {
  Tiny<S> trainer{options(optimizer)};
  std::int64_t const reads = batches / 4 * samples + batches % 4 * 8;
  Interrupted const data{reads};
  std::string const text = test::message<std::runtime_error>([&] {
    for (auto epoch : epochs(3)) {
      trainer.train(data, epoch);
    }
  });
  CHECK(text == "interrupted");
  CHECK(trainer.position().step == batches);
  CHECK(trainer.position().epoch == batches / 4);
  CHECK(trainer.position().position == batches % 4 * 8);
  trainer.save(path);
}

template <class S>
void train_to_the_end(Tiny<S>& trainer) {
  auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);
  for (auto epoch : epochs(3)) {
    trainer.train(data, epoch);
  }
  CHECK(trainer.position().step == 12);
}

template <class Writer, class Reader>
void check_resume(Optimizer const& optimizer, int batches) {
  test::Watchdog const watchdog{"resume"};
  test::TemporaryFolder const folder;
  Tiny<Reader> whole{options(optimizer)};
  train_to_the_end(whole);

  interrupted_run<Writer>(folder.file("a"), optimizer, batches);
  TrainerOptions other = options(optimizer);
  other.seed = 99;  // the checkpoint's counts
  Tiny<Reader> resumed{other};
  resumed.load(folder.file("a"));
  train_to_the_end(resumed);
  CHECK(test::first_difference(resumed.parameters(), whole.parameters()) == "");

  resumed.save(folder.file("b"));  // the same file, too
  whole.save(folder.file("c"));
  CHECK(test::content(folder.file("b")) == test::content(folder.file("c")));
}

Optimizer const momentum = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .nesterov = true};
Optimizer const adam = AdamW{.learning_rate = 0.01F};

TEST_CASE("a resumed run has the bits of one that never stopped") {
  using Two = DataParallel<2>;
  check_resume<Two, Two>(momentum, 6);
  check_resume<Two, Two>(adam, 6);
  check_resume<Two, Two>(adam, 0);
  check_resume<Two, Two>(adam, 4);
}

TEST_CASE("a resumed run on another number of devices: the same bits, if reproducible") {
  using One = SingleDevice<Microbatches<4>, Reproducible<>>;
  using Two = DataParallel<2, Microbatches<2>, Reproducible<>>;
  using Four = DataParallel<4, Reproducible<>>;
  check_resume<Two, One>(momentum, 5);
  check_resume<One, Two>(adam, 7);
  check_resume<One, Four>(adam, 6);
}

TEST_CASE("a run of one device resumed on a pipeline, and back: the same bits, if reproducible") {
  using One = SingleDevice<Microbatches<4>, Reproducible<>>;
  using Two = Pipeline<OneFOneB, 4, Split<4>, Split<5>, Reproducible<>>;
  using Four = Hybrid<DataParallel<2, Reproducible<>>, Pipeline<GPipe, 2, Split<3>, Split<6>>>;
  check_resume<One, Two>(adam, 5);
  check_resume<Two, One>(momentum, 6);
  check_resume<Two, Four>(adam, 4);
  check_resume<Four, Two>(momentum, 7);
}

}  // namespace resume_test
}  // namespace tandem
