// SPDX-License-Identifier: Apache-2.0
// Processes whose options or calls differ say at once what differs, and in which of them; all of
// them with one sentence.

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <support/temporary_folder.hpp>
#include <support/threads_as_processes.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace agreement_test {

template <class S, class Net = test::PlainNet>
using Many = Trainer<Net, S, Host, SoftmaxCrossEntropy<>, Accuracy, test::ThreadsAsProcesses>;
using Two = Many<DataParallel<2>>;

auto const data = test::dataset(image_shape(1, 4, 4), 3, 20);

TrainerOptions options() {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .threads_per_device = 1,
          .timeout = std::chrono::seconds{20}};
}

/// What each of two processes says where it makes @p f of its own, "" where that goes well.
std::array<std::string, 2> said(std::function<void(World const&)> const& f) {
  std::mutex mutex;
  std::array<std::string, 2> all;
  test::as_processes(2, [&](World const& world) {
    std::string text;
    try {
      f(world);
    } catch (std::exception const& error) {
      text = error.what();
    }
    std::lock_guard const lock{mutex};
    all[static_cast<std::size_t>(world.process)] = text;
  });
  return all;
}

using Change = std::function<void(TrainerOptions&)>;

/// What both say where process 1 alone has @p change.
std::string refusal(
    Change const& change, Change const& in_both = [](TrainerOptions&) {}) {
  auto const all = said([&](World const& world) {
    TrainerOptions own = options();
    own.world = world;
    in_both(own);
    if (world.process == 1) {
      change(own);
    }
    Two const trainer{own};
  });
  CHECK(all[0] == all[1]);
  return all[0];
}

void check_refused(
    std::string const& what, Change const& change, Change const& in_both = [](TrainerOptions&) {}) {
  CAPTURE(what);
  std::string const text = refusal(change, in_both);
  CAPTURE(text);
  CHECK(text.starts_with(what + "; start one program everywhere"));
}

TEST_CASE("each option that makes other numbers is named, with both values and processes") {
  test::Watchdog const watchdog{"options of processes"};
  CHECK(refusal([](TrainerOptions&) {}).empty());
  std::string const in = "TrainerOptions::";
  check_refused(in + "seed is 0 in process 0, but 3 in process 1", [](auto& o) { o.seed = 3; });
  check_refused(in + "batch is 8 in process 0, but 6 in process 1", [](auto& o) { o.batch = 6; });
  check_refused(in + "optimizer.learning_rate is 0.1 in process 0, but 0.10000001 in process 1",
                [](auto& o) { o.optimizer = Sgd{.learning_rate = 0.10000001F, .momentum = 0.9F}; });
  check_refused(in + "optimizer is Sgd in process 0, but AdamW in process 1",
                [](auto& o) { o.optimizer = AdamW{}; });
  check_refused(
      in + "optimizer.beta2 is 0.999 in process 0, but 0.99 in process 1",
      [](auto& o) { o.optimizer = Adam{.beta2 = 0.99F}; }, [](auto& o) { o.optimizer = Adam{}; });
  check_refused(in + "schedule is Constant in process 0, but Cosine in process 1",
                [](auto& o) { o.schedule = Cosine{.steps = 9}; });
  check_refused(
      in + "schedule.steps is 9 in process 0, but 10 in process 1",
      [](auto& o) { o.schedule = OneCycle{.steps = 10}; },
      [](auto& o) { o.schedule = OneCycle{.steps = 9}; });
  check_refused(
      in + "schedule.factor is 0.5 in process 0, but 0.25 in process 1",
      [](auto& o) { o.schedule = Halvings{.factor = 0.25}; },
      [](auto& o) { o.schedule = Halvings{}; });
  check_refused(in + "schedule.warm_up is 0 in process 0, but 5 in process 1", [](auto& o) {
    o.schedule = Schedule{Constant{}, 5};
  });
  check_refused(in + "clip_norm is 0 in process 0, but 1 in process 1",
                [](auto& o) { o.clip_norm = 1.0; });
  check_refused(in + "clip_value is 0 in process 0, but 1 in process 1",
                [](auto& o) { o.clip_value = 1.0; });
  check_refused(in + "loss_scaling.initial is 0 in process 0, but 1024 in process 1",
                [](auto& o) { o.loss_scaling = LossScaling{.initial = 1024.0}; });
  check_refused("the number of " + in + "groups is 0 in process 0, but 1 in process 1",
                [](auto& o) { o.groups = {{.pattern = "*"}}; });
  check_refused(
      in + "groups[0].weight_decay is the optimizer's in process 0, but 0 in process 1",
      [](auto& o) { o.groups[0].weight_decay = 0.0F; },
      [](auto& o) { o.groups = {{.pattern = "*.bias"}}; });
  check_refused(in + "average.decay is 0 in process 0, but 0.5 in process 1",
                [](auto& o) { o.average.decay = 0.5; });
  check_refused(in + "shuffle is true in process 0, but false in process 1",
                [](auto& o) { o.shuffle = false; });
  check_refused(in + "drop_last is false in process 0, but true in process 1",
                [](auto& o) { o.drop_last = true; });
  test::TemporaryFolder const folder;
  check_refused(
      in + "checkpoints.every_steps is 2 in process 0, but 3 in process 1",
      [](auto& o) { o.checkpoints.every_steps = 3; },
      [&](auto& o) { o.checkpoints = {.folder = folder.name(), .every_steps = 2}; });
  CHECK(refusal([](auto& o) {  // what changes no number may differ
          o.loader_threads = 2;
          o.threads_per_device = 2;
        })
            .empty());
}

