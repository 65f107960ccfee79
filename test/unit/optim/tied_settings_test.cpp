// SPDX-License-Identifier: Apache-2.0
// Parameter groups and averages where two layers share a parameter: it is one, on both ends of a
// pipeline as on one device.

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <token_network.hpp>

namespace tandem {
namespace tied_settings_test {

using test::TiedNet;
using test::TokenBatch;
using R = Reproducible<4>;
using One = SingleDevice<Microbatches<4>, R>;

template <class S>
using Tied = Trainer<TiedNet, S, BasicHost<Portable, Fp64>>;

TrainerOptions settings() {
  return {.batch = 8,
          .optimizer = AdamW{.learning_rate = 0.02F, .weight_decay = 0.1F},
          .clip_norm = 0.05,
          .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2},
                     {.pattern = "0.weight", .clip_norm = 0.1, .gradient_scale = 3.0F}},
          .average = {.decay = 0.75, .pattern = "0.*"},
          .seed = 3,
          .threads_per_device = 1};
}

template <class T>
void take_steps(T& trainer, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    TokenBatch const batch = test::token_batch(8, test::longest, step, true);
    trainer.step(batch.x, batch.targets);
  }
}

template <class T>
std::vector<std::vector<double>> bits_of(T const& trainer) {
  std::vector<std::vector<double>> all;
  for (auto const& p : trainer.parameters()) {
    all.emplace_back(p.value.begin(), p.value.end());
    all.emplace_back(p.average.begin(), p.average.end());
  }
  return all;
}

template <class S>
void check(std::vector<std::vector<double>> const& bits, std::string const& checkpoint) {
  test::Watchdog const watchdog{"tied settings"};
  Tied<S> trainer{settings()};
  take_steps(trainer, 0, 4);
  CHECK(bits_of(trainer) == bits);
  Tied<S> resumed{settings()};
  resumed.load(checkpoint);
  take_steps(resumed, 2, 4);
  CHECK(bits_of(resumed) == bits);
}

TEST_CASE("a shared parameter has one group and one average, wherever its layers are") {
  test::TemporaryFolder const folder;
  Tied<One> one{settings()};
  take_steps(one, 0, 2);
  one.save(folder.file("two"));
  take_steps(one, 2, 4);
  auto const own = one.parameters();
  CHECK(own.front().name == "0.weight");
  CHECK(own.back().name == "0.weight");
  CHECK(!own.front().average.empty());
  CHECK(test::same_bits(own.front().value, own.back().value));
  CHECK(test::same_bits(own.front().average, own.back().average));
  check<DataParallel<2, Microbatches<2>, R>>(bits_of(one), folder.file("two"));
  check<Pipeline<OneFOneB, 4, Split<2>, Split<4>, R>>(bits_of(one), folder.file("two"));
  check<Pipeline<Chimera, 4, Split<3>, Split<3>, R>>(bits_of(one), folder.file("two"));
}

TEST_CASE("a shared parameter counts once in its group's norm") {
  Trainer<TiedNet, SingleDevice<>, BasicHost<Portable, Fp64>> trainer{
      {.batch = 8,
       .optimizer = Sgd{.learning_rate = 1.0F},
       .groups = {{.pattern = "0.weight", .clip_norm = 0.01}}}};
  auto const before = bits_of(trainer)[0];
  take_steps(trainer, 0, 1);
  auto const tied = trainer.parameters().front();
  double moved = 0.0;
  for (std::size_t i = 0; i < tied.value.size(); ++i) {
    double const way = tied.value[i] - before[i];
    moved += way * way;
  }
  CHECK(std::sqrt(moved) == doctest::Approx(0.01).epsilon(1e-12));
}

}  // namespace tied_settings_test
}  // namespace tandem
