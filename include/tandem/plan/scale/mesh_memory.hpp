// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mesh_memory: bytes of the fullest device of a MeshLayout, by a formula.

#include <algorithm>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/scale/mesh_layout.hpp>

namespace tandem {

/// Bytes of a device.
struct MeshMemory {
  double weights = 0;    ///< as the optimizer has them, and in the type of products; gathered ones
  double gradients = 0;  ///< those that are not yet in their owner's part among them
  double state = 0;      ///< of the optimizer
  double activations = 0;  ///< of all live microbatches, and of what is computed again
  double logits = 0;

  [[nodiscard]] double total() const { return weights + gradients + state + activations + logits; }
};

namespace detail {

/// Of a stage's weights, on one of the devices that share its products.
TANDEM_ONCE double stage_parameters(TransformerSizes const& sizes, MeshLayout const& layout);

/// What a block keeps for its backward pass, bytes of a microbatch.
TANDEM_ONCE double kept_bytes(MeshTask const& task, MeshLayout const& layout);

/// Microbatches of a device of @p layout whose activations it has at once, in whole microbatches of
/// all its blocks.
inline double live_of(MeshLayout const& layout, double microbatches) {
  double const p = layout.pipeline;
  return std::min(microbatches, layout.chunks == 1 ? p : p * (1 + (p - 1) / (p * layout.chunks)));
}

}  // namespace detail

/// Bytes of the fullest device. Per weight: 4 bytes (8 in fp64) as the optimizer has it, as many
/// for the gradient and for each state, as fits<> counts them, and 2 more in bf16 and fp16 for
/// products; replicas that shard have a part of the states and of the optimizer's weights; of the
/// gradients, and of two blocks' all; of the weights for products likewise, of which two blocks'
/// are gathered at a time, as FSDP does (Zhao et al., arXiv:2304.11277, section 3.4). Per block and
/// live microbatch, with T tokens, b samples, C channels, F between the products, t devices a
/// product, elements of e bytes: T b (4 C e + masks), over t with sequence_rows, and T b (3 C + C +
/// 2 F) e / t; separate scores take T² b H (2 e + 1) / t more. Recomputed in full: T b C e of a
/// block, and one block's all. 1F1B's first device has as many live as the pipeline is deep,
/// interleaved ones (p - 1) / (p v) more. Of sequences that devices have parts of, T is a part;
/// where they are done in chunks of time, all chunks are live, gradients of keys and values are
/// carried from one to the next, and logits are a chunk's.
/// Source: Korthikanti et al., arXiv:2205.05198, section 4, with e = 2: their 34 s b h is this one.
TANDEM_ONCE [[nodiscard]] MeshMemory mesh_memory(MeshTask const& task, MeshLayout const& layout);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE double stage_parameters(TransformerSizes const& sizes, MeshLayout const& layout) {
  StageBlocks const blocks = stage_blocks(sizes.layers, layout.pipeline);
  double const block = sizes.block_parameters();
  double const words = sizes.embedding_parameters();
  double const most = layout.pipeline == 1
                          ? static_cast<double>(sizes.layers) * block + words * (sizes.tied ? 1 : 2)
                          : std::max(static_cast<double>(blocks.most) * block,
                                     static_cast<double>(blocks.first) * block + words);
  return most / layout.tensor;
}

TANDEM_ONCE double kept_bytes(MeshTask const& task, MeshLayout const& layout) {
  TransformerSizes const& sizes = task.sizes;
  double const element = element_bytes(task.precision);
  double const mask = sizes.dropout ? 1 : 0;
  double const rows = mesh_rows(sizes, layout);
  double const width = static_cast<double>(sizes.width);
  double const whole = layout.sequence_rows ? layout.tensor : 1;
  // The inputs of both norms and of what reads them; masks.
  double const all = rows * width * (4 * element + 2 * mask) / whole;
  double const shared = rows * element *
                        (static_cast<double>(sizes.projections()) + width +
                         static_cast<double>(sizes.inner()) * (sizes.gated ? 3 : 2)) /
                        layout.tensor;
  bool const scores =
      sizes.attention == AttentionKernels::separate && layout.recomputation == Recomputation::none;
  double const pairs =
      scores ? rows * static_cast<double>(sizes.context * sizes.heads) / layout.tensor : 0;
  return all + shared + pairs * (sizes.dropout ? 2 * element + 1 : element);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE MeshMemory mesh_memory(MeshTask const& task, MeshLayout const& layout) {
  TransformerSizes const& sizes = task.sizes;
  double const element = element_bytes(task.precision);
  double const master = master_bytes(task.precision);
  double const parameters = detail::stage_parameters(sizes, layout);
  detail::StageBlocks const blocks = detail::stage_blocks(sizes.layers, layout.pipeline);
  bool const copies = element < master;
  double const shared = parameters / layout.parts(Sharding::state);
  double const passing = 2 * parameters / static_cast<double>(blocks.most);
  // Of what is used in whole, where each has a part.
  auto const used = [&](Sharding what) {
    int const parts = layout.parts(what);
    return parts == 1 ? parameters : std::min(parameters, parameters / parts + passing);
  };
  MeshMemory memory{
      .weights = used(Sharding::parameters) * element + (copies ? shared * master : 0),
      .gradients = used(Sharding::gradients) * (copies ? task.gradient_bytes : master),
      .state = shared * task.states * master};
  double const rows = detail::mesh_rows(sizes, layout);
  double const enters = rows * static_cast<double>(sizes.width) * element /
                        (layout.sequence_rows ? layout.tensor : 1);
  double const count = static_cast<double>(task.batch) / layout.data / layout.microbatch;
  double const live = detail::live_of(layout, count);
  double const kept = detail::kept_bytes(task, layout);
  bool const again = layout.recomputation == Recomputation::full;
  auto const of_blocks = [&](std::int64_t number, double microbatches) {
    double const all = static_cast<double>(number) * microbatches;
    return again ? all * enters + kept : all * kept;
  };
  double const logits = detail::pass_rows(sizes, layout) * static_cast<double>(sizes.vocabulary) /
                        layout.tensor * (element + 4);
  double const first = of_blocks(std::max(blocks.first, blocks.most), live);
  double const last = of_blocks(blocks.last, layout.pipeline == 1 ? live : std::min(live, 1.0));
  memory.activations = layout.pipeline > 1 && first > last + logits ? first : last;
  memory.logits = memory.activations == last ? logits : 0;
  if (layout.time_chunks > 1) {
    memory.activations += static_cast<double>(blocks.most) * rows * element *
                          static_cast<double>(sizes.projections() - sizes.width) / layout.tensor;
  }
  return memory;
}

}  // namespace tandem

#endif
