// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MeshLayout: how data × pipeline × tensor parallelism lies on devices, and MeshTask: what is
/// trained there.

#include <algorithm>
#include <cstdint>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/scale/sharding.hpp>
#include <tandem/plan/scale/transformer_sizes.hpp>

namespace tandem {

/// What of a block is computed again in the backward pass: nothing, a separate attention's scores,
/// or all but what enters the block.
enum class Recomputation { none, selective, full };

/// What runs beside computation; the rest of a step's communication stands between its passes.
struct MeshOverlap {
  bool products = false;  ///< collectives of devices that share products
  bool messages = false;  ///< from stage to stage
  bool sums = false;      ///< of gradients, and new weights

  friend bool operator==(MeshOverlap const&, MeshOverlap const&) = default;
};

/// Devices are numbered along tensor, then sequence, data and pipeline: device d has place d %
/// tensor among those that share products, and stage d / (tensor · sequence · data). So products
/// are shared within nodes, and stages are far apart.
struct MeshLayout {
  int data = 1;
  int pipeline = 1;     ///< devices of a pipeline, 1F1B
  int tensor = 1;       ///< devices that share each product
  int sequence = 1;     ///< devices with a part of each sequence each, which gather keys and values
  int chunks = 1;       ///< of the pipeline's devices: stages each, interleaved
  int time_chunks = 1;  ///< of each sequence, which a pipeline's stages do one behind the other
  int microbatch = 1;   ///< samples
  Recomputation recomputation = Recomputation::none;
  bool sequence_rows = false;  ///< devices of a product have a part of the rows of all else
  Sharding shard = Sharding::none;
  MeshOverlap overlap{};

  [[nodiscard]] int devices() const { return data * pipeline * tensor * sequence; }
  /// Parts into which replicas divide @p what, which the device's whole is made of.
  [[nodiscard]] int parts(Sharding what) const { return shard >= what ? data * sequence : 1; }

  friend bool operator==(MeshLayout const&, MeshLayout const&) = default;
};

/// What is trained, and on what.
struct MeshTask {
  TransformerSizes sizes{};
  Machine machine{};
  MathPrecision precision = MathPrecision::bf16;
  int batch = 512;            ///< samples of a step, of all devices together
  int states = 2;             ///< of the optimizer for each weight: Adam has 2
  double gradient_bytes = 4;  ///< of an element as replicas sum it
  /// Relative standard deviation of a sample's work: of sequences that are not of one length. A
  /// step takes as long as its heaviest replica.
  double spread = 0;
};

namespace detail {

/// Blocks of the stages of a pipeline. Where devices do not divide them, the first and the last
/// have one less, for the words and the logits beside it.
struct StageBlocks {
  std::int64_t most = 1;
  std::int64_t first = 1;
  std::int64_t last = 1;
};

constexpr StageBlocks stage_blocks(std::int64_t layers, int pipeline) {
  if (layers % pipeline == 0 || pipeline == 1) {
    std::int64_t const each = layers / pipeline;
    return {each, each, each};
  }
  std::int64_t const each = (layers + 2 + pipeline - 1) / pipeline;
  std::int64_t const ends = std::max<std::int64_t>(1, each - 1);
  return {each, ends, ends};
}

/// Tokens of a microbatch on a device.
inline double mesh_rows(TransformerSizes const& sizes, MeshLayout const& layout) {
  return static_cast<double>(layout.microbatch) * static_cast<double>(sizes.context) /
         layout.sequence;
}

/// Those that it passes at a time.
inline double pass_rows(TransformerSizes const& sizes, MeshLayout const& layout) {
  return mesh_rows(sizes, layout) / layout.time_chunks;
}

}  // namespace detail

/// Why @p layout cannot train @p task, a sentence; empty where it can. Memory is asked elsewhere.
TANDEM_ONCE [[nodiscard]] std::string mesh_problem(MeshTask const& task, MeshLayout const& layout);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Why sequences cannot be done in chunks of time; empty where they can.
TANDEM_ONCE std::string time_chunks_problem(TransformerSizes const& sizes,
                                            MeshLayout const& layout) {
  if (layout.time_chunks == 1) {
    return "";
  }
  if (layout.pipeline == 1 || layout.sequence > 1 || !sizes.causal ||
      sizes.attention == AttentionKernels::separate) {
    return "chunks of time are for a pipeline whose attention is causal and one kernel, and whose "
           "devices have whole sequences";
  }
  return sizes.context % layout.time_chunks == 0 ? "" : "chunks of time must divide a sequence";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string mesh_problem(MeshTask const& task, MeshLayout const& layout) {
  TransformerSizes const& sizes = task.sizes;
  if (layout.data < 1 || layout.pipeline < 1 || layout.tensor < 1 || layout.chunks < 1 ||
      layout.sequence < 1 || layout.microbatch < 1 || layout.time_chunks < 1) {
    return "every axis has a device or more";
  }
  if (layout.tensor > 1 &&
      (sizes.heads % layout.tensor != 0 || sizes.inner() % layout.tensor != 0 ||
       sizes.key_heads % layout.tensor != 0)) {
    return "devices that share products must divide the heads and the columns between products";
  }
  if (layout.sequence > 1 &&
      (sizes.context % layout.sequence != 0 || sizes.attention == AttentionKernels::separate)) {
    return "devices that have a part of each sequence must divide it, and attention be one kernel";
  }
  std::int64_t const samples = std::int64_t{layout.data} * layout.microbatch;
  if (task.batch % samples != 0) {
    return "the batch is no multiple of the replicas' microbatches";
  }
  if (layout.pipeline > sizes.layers) {
    return "the pipeline has more devices than the network has blocks";
  }
  if (layout.chunks > 1) {
    std::int64_t const most = detail::stage_blocks(sizes.layers, layout.pipeline).most;
    if (layout.pipeline == 1 || most % layout.chunks != 0 ||
        task.batch / samples % layout.pipeline != 0) {
      return "interleaved stages must divide a device's blocks, and its devices the microbatches";
    }
  }
  if (layout.sequence_rows &&
      (layout.tensor == 1 ||
       sizes.context / layout.sequence / layout.time_chunks % layout.tensor != 0)) {
    return "only devices that share products can have rows of a sequence each, which they divide";
  }
  if (!task.machine.has(layout.devices())) {
    return "the machine has fewer devices";
  }
  return detail::time_chunks_problem(sizes, layout);
}

}  // namespace tandem

#endif
