// SPDX-License-Identifier: Apache-2.0
// Training with an asynchronous pipeline: it stays filled between steps, is emptied by what looks
// at the weights, and goes on with the bits that it would have had anyway.

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <deep_network.hpp>
#include <interrupted.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace stream_test {

constexpr int batch = 6;
constexpr int count = 20;  // samples: batches of 6, 6, 6 and 2

template <class S>
using Deep = Trainer<DeepNet, S, Host>;

using Two = InTwo<PipeDream, 1>;
using Buffered = InTwo<PipeDream2BW, 3>;
using Predicted = InTwo<WeightPrediction, 1>;
using Replayed = InFour<PipelinedModel, 1>;

TrainerOptions options() {
  return {.batch = batch,
          .optimizer = Sgd{.learning_rate = 0.02F, .momentum = 0.9F},
          .schedule = {Cosine{.steps = 12}, 3},
          .seed = 11,
          .threads_per_device = 1};
}

Samples<float> batch_of(int step) {
  return {Image<3, 8, 8>::shape, 5, step % 3 == 2 ? 4 : batch, static_cast<std::uint64_t>(step)};
}
auto const all = dataset(image_shape(3, 8, 8), 5, count);

template <class T>
double step(T& trainer, int s) {
  Samples<float> const data = batch_of(s);
  return trainer.step(data.x, data.y).loss;
}

TEST_CASE("an epoch is its steps: train() keeps the pipeline filled, and so does step()") {
  Watchdog const watchdog{"an epoch of an asynchronous pipeline"};
  Deep<Two> trainer{options()};
  Deep<Two> by_hand{options()};
  EpochResult const result = trainer.train(all, 0);
  CHECK(result.steps == 4);
  CHECK(result.samples == count);
  Loader<TensorDataset<std::int32_t>> loader{all, {.batch = batch, .seed = 11}};
  double sum = 0.0;
  for (Batch<float, std::int32_t> b; loader.next(b);) {
    auto const inputs = static_cast<std::size_t>(b.size * Deep<Two>::input.elements());
    StepResult const r = by_hand.step({b.x, inputs}, {b.y, static_cast<std::size_t>(b.size)});
    CHECK(r.samples == b.size);
    CHECK(r.gradient_norm == 0.0);
    sum += r.loss * b.size;
  }
  CHECK(result.loss == sum / count);
  CHECK(trainer.position().step == 4);
  CHECK(trainer.position().epoch == 1);
  CHECK(first_difference(trainer.parameters(), by_hand.parameters()) == "");
  CHECK(by_hand.position().step == 4);
}

TEST_CASE("on one device there is nothing to wait for: the bits of synchronous training") {
  Watchdog const watchdog{"an asynchronous pipeline of one device"};
  Deep<Pipeline<PipeDream, 1, Split<12>>> trainer{options()};
  Deep<SingleDevice<>> one{options()};
  for (int s = 0; s < 3; ++s) {
    CHECK(step(trainer, s) == step(one, s));
  }
  CHECK(trainer.train(all, 0).loss == one.train(all, 0).loss);
  CHECK(trainer.evaluate(all).loss == one.evaluate(all).loss);
  CHECK(first_difference(trainer.parameters(), one.parameters()) == "");
}

/// A step in an empty pipeline reads one version of the weights, the current one.
template <class S, class One>
void check_emptied() {
  Watchdog const watchdog{"a pipeline that is emptied after each step"};
  Deep<S> trainer{options()};
  Deep<One> one{options()};
  for (int s = 0; s < 5; ++s) {
    INFO("step " << s);
    CHECK(step(trainer, s) == step(one, s));
    CHECK(first_difference(trainer.parameters(), one.parameters()) == "");
  }
}

TEST_CASE("emptied after each step it trains as synchronous strategies do, bit for bit") {
  check_emptied<Two, SingleDevice<>>();
  check_emptied<Buffered, SingleDevice<Microbatches<3>>>();
  check_emptied<InTwo<PipeDreamVerticalSync, 1>, SingleDevice<>>();
  check_emptied<Predicted, SingleDevice<>>();
  check_emptied<Replayed, SingleDevice<>>();
}

