// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CudaOptions: how a rank on a GPU queues its work. No option changes a number.

namespace tandem {

/// Other backends take no notice of them.
struct CudaOptions {
  /// Streams on which the branches of a Concat, a Residual or another join run at the same time,
  /// from 1 (one after another) to 8. Pays where kernels are too small to fill the GPU, as with few
  /// samples a microbatch. Costs memory: each stream has scratch memory of its own, and branches
  /// share no memory while they run: fits<>(batch, bytes, averages, branches).
  int branches = 1;
  /// On GPUs from compute capability 9.0 on: a kernel of the library may take its place on the GPU
  /// while the one before it ends (programmatic dependent launch), which hides some of the time
  /// between two short ones. Off, as long as it has not been seen to pay.
  bool overlap_launches = false;
  /// Where a schedule has a forward pass and the whole backward pass of another stage one behind
  /// the other, as DualPipe and DualPipeV, these run at the same time on two streams, as PyTorch's
  /// OVERLAP_F_B; not beside branches, ShardedGradients or Stateful layers. Costs scratch memory of
  /// its own. Off, as long as it has not been seen to pay.
  bool overlap_passes = false;
};

}  // namespace tandem