TEST_CASE("an optimizer of the program's own is compared by its name and its rates") {
  test::Watchdog const watchdog{"own optimizers of processes"};
  check_refused("TrainerOptions::optimizer is Sgd in process 0, but Lion in process 1",
                [](auto& o) { o.optimizer = own_optimizer<Host>(Lion{}); });
}

/// What two processes say of calls of their own.
template <class T>
std::array<std::string, 2> calls(std::function<void(T&, int)> const& f) {
  return said([&](World const& world) {
    TrainerOptions own = options();
    own.world = world;
    T trainer{own};
    f(trainer, world.process);
  });
}

TEST_CASE("processes that make other calls say which") {
  test::Watchdog const watchdog{"calls of processes"};
  auto const check_said = [](std::string const& what, std::function<void(Two&, int)> const& f) {
    CAPTURE(what);
    auto const all = calls<Two>(f);
    CAPTURE(all[0]);
    CHECK(all[0] == all[1]);
    CHECK(all[0].starts_with(what + "; let all processes make the same calls"));
  };
  check_said("the call of the trainer is evaluate() in process 0, but train() in process 1",
             [](Two& trainer, int process) {
               if (process == 0) {
                 trainer.evaluate(data);
               }
               trainer.train(data, 0);
             });
  auto const fewer = test::dataset(image_shape(1, 4, 4), 3, 19);
  check_said("train(): the number of samples is 20 in process 0, but 19 in process 1",
             [&](Two& trainer, int process) { trainer.train(process == 0 ? data : fewer, 0); });
  check_said("predict(): the number of samples is 19 in process 0, but 20 in process 1",
             [&](Two& trainer, int process) { trainer.predict(process == 1 ? data : fewer); });
  check_said("train(): the epoch of the call is 0 in process 0, but 1 in process 1",
             [](Two& trainer, int process) { trainer.train(data, process); });
  check_said(
      "train(): the learning rate is 0.10000000149011612 in process 0, but 0.01 in process 1",
      [](Two& trainer, int process) {
        trainer.train(data, 0);
        if (process == 1) {
          trainer.set_learning_rate(0.01);
        }
        trainer.train(data, 1);
      });
  check_said("step(): the learning rate is 0.10000000149011612 in process 0, but 0.2 in process 1",
             [](Two& trainer, int process) {
               test::Samples<float> const batch{Two::input, 3, 8};
               trainer.step(batch.x, batch.y);
               if (process == 1) {
                 trainer.set_learning_rate(0.2);
               }
               trainer.step(batch.x, batch.y);
             });
  test::TemporaryFolder const folder;
  check_said("the call of the trainer is save_in() in process 0, but load() in process 1",
             [&](Two& trainer, int process) {
               process == 0 ? static_cast<void>(trainer.save_in(folder.name()))
                            : trainer.load(folder.file("none"));
             });
}

TEST_CASE("a stop in one process ends the others' step") {
  test::Watchdog const watchdog{"a stop in one process"};
  auto const all = calls<Two>([](Two& trainer, int process) {
    trainer.train(data, 0, [&](StepReport const& report) {
      return process == 0 && report.step == 1 ? AfterStep::stop : AfterStep::go_on;
    });
    trainer.evaluate(data);
  });
  for (std::string const& text : all) {
    CAPTURE(text);
    CHECK(text.find("all ranks must make the same calls in the same order") != text.npos);
  }
}

TEST_CASE("where devices share layers save() in one process alone is refused") {
  test::Watchdog const watchdog{"a save in one process"};
  struct Shared : Network<Vector<6>, Sequential<Linear<8>, ReLU, Linear<3>>> {};
  using T = Many<TensorParallel<2>, Shared>;
  test::TemporaryFolder const folder;
  auto const rows = test::dataset(vector_shape(6), 3, 20);
  auto const all = calls<T>([&](T& trainer, int process) {
    trainer.train(rows, 0);
    if (process == 0) {
      trainer.save(folder.file("saved"));
    }
    trainer.train(rows, 1);
  });
  CHECK(all[0] == all[1]);
  CHECK(all[0].starts_with(
      "the call of the trainer is save() in process 0, but train() in process 1"));
}

TEST_CASE("processes are counted where they are many") {
  CHECK(detail::names_of_processes({3}) == "process 3");
  CHECK(detail::names_of_processes({1, 3}) == "processes 1 and 3");
  CHECK(detail::names_of_processes({0, 1, 2, 3}) == "processes 0, 1, 2 and 3");
  CHECK(detail::names_of_processes({2, 4, 6, 8, 9}) == "processes 2, 4 and 3 more");
}

TEST_CASE("three processes: who has the same stands together") {
  test::Watchdog const watchdog{"three processes"};
  std::mutex mutex;
  std::vector<std::string> texts;
  test::as_processes(3, [&](World const& world) {
    TrainerOptions own = options();
    own.world = world;
    own.seed = world.process == 1 ? 5 : 7;
    std::string text;
    try {
      Many<DataParallel<by_world>> const trainer{own};
    } catch (ContractError const& error) {
      text = error.what();
    }
    std::lock_guard const lock{mutex};
    texts.push_back(text);
  });
  for (std::string const& text : texts) {
    CHECK(text.starts_with("TrainerOptions::seed is 7 in processes 0 and 2, but 5 in process 1"));
  }
}

}  // namespace agreement_test
}  // namespace tandem
