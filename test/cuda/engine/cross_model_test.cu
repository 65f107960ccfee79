// SPDX-License-Identifier: Apache-2.0

/// @file
/// Two models placed reversely on the ranks of one GPU train as they do on the host.

#include <doctest/doctest.h>

#include <cmath>

#include "stages_support.hpp"

namespace cross_model_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

// In double; the second model is compared where it may differ.
template <class S>
void check_against_host() {
  Watchdog const watchdog{"two models against the host"};
  TrainerOptions options = engine_options();
  options.clip_norm = 0.0;
  OnHost<S, Fp64> host{options};
  OnGpu<S, Fp64> gpu{options};
  auto const data = dataset(host.input, 5, largest_batch, 3);
  for (int s = 0; s < 6; ++s) {  // recorded, and replayed
    StepResult const a = engine_step(host, s);
    StepResult const b = engine_step(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(a.metric == b.metric);
    if (s % 2 == 1) {
      CHECK(std::fabs(host.evaluate(data).loss - gpu.evaluate(data).loss) <= 1e-11 * a.loss);
    }
  }
  for (int copy = 0; copy < 2; ++copy) {
    Difference const off =
        difference(gpu.parameters(0, copy), host.parameters(0, copy), Part::value);
    INFO("model " << copy << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-11);
  }
}

template <class Rule>
using InTwo = CrossModelParallel<Rule, Split<4>, Split<5>>;
template <class Rule>
using InThree = CrossModelParallel<Rule, Split<2>, Split<3>, Split<4>>;

TEST_CASE("cross model: one gradient for both") {
  using R = Reproducible<>;
  CHECK(stages_bits<OnGpu<CrossModelParallel<AverageGradients, Split<2>, Split<3>, Split<4>, R>>>(
            engine_options()) ==
        stages_bits<OnGpu<SingleDevice<Microbatches<2>, R>>>(engine_options()));
}

TEST_CASE("cross model: weights now and then, on two devices") {
  check_against_host<InTwo<AverageWeights<2>>>();
}

TEST_CASE("cross model: weights and state of the step before, on three devices") {
  check_against_host<InThree<Overlapped<AverageWeightsAndState<2>>>>();
}

TEST_CASE("cross model: weights and state, in two replicas") {
  check_against_host<Hybrid<DataParallel<2>, InTwo<AverageWeightsAndState<>>>>();
}

}  // namespace cross_model_test
