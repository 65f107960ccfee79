// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What device_memory() says of language models, against the tensors of their trainers: never less,
/// and at most 5 % more.

#include <cstdint>

#include <doctest/doctest.h>

#include <tandem/strategy/fits.hpp>
#include <tandem/tandem.hpp>

namespace tandem::test {

/// The tensors of a rank: neither scratch memory nor batches and messages on their way.
inline std::int64_t rank_tensors(MemoryReport const& has) {
  return has.total() - has.scratch - has.feed - has.messages;
}

/// @tparam Kernels  but for rounded weights, which are not said, each number is exact
/// @tparam Exact    but not of a Concat of rows, which is taken to read what it joins
template <class Net, class S, class Kernels = Portable, class Precision = Fp32, bool Exact = true>
void check_device_memory(int batch, WeightAverages averages = WeightAverages::none) {
  Trainer<Net, S, BasicHost<Kernels, Precision>> const trainer{
      {.batch = batch,
       .optimizer = AdamW{},
       .average = {.decay = averages == WeightAverages::kept ? 0.9 : 0.0}}};
  for (int rank = 0; rank < S::ranks; ++rank) {
    CAPTURE(rank);
    MemoryReport const has = trainer.memory(rank);
    DeviceMemory const most = device_memory<Net, S, AdamW, Precision>(
        batch, S::mesh.coordinate(rank, Axis::model), averages);
    CHECK(has.parameters == most.parameters);
    CHECK(has.gradients == most.gradients);
    CHECK(has.optimizer_state == most.optimizer_state);
    CHECK(has.weights <= most.weights);
    CHECK(has.kept <= most.kept);
    CHECK((!Exact || has.kept == most.kept));
    CHECK(has.states == most.states);
    CHECK(has.recomputed == most.recomputed);
    CHECK(has.transient <= most.passing + most.activation_gradients);
    CHECK(rank_tensors(has) <= most.total());
    CHECK(100 * most.total() <= 105 * rank_tensors(has));
  }
}

using DroppedGpt = models::Gpt<300, 48, 64, 2, 3, Percent<10>, Gelu>;

}  // namespace tandem::test
