// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Networks that several GPUs share layer by layer, and how they are trained.

#include <vector>

#include <tandem/cuda.cuh>
#include <tandem/models/gpt.hpp>

#include <small_gpt.hpp>

namespace tandem::test {

/// All that GPUs may share. The mask behind the packed products is one of three parts of a row,
/// each of an odd number of columns for a rank of two; the others draw four numbers at once.
struct SharedLayers
    : Network<
          Tokens<gpt_time, gpt_words>,
          Sequential<
              Embedding<gpt_words, 8>, Positions<>,
              Residual<Sequential<
                  LayerNorm<>, Linear<32>, Dropout<Percent<30>>, RotaryPositions<4, KeyHeads<2>>,
                  Attention<4, Causal, KeyHeads<2>, Percent<20>>, Linear<8, NoBias>>>,
              Residual<Sequential<RmsNorm<>, Linear<12>, SwiGlu, Dropout<Percent<25>>, Linear<8>>>,
              Residual<Sequential<LayerNorm<>, Linear<16>, GeluTanh, Dropout<Percent<25>>,
                                  Linear<8>, Dropout<Percent<10>>>>,
              LayerNorm<>, Vocabulary<gpt_words>>> {};

template <class S, class Precision, template <int> class Transport, class Net = SharedLayers>
using OnGpus = Trainer<Net, S, BasicCuda<Portable, Precision>, DefaultLoss<Net>,
                       DefaultMetric<DefaultLoss<Net>>, Transport>;

inline TrainerOptions shared_options(bool record) {
  TrainerOptions options = gpt_options();
  options.record = record;
  return options;
}

/// What @p steps steps give, of two sizes in turns, so that recorded ones are replayed.
template <class TrainerType>
std::vector<StepResult> shared_steps(TrainerType& trainer, int steps) {
  std::vector<StepResult> results;
  for (int s = 0; s < steps; ++s) {
    results.push_back(gpt_step(trainer, s % 2));
  }
  return results;
}

/// Every bit that these leave.
template <class TrainerType>
std::vector<double> bits_of(TrainerType& trainer, std::vector<StepResult> const& results,
                            int rank = 0) {
  std::vector<double> bits;
  for (StepResult const& result : results) {
    bits.insert(bits.end(), {result.loss, result.metric, result.gradient_norm});
  }
  for (auto const& p : trainer.parameters(rank)) {
    bits.insert(bits.end(), p.value.begin(), p.value.end());
    for (auto const& state : p.states) {
      bits.insert(bits.end(), state.begin(), state.end());
    }
  }
  return bits;
}

}  // namespace tandem::test
