// SPDX-License-Identifier: Apache-2.0
// A run that stops in the middle of an epoch and goes on from a checkpoint has the bits of one that
// never stopped, also on another number of devices.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <interrupted.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace resume_test {

using test::Interrupted;
using test::TinyNet;

constexpr int samples = 28;  // batches of 8, 8, 8, 4
auto const images = test::dataset(image_shape(3, 8, 8), 5, samples);

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

/// Two epochs of four batches, from the file @p from on, if there is one, to the end or until data
/// for @p batches have been read; then it saves.
template <class S>
void run(Optimizer const& optimizer, std::string const& from, std::string const& to, int batches) {
  TrainerOptions own = options(optimizer);
  own.seed = from.empty() ? 11 : 99;  // the checkpoint's counts
  Tiny<S> trainer{own};
  if (!from.empty()) {
    trainer.load(from);
  }
  Interrupted const some{images, batches / 4 * samples + batches % 4 * 8};
  try {
    for (auto epoch : epochs(2)) {
      batches == 8 ? trainer.train(images, epoch) : trainer.train(some, epoch);
    }
    CHECK(batches == 8);
  } catch (std::runtime_error const& error) {
    CHECK(error.what() == std::string{"interrupted"});
  }
  CHECK(trainer.position().step == batches);
  CHECK(trainer.position().epoch == batches / 4);
  CHECK(trainer.position().position == batches % 4 * 8);
  trainer.save(to);
}
using Run = void (*)(Optimizer const&, std::string const&, std::string const&, int);

using R = Reproducible<>;
constexpr Run replicas = run<DataParallel<2>>;
constexpr Run whole_model = run<SingleDevice<Microbatches<4>, R>>;
constexpr Run two = run<DataParallel<2, Microbatches<2>, R>>;
constexpr Run four = run<DataParallel<4, R>>;
constexpr Run stages = run<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>;
constexpr Run both = run<Hybrid<DataParallel<2, R>, Pipeline<GPipe, 2, Split<3>, Split<6>>>>;

Optimizer const momentum = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .nesterov = true};
Optimizer const adam = AdamW{.learning_rate = 0.01F};
Optimizer const rmsprop = own_optimizer<Host>(RMSprop{.momentum = 0.9F, .centered = true});
Optimizer const adagrad = own_optimizer<Host>(Adagrad{.initial_accumulator_value = 0.25F});
Optimizer const lion = own_optimizer<Host>(Lion{.learning_rate = 0.001F});
Optimizer const lamb = own_optimizer<Host>(Lamb{.learning_rate = 0.01F});

struct Resumed {
  Run writer;
  Run reader;
  Optimizer optimizer;
  int batches;  ///< before the end of the writer
};

/// Whether all end with the file of @p whole, which never stopped.
void check(Run whole, std::vector<Resumed> const& cases) {
  test::TemporaryFolder const folder;
  for (Resumed const& own : cases) {
    test::Watchdog const watchdog{"resume"};
    INFO(optimizer_name(own.optimizer) << " after " << own.batches);
    std::string const expected = folder.file(std::string{optimizer_name(own.optimizer)});
    if (!std::filesystem::exists(expected)) {
      whole(own.optimizer, "", expected, 8);
    }
    own.writer(own.optimizer, "", folder.file("a"), own.batches);
    own.reader(own.optimizer, folder.file("a"), folder.file("b"), 8);
    CHECK(test::content(folder.file("b")) == test::content(expected));
  }
}

TEST_CASE("a resumed run has the bits of one that never stopped") {
  check(replicas, {{replicas, replicas, momentum, 6},
                   {replicas, replicas, adam, 6},
                   {replicas, replicas, adam, 0},
                   {replicas, replicas, adam, 4}});
}

TEST_CASE("a resumed run on other devices: the same bits, if reproducible") {
  check(whole_model, {{two, whole_model, momentum, 5},
                      {whole_model, two, adam, 7},
                      {whole_model, four, adam, 6},
                      {two, whole_model, rmsprop, 5},
                      {two, whole_model, adagrad, 5},
                      {two, whole_model, lion, 5},
                      {two, whole_model, lamb, 5},
                      {whole_model, stages, adam, 5},
                      {stages, whole_model, momentum, 6},
                      {stages, both, adam, 4},
                      {both, stages, momentum, 7}});
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

using One = Trainer<test::PlainNet, SingleDevice<>, Host>;
auto const data = test::dataset(One::input, 3, samples);

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
  One whole{options(adam)};
  train_in_loops(whole, data, data);
  for (int const batches : {0, 3, 8, 13, 18, 23, 24}) {
    One stopped{options(adam)};
    Interrupted const some{data, batches / 4 * samples + batches % 4 * 8};
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
