// SPDX-License-Identifier: Apache-2.0
// E(B) by gradient accumulation: what a run is, what of it becomes a point, and what is refused.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tandem/measure/epochs/measure_epochs.hpp>
#include <tandem/measure/epochs/report.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <support/temporary_folder.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace measure_epochs_test {

constexpr Shape plain = image_shape(1, 4, 4);

/// Noise, and for label c row c is brighter: learnt in a few epochs, but not in one step.
TensorDataset<std::int32_t> bright_rows(int count, std::uint64_t seed) {
  Samples<float> samples{plain, 3, count, seed};
  for (std::size_t s = 0; s < samples.y.size(); ++s) {
    for (std::size_t column = 0; column < 4; ++column) {
      samples.x[16 * s + 4 * static_cast<std::size_t>(samples.y[s]) + column] += 1.0F;
    }
  }
  return dataset(plain, samples);
}
TensorDataset<std::int32_t> const training = bright_rows(200, 1);
TensorDataset<std::int32_t> const testing = bright_rows(101, 2);

EpochTask task_of(std::vector<int> batches) {
  return {.batches = std::move(batches),
          .microbatch = 8,
          .target = 0.85,
          .most_epochs = 20,
          .seeds = 3,
          .optimizer = Sgd{.learning_rate = 0.02F, .momentum = 0.9F},
          .optimizer_batch = 8,
          .scaling = BatchScaling::square_root,
          .threads_per_device = 1};
}
EpochMeasurement measure(EpochTask const& task) {
  return measure_epochs<PlainNet, Host>(task, training, testing);
}

TEST_CASE("points ascend in the batch, and each is between its runs") {
  Watchdog const watchdog{"measure_epochs"};
  std::vector<EpochRun> seen;
  EpochMeasurement const measured = measure_epochs<PlainNet, Host>(
      task_of({8, 32, 96}), training, testing, [&](EpochRun const& run) { seen.push_back(run); });
  REQUIRE(measured.points.size() == 3);
  CHECK(measured.missed.empty());
  CHECK(measured.samples == 200);
  CHECK(seen.size() == 9);
  check_epoch_points(measured.epoch_points(), 3);  // ascending and positive
  for (MeasuredPoint const& point : measured.points) {
    CHECK(point.least <= point.epochs);
    CHECK(point.epochs <= point.most);
    CHECK(point.most < 20);
    CHECK(point.runs == 3);
  }
  CHECK(measured.points[2].batch == 96);
  CHECK(measured.points[2].epochs > 2 * measured.points[0].epochs);  // a twelfth of the steps
}

TEST_CASE("a task gives the same numbers again, another seed others") {
  Watchdog const watchdog{"measure_epochs again"};
  EpochMeasurement const a = measure(task_of({16}));
  EpochMeasurement const b = measure(task_of({16}));
  REQUIRE(a.runs.size() == 3);
  for (std::size_t r = 0; r < 3; ++r) {
    CHECK(a.runs[r].seed == static_cast<int>(r) + 1);
    CHECK(a.runs[r].epochs == b.runs[r].epochs);
  }
  CHECK(a.runs[0].epochs != a.runs[1].epochs);
}

TEST_CASE("accumulating is training on the whole batch, where no layer looks at others' samples") {
  Watchdog const watchdog{"accumulated gradients"};
  EpochTask task = task_of({32});
  task.optimizer_batch = 32;
  Trainer<PlainNet, SingleDevice<>, Double> accumulated{epoch_options(task, 32, 5, 200)};
  task.microbatch = 32;
  Trainer<PlainNet, SingleDevice<>, Double> whole{epoch_options(task, 32, 5, 200)};
  Samples<double> const data{plain, 3, 32};
  for (int step = 0; step < 5; ++step) {
    CAPTURE(step);
    double const loss = whole.step(data.x, data.y).loss;
    CHECK(accumulated.step(data.x, data.y).loss == doctest::Approx(loss).epsilon(1e-12));
  }
  CHECK(difference(accumulated.parameters(), whole.parameters(), Part::value).error <= 1e-12);
  // Memory is that of a microbatch.
  CHECK(accumulated.memory().kept * 4 == whole.memory().kept);
}

