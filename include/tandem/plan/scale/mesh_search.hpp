// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_meshes: the fastest layouts of a transformer on so many devices, up to 65,536 and more.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/scale/mesh_layout.hpp>
#include <tandem/plan/scale/mesh_memory.hpp>
#include <tandem/plan/scale/mesh_step.hpp>
#include <tandem/plan/scale/mesh_type.hpp>

namespace tandem {

/// What a search is to leave as it is; what is not given is sought.
struct MeshLimits {
  std::optional<int> pipeline{};
  std::optional<int> tensor{};
  int sequence = 1;  ///< is not sought
  std::optional<int> chunks{};
  std::optional<int> time_chunks{};
  std::optional<int> microbatch{};
  std::optional<Recomputation> recomputation{};
  std::optional<bool> sequence_rows{};
  std::optional<Sharding> shard{};
  MeshOverlap overlap{};
  double memory = 0;  ///< of a device, bytes; 0: the machine's
};

/// A layout, and what it takes.
struct MeshPlan {
  MeshLayout layout{};
  MeshStep step{};
  MeshMemory memory{};
};

/// What search_meshes() has found.
struct MeshSearch {
  std::vector<MeshPlan> plans{};   ///< the fastest first
  std::optional<MeshPlan> runs{};  ///< the fastest that the library runs, see plan_only()
  std::array<std::optional<MeshPlan>, mesh_families> of_family{};  ///< the fastest of each
  long tried = 0;  ///< layouts whose memory or step was worked out
  double least_memory = std::numeric_limits<double>::infinity();  ///< of all these, of a device
};

/// The @p keep fastest layouts of @p task on so many devices that fit in their memory. Products are
/// shared within a node only, microbatches have up to 64 samples, chunks of time are powers of two
/// up to 16, and where less is computed again
/// fits, more is not tried. All axes are sought that @p limits does not give.
/// @throws ContractError  devices < 1, the batch is empty, or sizes or machine are not valid
TANDEM_ONCE [[nodiscard]] MeshSearch search_meshes(MeshTask const& task, int devices,
                                                   MeshLimits const& limits = {},
                                                   std::size_t keep = 10);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

inline constexpr int most_time_chunks = 16;  // that are sought

class MeshSearcher {
 public:
  MeshSearcher(MeshTask const& task, MeshLimits const& limits, int devices, std::size_t keep)
      : task_{task},
        limits_{limits},
        devices_{devices},
        keep_{keep},
        memory_{limits.memory > 0 ? limits.memory : static_cast<double>(task.machine.memory)} {}

  MeshSearch run() {
    for (int tensor = 1; tensor <= std::min(task_.machine.devices_per_node, devices_); ++tensor) {
      if (devices_ % tensor == 0 && is(limits_.tensor, tensor)) {
        pipelines(tensor);
      }
    }
    return std::move(found_);
  }

 private:
  template <class Value>
  static bool is(std::optional<Value> const& limit, Value value) {
    return !limit || *limit == value;
  }

  void pipelines(int tensor) {
    if (devices_ / tensor % limits_.sequence != 0) {
      return;
    }
    int const rest = devices_ / tensor / limits_.sequence;
    auto const most = static_cast<int>(std::min<std::int64_t>(task_.sizes.layers, rest));
    for (int pipeline = 1; pipeline <= most; ++pipeline) {
      if (rest % pipeline != 0 || task_.batch % (rest / pipeline) != 0 ||
          !is(limits_.pipeline, pipeline)) {
        continue;
      }
      int const samples = task_.batch / (rest / pipeline);
      for (int size = 1; size <= std::min(samples, 64); ++size) {
        if (samples % size == 0 && is(limits_.microbatch, size)) {
          chunks({.data = rest / pipeline,
                  .pipeline = pipeline,
                  .tensor = tensor,
                  .sequence = limits_.sequence,
                  .microbatch = size,
                  .overlap = limits_.overlap});
        }
      }
    }
  }

  void chunks(MeshLayout layout) {
    auto const most = static_cast<int>(stage_blocks(task_.sizes.layers, layout.pipeline).most);
    for (int count = 1; count <= (layout.pipeline > 1 ? most : 1); ++count) {
      layout.chunks = count;
      if (most % count == 0 && is(limits_.chunks, count)) {
        time_chunks(layout);
      }
    }
  }

  void time_chunks(MeshLayout layout) {
    int const given = limits_.time_chunks.value_or(1);
    int const most = limits_.time_chunks ? given : most_time_chunks;
    for (int count = given; count <= most; count *= 2) {
      layout.time_chunks = count;
      options(layout);
    }
  }

  // What computes less is faster, so the first that fits ends the branch.
  void options(MeshLayout layout) {
    if (!mesh_problem(task_, layout).empty()) {
      return;
    }
    for (bool const rows : {false, true}) {
      for (Sharding const shard :
           {Sharding::none, Sharding::state, Sharding::gradients, Sharding::parameters}) {
        bool const alone = layout.data * layout.sequence == 1;
        if (!is(limits_.sequence_rows, rows) || !is(limits_.shard, shard) ||
            (rows && layout.tensor == 1 && !limits_.sequence_rows) ||
            (shard != Sharding::none && alone && !limits_.shard)) {
          continue;
        }
        layout.sequence_rows = rows;
        layout.shard = shard;
        using enum Recomputation;
        for (Recomputation const again : {none, selective, full}) {
          bool const scores = task_.sizes.attention == AttentionKernels::separate;
          layout.recomputation = again;
          bool const tried = is(limits_.recomputation, again) && (again != selective || scores);
          if (tried && fits(layout) && again != selective) {  // which the library does not run
            break;
          }
        }
      }
    }
  }

  bool fits(MeshLayout const& layout) {
    if (!mesh_problem(task_, layout).empty()) {
      return false;
    }
    ++found_.tried;
    MeshMemory const memory = mesh_memory(task_, layout);
    found_.least_memory = std::min(found_.least_memory, memory.total());
    if (memory.total() > memory_) {
      return false;
    }
    MeshPlan const plan{layout, mesh_step(task_, layout), memory};
    auto const keep_fastest = [&](std::optional<MeshPlan>& best) {
      if (!best || plan.step.seconds() < best->step.seconds()) {
        best = plan;
      }
    };
    if (plan_only(layout).empty()) {
      keep_fastest(found_.runs);
    }
    keep_fastest(found_.of_family[static_cast<std::size_t>(mesh_family(layout))]);
    auto const at = std::upper_bound(
        found_.plans.begin(), found_.plans.end(), plan,
        [](MeshPlan const& a, MeshPlan const& b) { return a.step.seconds() < b.step.seconds(); });
    found_.plans.insert(at, plan);
    if (found_.plans.size() > keep_) {
      found_.plans.pop_back();
    }
    return true;
  }

  MeshTask const& task_;
  MeshLimits const& limits_;
  int devices_;
  std::size_t keep_;
  double memory_;
  MeshSearch found_{};
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE MeshSearch search_meshes(MeshTask const& task, int devices, MeshLimits const& limits,
                                     std::size_t keep) {
  check_sizes(task.sizes);
  check_machine(task.machine);
  expects(devices >= 1 && task.batch >= 1 && task.machine.has(devices),
          "search_meshes(task, devices): give a batch and devices that the machine has");
  return detail::MeshSearcher{task, limits, devices, keep}.run();
}

}  // namespace tandem

#endif
