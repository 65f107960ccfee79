// SPDX-License-Identifier: Apache-2.0
// Averages of the weights on GPUs, walked and replayed: Host's numbers, and the same bits under
// every strategy.

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

namespace tandem::test {
namespace average_test {

TrainerOptions averaging(double decay = 0.75) {
  TrainerOptions options = engine_options();
  options.average = {.decay = decay, .pattern = "*"};
  return options;
}

auto const& data() {
  static auto const set = dataset(image_shape(3, 8, 8), 5, largest_batch + 2, 3);
  return set;
}

template <class Trainer>
void take_steps(Trainer& trainer, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    engine_step(trainer, step);
  }
}

TEST_CASE("averages: one GPU has the host's, in double") {
  Watchdog const watchdog{"averages"};
  using S = SingleDevice<Microbatches<2>>;
  OnGpu<S, Fp64> gpu{averaging()};
  OnHost<S, Fp64> host{averaging()};
  take_steps(gpu, 0, 6);
  take_steps(host, 0, 6);
  auto const a = gpu.parameters();
  auto const b = host.parameters();
  for (std::size_t p = 0; p < a.size(); ++p) {
    CHECK(a[p].average.size() == b[p].average.size());
    CHECK(relative_error(a[p].average, b[p].average) <= 1e-12);
  }
  CHECK(gpu.evaluate(data()).loss == doctest::Approx(host.evaluate(data()).loss).epsilon(1e-12));
  CHECK(gpu.evaluate(data(), WhichModel::first).loss ==
        doctest::Approx(host.evaluate(data(), WhichModel::first).loss).epsilon(1e-12));
}

/// Of training, evaluation and training.
template <class S>
std::vector<std::vector<double>> bits_of() {
  Watchdog const watchdog{"averages"};
  OnGpu<S> trainer{averaging()};
  take_steps(trainer, 0, 4);
  auto const outputs = trainer.predict(data());
  take_steps(trainer, 4, 7);
  std::vector<std::vector<double>> all{{outputs.begin(), outputs.end()}};
  for (auto const& p : trainer.parameters()) {
    all.emplace_back(p.value.begin(), p.value.end());
    all.emplace_back(p.average.begin(), p.average.end());
  }
  return all;
}

TEST_CASE("averages: the same bits on several ranks") {
  using R = Reproducible<>;
  auto const one = bits_of<SingleDevice<Microbatches<4>, R>>();
  CHECK(one == bits_of<DataParallel<2, Microbatches<2>, R>>());
  CHECK(one == bits_of<Pipeline<OneFOneB, 4, Split<5>, Split<4>, R>>());
}

TEST_CASE("averages: products read them rounded in evaluation, and they go through checkpoints") {
  Watchdog const watchdog{"averages"};
  TemporaryFolder const folder;
  using S = SingleDevice<>;
  OnGpu<S, Bf16> trainer{averaging()};
  take_steps(trainer, 0, 4);
  auto const outputs = trainer.predict(data());
  CHECK(outputs != trainer.predict(data(), WhichModel::first));
  trainer.export_model(folder.file("averages"));
  OnGpu<S, Bf16> plain{averaging(0.0)};
  plain.load_weights(folder.file("averages"));
  CHECK(plain.predict(data()) == outputs);

  trainer.save(folder.file("four"));
  for (int const batch : {largest_batch, 4}) {
    Predictor<TinyNet, BasicCuda<Portable, Bf16>> predictor{folder.file("four"), {.batch = batch}};
    CHECK(predictor.predict(data()) == outputs);
    CHECK(predictor.predict(data()) == outputs);  // replayed
    predictor.take(trainer, WhichModel::first);
    CHECK(predictor.predict(data()) == trainer.predict(data(), WhichModel::first));
    CHECK(predictor.memory().gradients + predictor.memory().optimizer_state == 0);
  }
  OnGpu<S, Bf16> resumed{averaging()};
  resumed.load(folder.file("four"));
  CHECK(resumed.predict(data()) == outputs);
  take_steps(trainer, 4, 6);
  take_steps(resumed, 4, 6);
  CHECK(resumed.predict(data()) == trainer.predict(data()));
}

}  // namespace average_test
}  // namespace tandem::test