TEST_CASE("learning rates grow with the batch as the task says, after the warm-up") {
  EpochTask task = task_of({8, 32});
  task.warm_up = 0.5;
  TrainerOptions options = epoch_options(task, 32, 1, 640);
  CHECK(learning_rate_of(options.optimizer) == doctest::Approx(0.04));
  CHECK(options.schedule.factor(4) == 0.5);  // of 10 steps
  CHECK(options.schedule.factor(9) == 1.0);
  CHECK(options.schedule.factor(1000) == 1.0);
  CHECK(options.rows.front().size() == 2 * 4);  // a forward and a backward pass a microbatch
  task.scaling = BatchScaling::linear;
  task.optimizer = Adam{.learning_rate = 0.001F};
  CHECK(learning_rate_of(scaled_optimizer(task, 32)) == doctest::Approx(0.004));
}

TEST_CASE("where the target is crossed between two tests, the way is shared out") {
  detail::TargetCrossing crossing{0.8, 0.1};
  CHECK(!crossing.reached(0.5, 0.6));
  CHECK(!crossing.reached(1.0, 0.5));
  CHECK(crossing.reached(2.0, 0.9));
  CHECK(crossing.epochs() == doctest::Approx(1.75));
}

TEST_CASE("a batch that misses the target is no point, but a sentence") {
  Watchdog const watchdog{"a target out of reach"};
  EpochTask task = task_of({8, 96});
  task.most_epochs = 2.1;
  task.seeds = 1;
  EpochMeasurement const measured = measure(task);
  REQUIRE(measured.points.size() == 1);
  CHECK(measured.points[0].batch == 8);
  REQUIRE(measured.missed.size() == 1);
  CHECK(!measured.runs[1].reached());
  CHECK(contains(measured.missed[0],
                 "batch 96: 0 of 1 runs reached 0.85 within 2.1 epochs; the best accuracy was 0."));
  CHECK(contains(epochs_text(measured), measured.missed[0]));
  CHECK(contains(epochs_text(measured), "no critical-batch law"));
  CHECK(contains(epochs_json(measured), "\"law\": null"));
}

TEST_CASE("a loss that is not finite ends a run, not the measurement") {
  Watchdog const watchdog{"a diverged run"};
  EpochTask task = task_of({8});
  task.optimizer = Sgd{.learning_rate = 1e30F};
  task.warm_up = 0;
  task.seeds = 1;
  EpochMeasurement const measured = measure(task);
  CHECK(measured.points.empty());
  REQUIRE(measured.missed.size() == 1);
  CHECK(contains(measured.missed[0], "seed 1: step "));
  CHECK(contains(measured.missed[0], "is not finite"));
  CHECK(!contains(epochs_text(measured), "--epochs"));
}

/// Runs as if they had been trained.
EpochMeasurement invented() {
  EpochTask task = task_of({64, 128, 256});
  task.seeds = 2;
  std::vector<EpochRun> runs;
  for (int const batch : task.batches) {
    runs.push_back({.batch = batch, .seed = 1, .epochs = 2.0 + batch / 128.0, .best = 0.9});
    runs.push_back({.batch = batch, .seed = 2, .epochs = 1.0 + batch / 128.0, .best = 0.9});
  }
  return summarize_runs(task, 1000, runs);
}

