// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mesh_reasons: why a layout was chosen: what the fastest one takes that lacks one thing of it.

#include <limits>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/scale/mesh_search.hpp>

namespace tandem {

/// Another choice than the layout's, "without a pipeline", and the fastest that makes it.
struct MeshReason {
  std::string other{};
  double seconds = std::numeric_limits<double>::infinity();  ///< of a step; infinity: nothing fits
};

/// Of @p best, the fastest that search_meshes() has found, each of its choices that @p limits left
/// open the other way, all else sought anew.
/// Cost: a search each, ten at most.
/// @throws ContractError  as search_meshes()
TANDEM_ONCE [[nodiscard]] std::vector<MeshReason> mesh_reasons(MeshTask const& task, int devices,
                                                               MeshLimits const& limits,
                                                               MeshLayout const& best);

/// A line each: "without a pipeline: 12 % slower", or that nothing fits.
TANDEM_ONCE [[nodiscard]] std::string reasons_text(std::vector<MeshReason> const& reasons,
                                                   double seconds);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

class MeshReasons {
 public:
  MeshReasons(MeshTask const& task, int devices, MeshLimits const& limits)
      : task_{task}, devices_{devices}, limits_{limits} {}

  std::vector<MeshReason> of(MeshLayout const& best) {
    using enum Sharding;
    turn("without shared products", limits_.tensor, best.tensor, 1);
    turn("without rows of sequences", limits_.sequence_rows, best.sequence_rows, false);
    turn("without a pipeline", limits_.pipeline, best.pipeline, 1);
    turn("without interleaved stages", limits_.chunks, best.chunks, 1);
    turn("without chunks of time", limits_.time_chunks, best.time_chunks, 1);
    bool const whole = best.time_chunks == 1 && best.pipeline > 1 && task_.sizes.causal &&
                       task_.sizes.attention == AttentionKernels::fused;
    turn("in two chunks of time", limits_.time_chunks, whole ? 1 : 2, 2);
    turn("with nothing computed again", limits_.recomputation, best.recomputation,
         Recomputation::none);
    if (best.data * best.sequence > 1) {
      turn("with nothing sharded", limits_.shard, best.shard, none);
      turn("with sharded state", limits_.shard, best.shard, state);
      turn("with sharded gradients", limits_.shard, best.shard, gradients);
      turn("with sharded weights", limits_.shard, best.shard, parameters);
    }
    return found_;
  }

 private:
  template <class Limit, class Value>
  void turn(char const* other, Limit& limit, Value chosen, Value value) {
    if (limit || chosen == value) {  // nobody chose
      return;
    }
    limit = value;
    MeshSearch const found = search_meshes(task_, devices_, limits_, 1);
    limit.reset();
    found_.push_back({.other = other});
    if (!found.plans.empty()) {
      found_.back().seconds = found.plans.front().step.seconds();
    }
  }

  MeshTask const& task_;
  int devices_;
  MeshLimits limits_;
  std::vector<MeshReason> found_{};
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<MeshReason> mesh_reasons(MeshTask const& task, int devices,
                                                 MeshLimits const& limits, MeshLayout const& best) {
  return detail::MeshReasons{task, devices, limits}.of(best);
}

TANDEM_ONCE std::string reasons_text(std::vector<MeshReason> const& reasons, double seconds) {
  std::string text;
  for (MeshReason const& reason : reasons) {
    double const slower = 100 * (reason.seconds / seconds - 1);
    text += "  " + reason.other + ": " +
            (slower < 1e300 ? detail::digits(slower, 2) + " % slower" : "nothing fits") + "\n";
  }
  return text.empty() ? text : "why, beside the fastest that chooses otherwise\n" + text;
}

}  // namespace tandem

#endif
