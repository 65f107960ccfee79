// SPDX-License-Identifier: Apache-2.0
// Groups with norms and scales of their own, and optimizers of any type: the bits of one device
// under replicas and stages, whose gradients join in one norm.

#include <parity.hpp>

namespace tandem {
namespace group_clip_test {

// The convolutions of all stages are one group, and no stage has all of another's parameters.
TrainerOptions grouped() {
  TrainerOptions options = test::parity_options();
  options.clip_norm = 0.5;
  options.groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2},
                    {.pattern = "*.0.weight", .clip_norm = 0.05, .gradient_scale = 2.0F},
                    {.pattern = "8.*", .clip_norm = 0.1},
                    {.pattern = "0.weight", .clip_norm = 0.05, .gradient_scale = 0.5F}};
  return options;
}

using R = Reproducible<>;
using One = SingleDevice<Microbatches<4>, R>;

template <class Many>
bool same_bits(TrainerOptions const& options) {
  return test::five_steps<Many>(options) == test::five_steps<One>(options);
}

/// Each clipped by value, with groups of its own.
std::vector<TrainerOptions> with_own_optimizers() {
  std::vector<TrainerOptions> all;
  for (Optimizer const& optimizer : std::vector<Optimizer>{
           own_optimizer<Host>(RMSprop{.momentum = 0.9F, .centered = true}),
           own_optimizer<Host>(Adagrad{.lr_decay = 0.1F, .initial_accumulator_value = 0.1F}),
           own_optimizer<Host>(Lion{.learning_rate = 0.01F, .weight_decay = 0.1F}),
           own_optimizer<Host>(Lamb{.learning_rate = 0.01F})}) {
    TrainerOptions options = grouped();
    options.optimizer = optimizer;
    options.schedule = Cosine{.steps = 10};
    options.clip_value = 0.02;
    options.groups[0].clip_value = 0.01;
    options.groups.push_back({.pattern = "8.bias", .frozen = true});
    all.push_back(options);
  }
  return all;
}

template <class Many>
void check() {
  CHECK(same_bits<Many>(grouped()));
  TrainerOptions apart = grouped();
  apart.clip_norm = 0.0;  // only groups are clipped
  CHECK(same_bits<Many>(apart));
  for (TrainerOptions const& options : with_own_optimizers()) {
    INFO(optimizer_name(options.optimizer));
    CHECK(same_bits<Many>(options));
  }
}

TEST_CASE("clipped groups: replicas") { check<DataParallel<4, R>>(); }

TEST_CASE("clipped groups: stages") { check<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>(); }

TEST_CASE("clipped groups: two copies of each stage") {
  check<Pipeline<Chimera, 4, Split<4>, Split<5>, R>>();
}

TEST_CASE("clipped groups: replicas of stages") {
  check<Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<4>, Split<5>>>>();
}

TEST_CASE("clipped groups: each of their settings is seen") {
  auto const grouped_run = test::five_steps<One>(grouped());
  for (std::size_t g = 0; g < 4; ++g) {
    TrainerOptions other = grouped();
    other.groups.erase(other.groups.begin() + static_cast<std::ptrdiff_t>(g));
    CHECK(test::five_steps<One>(other) != grouped_run);
  }
  TrainerOptions other = grouped();
  other.clip_norm = 0.0;
  CHECK(test::five_steps<One>(other) != grouped_run);
}

TEST_CASE("clipping by value is seen, of the trainer and of a group") {
  for (TrainerOptions options : with_own_optimizers()) {
    INFO(optimizer_name(options.optimizer));
    auto const run = test::five_steps<One>(options);
    options.clip_value = 0.0;
    auto const by_group = test::five_steps<One>(options);
    CHECK(by_group != run);
    options.groups[0].clip_value = 0.0;
    CHECK(test::five_steps<One>(options) != by_group);
  }
}

TEST_CASE("own optimizers: without a barrier, and as the only update of a stage") {
  using Stages = Pipeline<PipeDream, 1, Split<4>, Split<5>>;
  for (TrainerOptions options : with_own_optimizers()) {
    INFO(optimizer_name(options.optimizer));
    options.clip_norm = 0.0;
    options.groups = {};
    auto const run = test::five_steps<Stages>(options);
    CHECK(run == test::five_steps<Stages>(options));
    options.clip_value = 0.0;
    CHECK(run != test::five_steps<Stages>(options));
  }
}

TEST_CASE("gradients twice as large are steps twice as long, also without a barrier") {
  using Stages = Pipeline<PipeDream, 1, Split<4>, Split<5>>;
  TrainerOptions options{.batch = test::largest_batch,
                         .optimizer = Sgd{.learning_rate = 0.0625F},
                         .threads_per_device = 1};
  auto const plain = test::five_steps<Stages>(options);
  options.groups = {{.pattern = "*", .learning_rate_scale = 2.0F}};
  auto const longer = test::five_steps<Stages>(options);
  options.groups = {{.pattern = "*", .gradient_scale = 2.0F}};
  CHECK(test::five_steps<Stages>(options) == longer);
  CHECK(longer != plain);
}

TEST_CASE("clipped groups: not where an update cannot wait for the whole gradient") {
  TrainerOptions options = test::parity_options();
  options.clip_norm = 0.0;
  options.groups = {{.pattern = "*", .clip_norm = 1.0}};
  using Stages = Pipeline<PipeDream2BW, 4, Split<4>, Split<5>>;
  CHECK_THROWS_WITH_AS((Trainer<test::TinyNet, Stages, Host>{options}),
                       doctest::Contains("clip_norm needs the whole gradient"), ContractError);
}

}  // namespace group_clip_test
}  // namespace tandem
