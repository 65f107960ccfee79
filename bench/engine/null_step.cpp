// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps with empty kernels, so that what is left is the engine itself.
///
///   bench_null_step NETWORK MICROBATCHES STEPS      linear or googlenet; 8 or 264
///
/// Prints the number of actions that it ran, and of passes of nodes. run.py runs it under
/// callgrind, which counts the instructions inside `counted_steps`.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <tandem/comm/self.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/rank/make_rank.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/ops/null.hpp>
#include <tandem/strategy/program.hpp>

namespace {

using namespace tandem;

struct Large : models::GoogLeNet<10> {};
struct Small : Network<Image<3, 32, 32>, Sequential<Flatten, Linear<10>>> {};

template <class Net, int Count>
using NullDevice = typename Program<Net, SingleDevice<Microbatches<Count>>, 4>::template Device<0>;

// How often a microbatch calls an op, forward and backward.
template <class Device>
long long node_passes() {
  long long passes = 0;
  for (int n = 0; n < Device::graph.nodes; ++n) {
    Node const& node = Device::graph.node[n];
    passes += node.computes() ? 1 : 0;
    passes += Device::gives_input_gradient.of[n] ? 1 : 0;
    passes += node.parameters > 0 ? 1 : 0;
  }
  return passes;
}

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

template <class Net, int Count>
int run(int steps) {
  constexpr int samples = 264;
  using Device = NullDevice<Net, Count>;
  auto const made = make_rank<Device, Null, SoftmaxCrossEntropy<>, Accuracy, SelfCommunicator>(
      {.largest_microbatch = largest_microbatch(samples, Device::batching), .optimizer = Sgd{}},
      {[](int) { return SelfCommunicator{}; },
       RankGroups{group_facts<typename Device::Program>, Device::Program::mesh}, 0});
  auto& rank = static_cast<RankOf<Device, Null, SoftmaxCrossEntropy<>, SelfCommunicator>&>(*made);
  std::vector<float> const x(static_cast<std::size_t>(samples) * 3 * 32 * 32);
  std::vector<std::int32_t> const labels(samples);
  StepBatch<float, std::int32_t> const batch{
      .x = x.data(), .targets = labels.data(), .size = samples};
  rank.train({}, batch);  // works out the sizes of the microbatches, once
  double const loss = counted_steps(rank, batch, steps);
  std::printf(
      "%lld actions, %lld passes, loss %g\n",
      static_cast<long long>(steps) * static_cast<long long>(rank.plan().training.size() - 1),
      steps * Count * node_passes<Device>(), loss);
  return 0;
}

template <class Net>
int run(char const* count, int steps) {
  return std::strcmp(count, "8") == 0 ? run<Net, 8>(steps) : run<Net, 264>(steps);
}

}  // namespace

int main(int argc, char** argv) {
  int const steps = argc == 4 ? std::atoi(argv[3]) : 0;
  if (steps > 0 && std::strcmp(argv[1], "linear") == 0) {
    return run<Small>(argv[2], steps);
  }
  if (steps > 0 && std::strcmp(argv[1], "googlenet") == 0) {
    return run<Large>(argv[2], steps);
  }
  std::fputs("usage: bench_null_step linear|googlenet 8|264 STEPS\n", stderr);
  return 2;
}
