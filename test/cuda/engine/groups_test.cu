// SPDX-License-Identifier: Apache-2.0
// Parameter groups with norms and scales of their own, and own optimizers, on GPUs: Host's numbers,
// and the same bits under every strategy.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

namespace tandem::test {
namespace groups_test {

TrainerOptions grouped(double clip_norm = 0.5) {
  TrainerOptions options = engine_options();
  options.clip_norm = clip_norm;
  options.groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2},
                    {.pattern = "*.0.weight", .clip_norm = 0.05, .gradient_scale = 2.0F},
                    {.pattern = "8.*", .clip_norm = 0.1}};
  return options;
}

TEST_CASE("clipped groups: one GPU trains as the host does, in double") {
  Watchdog const watchdog{"groups"};
  for (double const clip_norm : {0.0, 0.5}) {
    OnGpu<SingleDevice<Microbatches<2>>, Fp64> gpu{grouped(clip_norm)};
    OnHost<SingleDevice<Microbatches<2>>, Fp64> host{grouped(clip_norm)};
    OnHost<SingleDevice<Microbatches<2>>, Fp64> plain{engine_options()};
    for (int s = 0; s < 4; ++s) {
      StepResult const a = engine_step(gpu, s);
      StepResult const b = engine_step(host, s);
      engine_step(plain, s);
      CHECK(std::abs(a.gradient_norm - b.gradient_norm) <= 1e-12 * b.gradient_norm);
    }
    CHECK(difference(gpu.parameters(), host.parameters(), Part::value).error <= 1e-12);
    CHECK(difference(plain.parameters(), host.parameters(), Part::value).error > 1e-6);
  }
}

/// Two steps in which a group is frozen, and two more of a trainer that has loaded them.
template <class OfBackend>
auto trained_late(Optimizer const& optimizer, std::string const& path) {
  TrainerOptions options = engine_options();
  options.optimizer = optimizer;
  options.groups = {{.pattern = "8.*", .frozen = true}};
  OfBackend frozen{options};
  engine_step(frozen, 0);
  engine_step(frozen, 1);
  frozen.save(path);
  options.groups = {};
  auto trainer = std::make_unique<OfBackend>(options);
  trainer->load(path);
  engine_step(*trainer, 2);
  engine_step(*trainer, 3);
  return trainer;
}

TEST_CASE("a weight that was frozen counts its own updates on a GPU, as on the host") {
  Watchdog const watchdog{"updates of a weight"};
  TemporaryFolder const folder;
  using Gpu = OnGpu<SingleDevice<Microbatches<2>>, Fp64>;
  using One = OnHost<SingleDevice<Microbatches<2>>, Fp64>;
  auto const gpu = trained_late<Gpu>(Adam{}, folder.file("gpu"));
  auto const host = trained_late<One>(Adam{}, folder.file("host"));
  CHECK(difference(gpu->parameters(), host->parameters(), Part::value).error <= 1e-9);
  auto const own = own_optimizer<BasicCuda<Portable, Fp64>>(Lamb{.learning_rate = 0.01F});
  auto const own_of_host = own_optimizer<BasicHost<Portable, Fp64>>(Lamb{.learning_rate = 0.01F});
  auto const late = trained_late<Gpu>(own, folder.file("gpu"));
  auto const late_on_host = trained_late<One>(own_of_host, folder.file("host"));
  CHECK(difference(late->parameters(), late_on_host->parameters(), Part::value).error <= 1e-9);
}

template <class O>
void check_own(O const& optimizer) {
  TrainerOptions options = grouped();
  options.clip_value = 0.02;
  CAPTURE(O::name);
  OnGpu<SingleDevice<Microbatches<2>>, Fp64> gpu{options, optimizer};
  OnHost<SingleDevice<Microbatches<2>>, Fp64> host{options, optimizer};
  for (int s = 0; s < 3; ++s) {
    engine_step(gpu, s);
    engine_step(host, s);
  }
  CHECK(difference(gpu.parameters(), host.parameters(), Part::value).error <= 1e-11);
  CHECK(gpu.memory().optimizer_state == host.memory().optimizer_state);
}

TEST_CASE("own optimizers: one GPU trains as the host does, in double") {
  Watchdog const watchdog{"own optimizers"};
  check_own(RMSprop{.epsilon = 1e-2F, .momentum = 0.9F, .centered = true});
  check_own(Adagrad{.initial_accumulator_value = 0.1F});
  check_own(Lamb{.learning_rate = 0.01F, .epsilon = 1e-2F});
}

template <class S>
auto bits_of(TrainerOptions const& options = grouped()) {
  Watchdog const watchdog{"groups"};
  OnGpu<S> trainer{options};
  return engine_bits(trainer, 7);
}

TEST_CASE("clipped groups: the same bits on several ranks") {
  using R = Reproducible<>;
  auto const one = bits_of<SingleDevice<Microbatches<4>, R>>();
  CHECK(one == bits_of<DataParallel<2, Microbatches<2>, R>>());
  CHECK(one == bits_of<Pipeline<OneFOneB, 4, Split<5>, Split<4>, R>>());
  for (Optimizer const& own : {Optimizer{own_optimizer<BasicCuda<Portable, Fp32>>(Lion{})},
                               Optimizer{own_optimizer<BasicCuda<Portable, Fp32>>(Lamb{})}}) {
    TrainerOptions options = grouped();
    options.optimizer = own;
    CAPTURE(optimizer_name(own));
    auto const alone = bits_of<SingleDevice<Microbatches<4>, R>>(options);
    CHECK(alone != one);
    CHECK(alone == bits_of<DataParallel<2, Microbatches<2>, R>>(options));
    CHECK(alone == bits_of<Pipeline<OneFOneB, 4, Split<5>, Split<4>, R>>(options));
  }
}

}  // namespace groups_test
}  // namespace tandem::test
