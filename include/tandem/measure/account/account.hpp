// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepAccount: the kernels of a training step on a GPU, with what each reads, writes and computes.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/ops/cuda/launch_sizes.hpp>
#include <tandem/optim/optimizer.hpp>

namespace tandem {

/// Kernels of one kind that a node's pass, or the engine, queues in a step.
struct AccountRow {
  int node = -1;            ///< in the network's graph; -1: the engine's own
  std::string place{};      ///< "2.0 Conv2d", or "batch", "loss", "update", "shared", "stage 1"
  std::string_view pass{};  ///< "forward", "input gradient", "weight gradient", "fork", "again",
                            ///< "send forward" and the like, or ""
  cuda::Launch launch{};

  /// Whether it is NCCL's, who sends what it reads and receives what it writes.
  [[nodiscard]] bool communicates() const { return launch.kernel.starts_with("nccl"); }
};

/// A training step of one GPU.
struct StepAccount {
  std::vector<AccountRow> row{};
  std::vector<std::string> unknown{};  ///< what is not counted: a sentence's subject each
  int samples = 0;                     ///< of this GPU's replica
  int device = 0;                      ///< of the replica
  int devices = 1;                     ///< that it has
  int slices = 1;                      ///< GPUs that share the layers of this one, itself included
  bool tiles = false;                  ///< each of these has a tile of every image

  TANDEM_ONCE [[nodiscard]] cuda::Launch total() const;
  /// Nodes of the step's graph: kernels, copies, fills, messages and collectives.
  [[nodiscard]] std::int64_t kernels() const { return static_cast<std::int64_t>(total().times); }
  [[nodiscard]] double bytes() const { return total().read + total().written; }

  /// A row of the engine's own.
  void add(std::string place, std::string_view pass, std::string_view kernel, double read,
           double written, double times = 1) {
    row.push_back({-1, std::move(place), pass, {kernel, times, read, written, 0}});
  }
  /// Something that is not counted, once.
  TANDEM_ONCE void leave_out(std::string what);
};

struct AccountOptions {
  int batch = 128;  ///< global
  Optimizer optimizer = Sgd{};
  bool clips = false;  ///< by a norm
  int device = 0;      ///< of a replica
  int slice = 0;       ///< of the GPUs that share its layers; with tiles each has other neighbours
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE cuda::Launch StepAccount::total() const {
  cuda::Launch sum{.kernel = "total", .times = 0};
  for (AccountRow const& r : row) {
    sum.times += r.launch.times;
    sum.read += r.launch.read;
    sum.written += r.launch.written;
    sum.operations += r.launch.operations;
  }
  return sum;
}

TANDEM_ONCE void StepAccount::leave_out(std::string what) {
  for (std::string const& known : unknown) {
    if (known == what) {
      return;
    }
  }
  unknown.push_back(std::move(what));
}

}  // namespace tandem

#endif
