// SPDX-License-Identifier: Apache-2.0
// A rank of an asynchronous pipeline that fails, while others are steps ahead or behind: nobody
// waits for ever. A loss that is no number: all steps before it have happened, it has not.

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>
#include <trap_network.hpp>

namespace tandem::test {
namespace stream_failure_test {

template <class Schedule, int Count>
using Three = Trainer<TrapNet, Pipeline<Schedule, Count, Split<2>, Split<2>, Split<3>>, Host>;
using PipeDreamThree = Three<PipeDream, 1>;
using BufferedThree = Three<PipeDream2BW, 4>;

TrainerOptions options() {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .shuffle = false,
          .threads_per_device = 1};
}

constexpr Shape input = PipeDreamThree::input;
Samples<float> const data{input, 3, 8};

template <class T>
void check_refusal(T& trainer) {
  Trap::set(-1, Pass::none, 0);
  CHECK(
      contains(message<ContractError>([&] { trainer.step(data.x, data.y); }),
               "a rank of this trainer has failed, so its replicas may differ: make a new Trainer "
               "and load a checkpoint"));
}

TEST_CASE("a stage that throws ends the training on all devices") {
  auto const many = dataset(input, Samples<float>{input, 3, 8 * 20});
  for (int victim = 0; victim < 3; ++victim) {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      for (int const call : {1, 2, 7}) {
        Watchdog const watchdog{"a stage of an asynchronous pipeline throws"};
        INFO("rank " << victim << ", call " << call);
        std::string const expected = "rank " + std::to_string(victim) + ", at " +
                                     std::to_string(victim) + (pass == Pass::forward ? "F" : "B");
        PipeDreamThree by_steps{options()};
        by_steps.step(data.x, data.y);
        Trap::set(victim, pass, call);
        CHECK(message<RankError>([&] {
                for (int s = 0; s < 20; ++s) {  // a stage may be steps behind the loss
                  by_steps.step(data.x, data.y);
                }
              }).starts_with(expected));
        check_refusal(by_steps);

        PipeDreamThree by_epochs{options()};
        Trap::set(victim, pass, call);
        CHECK(message<RankError>([&] { by_epochs.train(many, 0); }).starts_with(expected));
        check_refusal(by_epochs);
      }
    }
  }
}

TEST_CASE("a stage that throws in an evaluation, when the pipeline is empty, loses no work") {
  Watchdog const watchdog{"a stage throws in an evaluation"};
  PipeDreamThree trainer{options()};
  PipeDreamThree untouched{options()};
  for (int s = 0; s < 4; ++s) {
    trainer.step(data.x, data.y);
    untouched.step(data.x, data.y);
  }
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");  // empties it
  Trap::set(1, Pass::forward, 2);
  CHECK(contains(message<RankError>([&] { trainer.evaluate(dataset(input, 3, 24)); }), ": sprung"));
  Trap::set(-1, Pass::none, 0);
  TemporaryFolder const folder;
  trainer.save(folder.file("x"));
  untouched.save(folder.file("y"));
  CHECK(content(folder.file("x")) == content(folder.file("y")));
  CHECK(contains(message<ContractError>([&] { trainer.step(data.x, data.y); }),
                 "save, make a new Trainer and load that"));
}

TEST_CASE("a stage that throws when the pipeline is emptied, or when nobody asks any more") {
  Watchdog const watchdog{"a stage throws in the end"};
  PipeDreamThree trainer{options()};
  trainer.step(data.x, data.y);
  trainer.step(data.x, data.y);
  trainer.step(data.x, data.y);
  Trap::set(0, Pass::backward, 2);
  std::string const text = message<RankError>([&] { static_cast<void>(trainer.parameters()); });
  INFO(text);
  CHECK(text.starts_with("rank 0, at 0B"));  // how far it has come until then is a matter of time
  CHECK(text.ends_with("): sprung"));
  check_refusal(trainer);
  {
    BufferedThree forgotten{options()};
    forgotten.step(data.x, data.y);
    Trap::set(1, Pass::backward, 2);
  }
  Trap::set(-1, Pass::none, 0);
  BufferedThree unused{options()};
  PipeDreamThree filled{options()};
  filled.step(data.x, data.y);
}

TEST_CASE("a stage that does not come in time; a program that lets the ranks wait") {
  Watchdog const watchdog{"a stage is late"};
  TrainerOptions hasty = options();
  hasty.timeout = std::chrono::milliseconds{300};
  PipeDreamThree trainer{hasty};
  trainer.step(data.x, data.y);
  std::this_thread::sleep_for(std::chrono::milliseconds{450});
  trainer.step(data.x, data.y);
  Trap::set(1, Pass::forward, 1, std::chrono::milliseconds{800});
  std::string const text = message<RankError>([&] {
    for (int s = 0; s < 3; ++s) {
      trainer.step(data.x, data.y);
    }
  });
  INFO(text);
  CHECK(contains(text, "rank 1 did not "));
  CHECK(contains(text, " boundary "));
  CHECK(contains(text, "within 300 ms"));
  CHECK(contains(text, "1F2"));
  check_refusal(trainer);
}

/// @param sample  of the batch that is bad
template <class T>
void check_non_finite(int sample, std::string const& where) {
  Watchdog const watchdog{"non-finite loss of an asynchronous pipeline"};
  T trainer{options()};
  T untouched{options()};
  for (int s = 0; s < 4; ++s) {
    trainer.step(data.x, data.y);
    untouched.step(data.x, data.y);
  }
  Samples<float> bad = data;
  bad.x[static_cast<std::size_t>(sample) * 4] = std::numeric_limits<float>::quiet_NaN();
  std::string const text = message<NonFiniteLoss>([&] { trainer.step(bad.x, bad.y); });
  INFO(text);
  CHECK(contains(text, "step 4: the loss of " + where + " on rank 2"));
  CHECK(trainer.position().step == 4);
  for (int s = 0; s < 4; ++s) {
    CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
    CHECK(trainer.step(data.x, data.y).loss == untouched.step(data.x, data.y).loss);
  }
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
}

TEST_CASE("a loss that is no number: the step has not happened on any device, the others have") {
  check_non_finite<PipeDreamThree>(5, "microbatch 0");
  check_non_finite<BufferedThree>(1, "microbatch 0");
  check_non_finite<BufferedThree>(7, "microbatch 3");
  check_non_finite<Three<WeightPrediction, 1>>(0, "microbatch 0");
  check_non_finite<Three<PipelinedModel, 1>>(0, "microbatch 0");
}

TEST_CASE("a loss that is no number in an epoch, with steps queued behind it") {
  Watchdog const watchdog{"non-finite loss in an epoch"};
  Samples<float> samples{input, 3, 8 * 12};
  Samples<float> first = samples;
  samples.x[8 * 4 * 7 + 5] = std::numeric_limits<float>::quiet_NaN();  // step 7
  PipeDreamThree trainer{options()};
  PipeDreamThree untouched{options()};
  std::string const text =
      message<NonFiniteLoss>([&] { trainer.train(dataset(input, samples), 0); });
  CHECK(contains(text, "step 7: "));
  CHECK(trainer.position().step == 7);
  CHECK(trainer.position().position == 56);
  first.x.resize(8 * 4 * 7);
  first.y.resize(8 * 7);
  untouched.train(dataset(input, std::move(first)), 0);
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
  CHECK(trainer.step(data.x, data.y).loss == untouched.step(data.x, data.y).loss);
}

}  // namespace stream_failure_test
}  // namespace tandem::test
