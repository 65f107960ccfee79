// SPDX-License-Identifier: Apache-2.0
// A network of which nothing is trained: a step computes its loss and changes nothing.

#include <doctest/doctest.h>

#include <cmath>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace nothing_trained_test {

struct FrozenNet
    : Network<Image<1, 4, 4>,
              Sequential<Frozen<Conv2d<2, Kernel<3>>>, ReLU, Flatten, Frozen<Linear<3>>>> {};

/// Nothing that could be trained.
struct BareNet : Network<Vector<3>, Sequential<ReLU, Dropout<Percent<25>>>> {};

template <class Net, class S>
void check() {
  Watchdog const watchdog{"a step with nothing to train"};
  Trainer<Net, SingleDevice<>, Double> fresh{parity_options()};
  Trainer<Net, SingleDevice<Microbatches<2>>, Double> one{parity_options()};
  Trainer<Net, S, Double> trainer{parity_options()};
  for (int s = 0; s < 3; ++s) {
    StepResult const a = parity_step(one, s);
    StepResult const b = parity_step(trainer, s);
    CHECK(a.loss > 0.0);
    CHECK(a.loss == b.loss);
    CHECK(b.gradient_norm == 0.0);
  }
  CHECK(first_difference(trainer.parameters(), fresh.parameters()) == "");
}

TEST_CASE("a step of a network with nothing trained gives its loss and changes nothing") {
  check<FrozenNet, SingleDevice<Microbatches<2>>>();
  check<BareNet, SingleDevice<Microbatches<2>>>();
  check<FrozenNet, DataParallel<2>>();
  check<BareNet, DataParallel<2, Reproducible<>>>();
  check<FrozenNet, ModelParallel<Split<2>, Split<2>, Microbatches<2>>>();
  check<FrozenNet, Pipeline<ZeroBubbleH1, 2, Split<2>, Split<2>>>();
}

// Asynchronous pipelines take the batch as it is, so their microbatch is the batch.
TEST_CASE("so does a step of a pipeline that is never emptied, and of two models") {
  Watchdog const watchdog{"an asynchronous step with nothing to train"};
  TrainerOptions plain = parity_options();
  plain.clip_norm = 0.0;  // which both refuse
  Trainer<FrozenNet, SingleDevice<>, Double> one{plain};
  Trainer<FrozenNet, Pipeline<PipeDream, 1, Split<2>, Split<2>>, Double> late{plain};
  Trainer<FrozenNet, CrossModelParallel<AverageWeights<>, Split<2>, Split<2>>, Double> two{plain};
  for (int s = 0; s < 3; ++s) {
    StepResult const a = parity_step(one, s);
    CHECK(std::fabs(a.loss - parity_step(late, s).loss) <= 1e-12);
    CHECK(std::fabs(a.loss - parity_step(two, s).loss) <= 1e-12);
  }
  CHECK(first_difference(late.parameters(), one.parameters()) == "");
  CHECK(first_difference(two.parameters(), one.parameters()) == "");
}

}  // namespace nothing_trained_test
}  // namespace tandem::test
