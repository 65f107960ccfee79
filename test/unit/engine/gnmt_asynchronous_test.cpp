// SPDX-License-Identifier: Apache-2.0
// A Gnmt on pipelines that update late: what Let names is of one version of the weights with all
// else of its microbatch.

#include <doctest/doctest.h>

#include <small_gnmt.hpp>

namespace tandem {
namespace gnmt_asynchronous_test {

template <class S>
void check_learns(Optimizer const& optimizer) {
  test::Watchdog const watchdog{"a Gnmt with late gradients"};
  Trainer<test::FreeGnmt, S, BasicHost<Portable>> trainer{
      {.batch = 9, .optimizer = optimizer, .seed = 3, .threads_per_device = 1}};
  double const first = test::gnmt_step(trainer, 0).loss;
  double last = first;
  for (int s = 0; s < 80; ++s) {
    last = test::gnmt_step(trainer, 0).loss;
  }
  CHECK(last < 0.96 * first);
}

TEST_CASE("double-buffered weights and predicted ones train a Gnmt whose memory is relayed") {
  check_learns<Pipeline<PipeDream2BW, 3, Split<4>, Split<2>, Split<4>>>(
      Adam{.learning_rate = 0.02F});
  check_learns<Pipeline<WeightPrediction, 1, Split<4>, Split<2>, Split<4>>>(
      Sgd{.learning_rate = 0.5F, .momentum = 0.9F});
}

}  // namespace gnmt_asynchronous_test
}  // namespace tandem
