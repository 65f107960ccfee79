// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Replicas on GPUs that each have a part of states, gradients or parameters: how they are trained,
/// and all bits that this leaves.

#include <vector>

#include "nccl_support.hpp"
#include "support.hpp"

namespace tandem::test {

using SmallBuckets =
    BucketBytes<64, 256>;  // several buckets, some of which cut a convolution's weight

template <class S, class Precision>
using TinyOnGpus = Trainer<TinyNet, S, BasicCuda<Portable, Precision>, SoftmaxCrossEntropy<>,
                           Accuracy, NcclTransport>;

inline TrainerOptions sharded_options(Optimizer const& optimizer, double clip_norm, bool record) {
  TrainerOptions options = engine_options();
  options.optimizer = optimizer;
  options.clip_norm = clip_norm;
  options.groups = {{.pattern = "*.bias", .learning_rate_scale = 0.5F}};
  options.average = {.decay = 0.9};
  options.record = record;
  return options;
}

/// Losses, norms, values, gradients, states and averages of every replica.
template <class Trainer>
std::vector<double> sharded_bits(Trainer& trainer, int steps, int replicas) {
  std::vector<double> bits;
  for (int s = 0; s < steps; ++s) {
    StepResult const r = engine_step(trainer, s);
    bits.insert(bits.end(), {r.loss, r.metric, r.gradient_norm});
  }
  for (int replica = 0; replica < replicas; ++replica) {
    for (auto const& p : trainer.parameters(replica)) {
      bits.insert(bits.end(), p.value.begin(), p.value.end());
      bits.insert(bits.end(), p.gradient.begin(), p.gradient.end());
      bits.insert(bits.end(), p.average.begin(), p.average.end());
      for (auto const& state : p.states) {
        bits.insert(bits.end(), state.begin(), state.end());
      }
    }
  }
  return bits;
}

inline Optimizer const momentum =
    Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F};

}  // namespace tandem::test
