// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Transformer trains on a GPU as it does on the host, steps of several lengths recorded and
/// replayed.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/models/gpt.hpp>

#include <support/watchdog.hpp>
#include <token_network.hpp>

#include "support.hpp"

namespace sequences_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

// Dropout, tied words, biases.
struct SmallGpt : models::Gpt<words, longest, 8, 2, 2, Percent<25>> {};

// What Llama has: rotary positions, grouped keys, RMS norms, SwiGLU; no weight is shared.
struct Attend : Sequential<RmsNorm<>, Linear<16, NoBias>, RotaryPositions<4, KeyHeads<2>>,
                           Attention<4, Causal, KeyHeads<2>>, Linear<8, NoBias>> {};
struct Think : Sequential<RmsNorm<>, Linear<24, NoBias>, SwiGlu, Linear<8, NoBias>> {};
struct SmallLlama
    : Network<Tokens<longest, words>,
              Sequential<Embedding<words, 8>, Residual<Attend>, Residual<Think>, RmsNorm<>,
                         Vocabulary<words, Smoothing<Percent<10>>, Chunked<8>>>> {};

TrainerOptions options() {
  return {.batch = 10,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .clip_norm = 0.2,
          .seed = 3,
          .threads_per_device = 1};
}

template <class S, class Net, class Precision>
using OnDevice =
    Trainer<Net, S, BasicCuda<Portable, Precision>, DefaultLoss<Net>, Accuracy, VirtualTransport>;
template <class S, class Net>
using AsOnHost = Trainer<Net, S, BasicHost<Portable, Fp64>>;

/// Sizes and times come again, so that recorded steps are replayed; some samples are short.
template <class T>
StepResult step_of(T& trainer, int step) {
  TokenBatch const batch = token_batch(10 - step % 2, longest - step / 2 % 2, step, step % 3 == 0);
  return trainer.step(batch.x, batch.targets, {.time = batch.time, .lengths = batch.lengths});
}

template <class S, class One, class Net>
void check_double(int steps = 8) {
  Watchdog const watchdog{"steps of sequences in double"};
  AsOnHost<One, Net> host{options()};
  OnDevice<S, Net, Fp64> gpu{options()};
  for (int s = 0; s < steps; ++s) {
    StepResult const a = step_of(host, s);
    StepResult const b = step_of(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-11 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-10 * a.gradient_norm);
    CHECK(a.metric == b.metric);
    CHECK(a.weight == b.weight);
  }
  Difference const off = difference(gpu.parameters(), host.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-10);
}

TEST_CASE("a GPT trains on one GPU as on the host, in double") {
  check_double<SingleDevice<>, SingleDevice<>, SmallGpt>();
  check_double<SingleDevice<Microbatches<3>>, SingleDevice<Microbatches<3>>, SmallGpt>();
}

TEST_CASE("rotary positions, grouped keys, RMS norms, SwiGLU, a vocabulary in chunks: likewise") {
  check_double<SingleDevice<>, SingleDevice<>, SmallLlama>();
}

TEST_CASE("a GPT trains on several ranks as on one, its words on both ends of a pipeline") {
  check_double<DataParallel<2>, SingleDevice<Microbatches<2>>, SmallGpt>(3);
  check_double<Pipeline<OneFOneB, 2, Split<3>, Split<3>>, SingleDevice<Microbatches<2>>, SmallGpt>(
      3);
}

TEST_CASE("a GPT's first gradients in fp32 and bf16 are near those in double") {
  AsOnHost<SingleDevice<>, SmallGpt> host{options()};
  OnDevice<SingleDevice<>, SmallGpt, Fp32> single{options()};
  OnDevice<SingleDevice<>, SmallGpt, Bf16> half{options()};
  StepResult const a = step_of(host, 0);
  StepResult const b = step_of(single, 0);
  StepResult const c = step_of(half, 0);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-5 * a.loss);
  CHECK(std::fabs(a.loss - c.loss) <= 0.02 * a.loss);
  CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-4 * a.gradient_norm);
  CHECK(std::fabs(a.gradient_norm - c.gradient_norm) <= 0.1 * a.gradient_norm);
}

TEST_CASE("recorded steps of a GPT have the bits of walked ones") {
  TrainerOptions walked = options();
  walked.record = false;
  OnDevice<SingleDevice<>, SmallGpt, Fp32> one{options()};
  OnDevice<SingleDevice<>, SmallGpt, Fp32> two{walked};
  for (int s = 0; s < 8; ++s) {
    StepResult const a = step_of(one, s);
    StepResult const b = step_of(two, s);
    CHECK(a.loss == b.loss);
    CHECK(a.gradient_norm == b.gradient_norm);
  }
  CHECK(first_difference(one.parameters(), two.parameters()) == "");
}

}  // namespace sequences_test
