// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Arenas: where the regions of a MemoryPlan stand in a rank's memory, for each live microbatch.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>

namespace tandem {

/// Two arenas: one of what is kept, stage by stage and slot by slot; one of what is sent, values
/// and gradients. Of a stage, microbatch m of the replica has slot m modulo its live ones.
class Arenas {
 public:
  /// Both outlive this.
  Arenas(MemoryPlan const& plan, PlanTask const& task) : plan_{plan}, task_{task} {
    for (StageLife const& stage : task.stages) {
      deferred_ = std::max(deferred_, stage.deferred);
    }
  }

  /// So many tables of pointers that live microbatches have different ones, and each of them always
  /// the same slots: microbatch m has table m modulo this number.
  TANDEM_ONCE [[nodiscard]] int tables() const;

  [[nodiscard]] std::int64_t kept_bytes() const {
    return kept_before(static_cast<int>(task_.stages.size()));
  }
  /// Where the slot of @p table of a stage begins.
  [[nodiscard]] std::int64_t kept_at(int stage, int table) const {
    auto const s = static_cast<std::size_t>(stage);
    StageLife const& own = task_.stages[s];
    return kept_before(stage) + slot(table, own.first_microbatch, own.live) * plan_.kept_bytes[s];
  }

  /// Of what is sent, values, and gradients. The last two share memory unless values are computed
  /// again while gradients live, or gradients outlive their pass.
  [[nodiscard]] std::int64_t transient_bytes() const {
    return gradients_at() + (shares() ? std::max(plan_.transient_bytes, plan_.gradient_bytes)
                                      : plan_.gradient_bytes * std::max(deferred_, 1));
  }
  [[nodiscard]] std::int64_t values_at() const { return task_.chunks * plan_.outgoing_bytes; }
  /// What is to be added to the plan's @p offset of a gradient.
  TANDEM_ONCE [[nodiscard]] std::int64_t gradient_at(int table, std::int64_t offset) const;

 private:
  [[nodiscard]] static int slot(int table, int first, int slots) {
    return ((table - first) % slots + slots) % slots;
  }
  TANDEM_ONCE [[nodiscard]] std::int64_t kept_before(int stage) const;
  [[nodiscard]] bool shares() const { return !plan_.between_gradients && deferred_ == 0; }
  [[nodiscard]] std::int64_t gradients_at() const {
    return values_at() + (shares() ? 0 : plan_.transient_bytes);
  }

  MemoryPlan const& plan_;
  PlanTask const& task_;
  int deferred_ = 0;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE int Arenas::tables() const {
  int count = 1;
  for (StageLife const& stage : task_.stages) {
    count = std::lcm(count, std::max(stage.live, 1));
    count = std::lcm(count, std::max(stage.deferred, 1));
  }
  return std::min(count, task_.microbatches);
}

TANDEM_ONCE std::int64_t Arenas::gradient_at(int table, std::int64_t offset) const {
  if (offset < plan_.outgoing_bytes) {
    return slot(table, 0, task_.chunks) * plan_.outgoing_bytes;
  }
  int const own = deferred_ > 0 ? slot(table, task_.stages.front().first_microbatch, deferred_) : 0;
  return gradients_at() - plan_.outgoing_bytes + own * plan_.gradient_bytes;
}

TANDEM_ONCE std::int64_t Arenas::kept_before(int stage) const {
  std::int64_t sum = 0;
  for (int s = 0; s < stage; ++s) {
    sum += plan_.kept_bytes[static_cast<std::size_t>(s)] *
           task_.stages[static_cast<std::size_t>(s)].live;
  }
  return sum;
}

}  // namespace tandem

#endif
