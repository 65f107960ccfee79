// SPDX-License-Identifier: Apache-2.0
// Asynchronous pipelines with oneDNN: each version of the weights is packed on its own.

#if defined(TANDEM_ONEDNN)

#include <doctest/doctest.h>

#include <cstdint>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <deep_network.hpp>
#include <onednn_op.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace stream_test {

using Fp32Backend = BasicHost<OneDnn, Fp32>;
using Bf16Backend = BasicHost<OneDnn, Bf16>;

TrainerOptions options() {
  return {.batch = 12,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .seed = 5,
          .threads_per_device = 1};
}

template <class T>
double step(T& trainer, int s) {
  Samples<float> const data{Image<3, 8, 8>::shape, 5, 12, static_cast<std::uint64_t>(s)};
  return trainer.step(data.x, data.y).loss;
}

/// A version that was packed too late, or not at all, is off by a learning rate times a gradient.
template <class S>
void check_versions() {
  Watchdog const watchdog{"versions of weights with oneDNN"};
  Trainer<DeepNet, S, Fp32Backend> trainer{options()};
  Trainer<DeepNet, S, BasicHost<Portable>> portable{options()};
  for (int s = 0; s < 8; ++s) {
    INFO("step " << s);
    CHECK(step(trainer, s) == doctest::Approx(step(portable, s)).epsilon(1e-4));
  }
  Difference const off = difference(trainer.parameters(), portable.parameters(), Part::value);
  INFO(off.name);
  CHECK(off.error <= 1e-3);
}

TEST_CASE("eight steps in fp32 are those of the portable kernels") {
  check_versions<InFour<PipeDream, 1>>();
  check_versions<InFour<PipeDream2BW, 4>>();
  check_versions<InFour<WeightPrediction, 1>>();
  check_versions<InTwo<PipelinedModel, 1>>();
}

TEST_CASE("in bf16 each version is rounded, and an emptied pipeline is synchronous training") {
  if (!test::computes<BFloat16>()) {
    return;
  }
  Watchdog const watchdog{"versions of weights in bf16"};
  using Two = InTwo<PipeDreamVerticalSync, 1>;
  Trainer<DeepNet, Two, Bf16Backend> trainer{options()};
  Trainer<DeepNet, InTwo<GPipe, 1>, Bf16Backend> cut{options()};
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(cut.memory(rank).weights > 0);
    CHECK(trainer.memory(rank).weights == 2 * cut.memory(rank).weights);
    CHECK(trainer.memory(rank).versions > 0);
  }
  for (int s = 0; s < 4; ++s) {
    CHECK(step(trainer, s) == step(cut, s));
    CHECK(first_difference(trainer.parameters(), cut.parameters()) == "");
  }
}
}  // namespace stream_test
}  // namespace tandem::test

#endif
