// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of GoogLeNet with empty kernels, so that what is left is the engine itself.
///
///   bench_null_step MICROBATCHES STEPS      MICROBATCHES is 8 or 264
///
/// Prints the number of actions that it ran. run.py runs it under callgrind, which counts the
/// instructions inside `counted_steps`.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <tandem/comm/self.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/rank/rank.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/ops/null.hpp>
#include <tandem/strategy/program.hpp>

namespace {

using namespace tandem;

struct Net : models::GoogLeNet<10> {};

template <int Count>
using NullProgram = Program<Net, SingleDevice<Microbatches<Count>>, 4>;

template <int Count>
using NullRank = Rank<typename NullProgram<Count>::template Device<0>, Null, SoftmaxCrossEntropy<>,
                      Accuracy, SelfCommunicator>;

// Kept a function of its own under this name: callgrind is told to count inside it only.
template <class R>
TANDEM_NOINLINE double counted_steps(R& rank, StepBatch<float, std::int32_t> const& batch,
                                     int steps) {
  double loss = 0.0;
  for (int step = 0; step < steps; ++step) {
    loss += rank.train({.step = step, .learning_rate = 0.1}, batch).loss;
  }
  return loss;
}

template <int Count>
int run(int steps) {
  constexpr int samples = 264;
  using P = NullProgram<Count>;
  NullRank<Count> rank{
      {.largest_microbatch = largest_microbatch(samples, P::batching), .optimizer = Sgd{}},
      [](int) { return SelfCommunicator{}; }};
  std::vector<float> const x(static_cast<std::size_t>(samples) * 3 * 32 * 32);
  std::vector<std::int32_t> const labels(samples);
  StepBatch<float, std::int32_t> const batch{
      .x = x.data(), .targets = labels.data(), .size = samples};
  rank.train({}, batch);  // works out the sizes of the microbatches, once
  double const loss = counted_steps(rank, batch, steps);
  std::printf(
      "%lld actions, loss %g\n",
      static_cast<long long>(steps) * static_cast<long long>(rank.plan().training.size() - 1),
      loss);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int const steps = argc == 3 ? std::atoi(argv[2]) : 0;
  if (steps > 0 && std::strcmp(argv[1], "8") == 0) {
    return run<8>(steps);
  }
  if (steps > 0 && std::strcmp(argv[1], "264") == 0) {
    return run<264>(steps);
  }
  std::fputs("usage: bench_null_step 8|264 STEPS\n", stderr);
  return 2;
}
