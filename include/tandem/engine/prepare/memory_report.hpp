// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MemoryReport: what a rank has allocated for tensors.

#include <cstdint>

namespace tandem {

/// Bytes of each arena of a rank; together they are all that it ever allocates for tensors.
struct MemoryReport {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< 1 + log2(leaves of the replica) buffers, and GradientRows
  std::int64_t optimizer_state = 0;
  std::int64_t kept = 0;        ///< activations that backward reads, for each live microbatch
  std::int64_t recomputed = 0;  ///< activations that backward computes again before it reads them
  std::int64_t transient = 0;   ///< other activations and the gradients of all, sharing memory
  std::int64_t scratch = 0;
  std::int64_t versions = 0;  ///< further copies of trained parameters, where gradients are late;
                              ///< of PostValidated one, and of the optimizer's states
  std::int64_t weights = 0;   ///< parameters as products read them, where that is another form
  std::int64_t states = 0;    ///< of Stateful layers, twice
  std::int64_t exchange = 0;  ///< averages of two models on their way
  std::int64_t wire = 0;  ///< gradients rounded for the way, and what others send to be added in
                          ///< order, where the strategy asks for that
  std::int64_t feed =
      0;  ///< batches and results on their way, where the device has a memory of its own
  std::int64_t tables = 0;  ///< of the update, and sums of losses, likewise
  std::int64_t messages =
      0;  ///< tensors on their way to another rank, on Host; made when the first of each is sent
  std::int64_t logical = 0;  ///< what one live microbatch's activations and gradients would be if
                             ///< nothing shared memory

  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + optimizer_state + kept + recomputed + transient + scratch +
           versions + weights + states + exchange + wire + feed + tables + messages;
  }
};

}  // namespace tandem
