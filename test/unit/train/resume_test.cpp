// SPDX-License-Identifier: Apache-2.0
// A run that stops in the middle of an epoch and goes on from a checkpoint has the bits of one that
// never stopped, also on another number of devices.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
Optimizer const rmsprop = own_optimizer<Host>(RMSprop{.momentum = 0.9F, .centered = true});
Optimizer const adagrad = own_optimizer<Host>(Adagrad{.initial_accumulator_value = 0.25F});
Optimizer const lion = own_optimizer<Host>(Lion{.learning_rate = 0.001F});
Optimizer const lamb = own_optimizer<Host>(Lamb{.learning_rate = 0.01F});

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
  for (Optimizer const& own : {rmsprop, adagrad, lion, lamb}) {
    INFO(optimizer_name(own));
    check_resume<Two, One>(own, 5);
  }
}

TEST_CASE("an own optimizer's states are in the checkpoint by their names, and begin as it says") {
  using T = Tiny<SingleDevice<Microbatches<4>, Reproducible<>>>;
  test::TemporaryFolder const folder;
  T trainer{options({}), Adagrad{.initial_accumulator_value = 0.25F}};
  for (NamedParameter<float> const& p : trainer.parameters()) {
    CHECK(p.states.size() == (p.role == Role::weight ? 1 : 0));
    for (std::span<float const> const state : p.states) {
      CHECK(std::ranges::count(state, 0.25F) == std::ssize(state));
    }
  }
  trainer.save(folder.file("a"));
  auto const file = Safetensors::read(folder.file("a"));
  CHECK(file.find("optimizer.sum.0.weight") != nullptr);
  CHECK(*file.find_metadata("optimizer") == "Adagrad");
  T other{options(lion)};
  CHECK(test::contains(test::message<FileError>([&] { other.load(folder.file("a")); }),
                       "the optimizer was Adagrad, but this trainer has Lion"));
  using S = SingleDevice<Microbatches<4>, Reproducible<>>;
  auto const counted = [](auto const& o) {
    return device_memory<TinyNet, S, std::decay_t<decltype(o)>, Fp32>(8, 0).optimizer_state;
  };
  CHECK(trainer.memory().optimizer_state == counted(Adagrad{}));
  CHECK(T{options(rmsprop)}.memory().optimizer_state == counted(RMSprop{}));
  CHECK(counted(RMSprop{}) == 3 * counted(Lion{}));
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

using One = Tiny<SingleDevice<>>;

/// Two loops, and two datasets in turn in the second: epochs 0 to 5 of the run.
template <class D>
std::vector<std::int64_t> train_in_loops(One& trainer, D const& a, D const& b) {
  std::vector<std::int64_t> steps;
  for (auto epoch : epochs(2)) {
    steps.push_back(trainer.train(a, epoch).steps);
  }
  for (auto epoch : epochs(2)) {
    steps.push_back(trainer.train(a, epoch).steps);
    steps.push_back(trainer.train(b, epoch).steps);
  }
  return steps;
}

TEST_CASE("each call trains, in a second loop, too, and as the next epoch of the run") {
  auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);
  One loops{options(momentum)};
  CHECK(train_in_loops(loops, data, data) == std::vector<std::int64_t>(6, 4));
  CHECK(loops.position().epoch == 6);
  One one{options(momentum)};
  for (auto epoch : epochs(6)) {
    one.train(data, epoch);
  }
  CHECK(test::first_difference(loops.parameters(), one.parameters()) == "");

  One any{options(momentum)};
  any.train(data, 5);
  CHECK(any.position().epoch == 6);
  CHECK(any.train(data, 3).steps == 4);
  CHECK(any.train(data, 3).steps == 4);
  CHECK(any.position().epoch == 8);
  CHECK(any.train(data, 4).steps == 4);
  CHECK(any.position().epoch == 9);
}

TEST_CASE("a program of several loops resumes where it was") {
  test::TemporaryFolder const folder;
  auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);
  One whole{options(adam)};
  train_in_loops(whole, data, data);
  for (int const batches : {0, 3, 8, 13, 18, 23, 24}) {
    One stopped{options(adam)};
    Interrupted const some{batches / 4 * samples + batches % 4 * 8};
    static_cast<void>(test::message<std::runtime_error>([&] {
      train_in_loops(stopped, some, some);
      throw std::runtime_error{""};
    }));
    CHECK(stopped.position().step == batches);
    stopped.save(folder.file("x"));
    One resumed{options(adam)};
    resumed.load(folder.file("x"));
    std::vector<std::int64_t> const steps = train_in_loops(resumed, data, data);
    CHECK(std::ranges::count(steps, 0) == batches / 4);
    CHECK(resumed.position().step == 24);
    CHECK(test::first_difference(resumed.parameters(), whole.parameters()) == "");
  }
}

TEST_CASE("a second loop goes on with the epoch that a watcher has stopped") {
  auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);
  One trainer{options(momentum)};
  trainer.train(data, 0);
  trainer.train(data, 1, [](StepReport const& report) {
    return report.step == 7 ? AfterStep::stop : AfterStep::go_on;
  });
  CHECK(trainer.train(data, 0).steps == 1);
  CHECK(trainer.position().epoch == 2);
  CHECK(trainer.train(data, 1).steps == 4);
  CHECK(trainer.position().epoch == 3);
  trainer.set_position(1, 24);
  CHECK(trainer.train(data, 1).steps == 1);
  CHECK(trainer.position().epoch == 2);
}

TEST_CASE("epochs that are none are refused") {
  auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);
  One trainer{options(momentum)};
  for (std::int64_t const epoch : {std::int64_t{-1}, std::int64_t{1} << 32}) {
    CHECK(test::message<ContractError>([&] { trainer.train(data, epoch); }) ==
          "train(data, epoch): epoch must be 0 or more, and less than 2^32");
  }
  CHECK(trainer.position().epoch == 0);
  trainer.train(data, (std::int64_t{1} << 32) - 1);
  CHECK(test::contains(test::message<ContractError>([&] { trainer.train(data, 0); }),
                       "a run may have at most 2^32 epochs"));
  CHECK(test::message<ContractError>([] { static_cast<void>(epochs(-1)); }) ==
        "epochs(count): count must be 0 or more");
  CHECK_FALSE(epochs(0).begin() != epochs(0).end());
}

}  // namespace resume_test
}  // namespace tandem