TEST_CASE("text and JSON have the points, the law and what plan takes") {
  EpochMeasurement const measured = invented();
  CHECK(epoch_points_text(measured.epoch_points()) == "64:2,128:2.5,256:3.5");
  CHECK(parse_epoch_points("64:2,128:2.5,256:3.5").back().epochs == measured.points[2].epochs);
  CHECK(measured.points[0].least == 1.5);
  CHECK(measured.points[0].most == 2.5);
  EpochPoint const first = measured.points[0];
  CHECK(first == EpochPoint{64, 2, 2});
  std::string const text = epochs_text(measured);
  CHECK(contains(text, "       128      0.08       2.5         2         3       2.5\n"));
  CHECK(contains(text, "E(B) = 1.5 (1 + B / 192); standard errors: "));
  CHECK(contains(text, "--epochs \"64:2,128:2.5,256:3.5\"\n"));
  std::string const json = epochs_json(measured);
  CHECK(contains(json,
                 "{\"batch\": 128, \"learning_rate\": 0.08, \"epochs\": 2.5, \"least\": 2, "
                 "\"most\": 3}"));
  CHECK(contains(json, "\"law\": {\"least_epochs\": 1.5, \"slope\": 0.0078125}"));
}

TEST_CASE("the law is written in whole samples, with its errors") {
  EpochTask task = task_of({64, 128, 256, 2048});
  task.seeds = 1;
  std::vector<EpochRun> const runs{{64, 1, 1.1}, {128, 1, 1.1}, {256, 1, 1.3}, {2048, 1, 3.0}};
  EpochMeasurement const measured = summarize_runs(task, 4096, runs);
  CriticalBatchLaw const law = fit_critical_batch(measured.epoch_points());
  REQUIRE(law.critical_batch() > 1000);
  std::string const whole = std::to_string(std::lround(law.critical_batch()));
  CHECK(contains(epochs_text(measured), " (1 + B / " + whole + "); standard errors: 0.0"));
  CHECK(contains(epochs_text(measured), " samples\n--epochs"));
}

TEST_CASE("one run that misses the target leaves its batch without a point") {
  EpochMeasurement measured = invented();
  measured.runs[3].epochs = std::numeric_limits<double>::infinity();
  measured = summarize_runs(measured.task, 1000, measured.runs);
  CHECK(measured.points.size() == 2);
  REQUIRE(measured.missed.size() == 1);
  CHECK(contains(measured.missed[0], "batch 128: 1 of 2 runs reached 0.85"));
}

template <class Change>
std::string refusal(Change const& change) {
  EpochTask task = task_of({8, 16});
  change(task);
  return message<ContractError>([&] { static_cast<void>(measure(task)); });
}

TEST_CASE("tasks that cannot be are refused with a sentence") {
  auto const with = [](std::vector<int> const& batches) {
    return refusal([&](EpochTask& task) { task.batches = batches; });
  };
  CHECK(contains(with({}), "give at least one batch in .batches"));
  CHECK(with({8, 12}) ==
        "measure_epochs(task): batch 12 is no multiple of the microbatch, 8; change one of the "
        "two");
  CHECK(with({16, 8}) ==
        "measure_epochs(task): batch 8 is out of order; give positive batches that ascend");
  CHECK(contains(with({0}), "batch 0 is out of order"));
  CHECK(with({208}) ==
        "measure_epochs(task): batch 208 is larger than the 200 samples of training data; leave it "
        "out");
  CHECK(contains(refusal([](EpochTask& task) { task.target = 1.01; }),
                 ".target is an accuracy, above 0 and at most 1"));
  CHECK(contains(refusal([](EpochTask& task) { task.target = 0.01; }),
                 ".target is reached without training; give a higher one"));
  CHECK(contains(refusal([](EpochTask& task) { task.microbatch = 0; }), ".microbatch must be"));
  CHECK(contains(refusal([](EpochTask& task) { task.seeds = 0; }), ".seeds and"));
  CHECK(contains(refusal([](EpochTask& task) { task.most_epochs = 0; }), ".most_epochs must be"));
  CHECK(contains(refusal([](EpochTask& task) { task.warm_up = -1; }), ".warm_up must be"));
  TensorDataset<std::int32_t> const other = dataset(image_shape(1, 5, 5), 3, 20);
  CHECK(contains(message<ContractError>([&] {
                   static_cast<void>(measure_epochs<PlainNet, Host>(task_of({8}), other, testing));
                 }),
                 "the dataset has samples of "));
}

}  // namespace measure_epochs_test
}  // namespace tandem::test