/// Six steps with an evaluation, a look and a file between them, and six with only the parameters
/// looked at in the same places.
template <class S>
void check_between() {
  Watchdog const watchdog{"between the steps of an asynchronous pipeline"};
  TemporaryFolder const folder;
  Deep<S> trainer{options()};
  Deep<S> looked_at{options()};
  for (int s = 0; s < 7; ++s) {
    CHECK(step(trainer, s) == step(looked_at, s));
    if (s == 2) {
      Evaluation const before = trainer.evaluate(all);
      CHECK(before.samples == count);
      CHECK(before.loss == trainer.evaluate(all).loss);
      CHECK(trainer.predict(all).size() == std::size_t{count} * 5);
      CHECK(looked_at.parameters().size() > 0);
    } else if (s == 4) {
      trainer.save(folder.file("a"));
      looked_at.save(folder.file("b"));
      CHECK(content(folder.file("a")) == content(folder.file("b")));
    }
  }
  CHECK(first_difference(trainer.parameters(), looked_at.parameters()) == "");

  Deep<S> resumed{options()};              // where the file was written
  CHECK(std::isfinite(step(resumed, 0)));  // and its pipeline is filled with something else
  resumed.load(folder.file("a"));
  CHECK(resumed.position().step == 5);
  for (int s = 5; s < 7; ++s) {
    step(resumed, s);
  }
  CHECK(first_difference(resumed.parameters(), trainer.parameters()) == "");

  // What evaluation computes with is what was saved.
  Trainer<DeepNet, SingleDevice<>, Host> one{options()};
  trainer.save(folder.file("c"));
  one.load(folder.file("c"));
  CHECK(trainer.evaluate(all).loss == doctest::Approx(one.evaluate(all).loss).epsilon(1e-6));
  CHECK(trainer.evaluate(all).accuracy == one.evaluate(all).accuracy);
}

TEST_CASE("evaluation, files and looks at the weights empty the pipeline, and it fills again") {
  check_between<Two>();
  check_between<Buffered>();
  check_between<Predicted>();
  check_between<Replayed>();
}

TEST_CASE("a run that stopped in the middle of an epoch resumes exactly") {
  Watchdog const watchdog{"resume of an asynchronous pipeline"};
  TemporaryFolder const folder;
  Deep<Two> stopped{options()};
  Interrupted const some{all, count + 3 * batch};
  CHECK(message<std::runtime_error>([&] {
          for (auto epoch : epochs(2)) {
            stopped.train(some, epoch);
          }
        }) == "interrupted");
  CHECK(stopped.position().step == 7);
  CHECK(stopped.position().position == 3 * batch);
  stopped.save(folder.file("a"));
  Deep<Two> resumed{options()};
  resumed.load(folder.file("a"));
  for (auto epoch : epochs(3)) {
    stopped.train(all, epoch);
    resumed.train(all, epoch);
  }
  CHECK(resumed.position().step == 12);
  CHECK(first_difference(resumed.parameters(), stopped.parameters()) == "");
}

TEST_CASE("what an asynchronous pipeline cannot do is said in one sentence") {
  TrainerOptions clips = options();
  clips.clip_norm = 1.0;
  CHECK(contains(message<ContractError>([&] { Deep<Two>{clips}; }), "clip_norm"));
  TrainerOptions rows = options();
  rows.rows = {{}, {}};
  CHECK(contains(message<ContractError>([&] { Deep<Two>{rows}; }),
                 ".rows cannot be given for an asynchronous pipeline"));
  TrainerOptions plain = options();
  plain.optimizer = Sgd{};
  TrainerOptions adam = options();
  adam.optimizer = Adam{};
  for (TrainerOptions const& wrong : {plain, adam}) {
    CHECK(contains(message<ContractError>([&] { Deep<Predicted>{wrong}; }),
                   "WeightPrediction predicts with the momentum of Sgd"));
  }
  Deep<Two> trainer{adam};
  Samples<float> const d = batch_of(0);
  CHECK(contains(message<ContractError>([&] { trainer.trace_step(d.x, d.y); }),
                 "an asynchronous pipeline has no step of its own to trace"));
  CHECK(std::isfinite(step(trainer, 0)));  // and is usable
}

}  // namespace stream_test
}  // namespace tandem::test
