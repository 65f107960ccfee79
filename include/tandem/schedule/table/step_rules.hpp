// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepRules: what a synchronous step is besides its passes: how many replicas sum their gradients,
/// and how two models are kept together. What follows from them stands here once.

#include <span>

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

struct StepRules {
  int replicas = 1;  ///< of all devices of the map; the rows of each are the same
  Averaging averaging{};
  /// Of each device: the stages of its buckets of gradients, in the order of their reduction. Null:
  /// a bucket a stage, in the order in which backward ends them, the second copy of a part first.
  std::span<int const> const* buckets = nullptr;
  /// Whether devices share a parameter, whose gradients they add when all rows have ended.
  bool ties = false;
  /// Ranks that share each device's part of the model, whose rows are the same.
  int slices = 1;
  /// Chunks of time of each microbatch, see chunked().
  int chunks = 1;

  [[nodiscard]] constexpr bool keeps_two() const { return averaging.keeps_two(); }
  /// Whether gradients are summed, over replicas or over the copies of a part.
  [[nodiscard]] constexpr bool sums_gradients(StageMapView const& map) const {
    return replicas * (keeps_two() ? 1 : map.copies) > 1;
  }
  [[nodiscard]] constexpr bool sums_losses(StageMapView const& map) const {
    return replicas * map.devices * slices > 1;
  }
  /// Whether the norm of all gradients is: two models have one each.
  [[nodiscard]] constexpr bool sums_norm(StageMapView const& map) const {
    return map.devices * slices > 1 && !keeps_two();
  }

  /// Calls f(stage, bucket) for each bucket of a device.
  template <class F>
  constexpr void each_bucket(StageMapView const& map, int device, F const& f) const {
    int bucket = 0;
    if (buckets != nullptr) {
      for (int const stage : buckets[device]) {
        f(stage, bucket++);
      }
      return;
    }
    for (int part = map.parts() - 1; part >= 0; --part) {
      for (int s = map.stages - map.parts() + part; s >= 0; s -= map.parts()) {
        if (map.device[s] == device) {
          f(s, bucket++);
        }
      }
    }
  }
};

/// Whether a device reduces a part's gradients over its copies and replicas as soon as it ends the
/// part; else it begins with all of them, the last part first, where it awaits its first bucket.
/// A device in the middle that has both copies of a part adds them up before.
/// @param reduces_early  of row_order() of the table
constexpr bool begins_gradients_early(StageMapView const& map, bool keeps_two, bool reduces_early,
                                      int device) {
  bool const middle = !keeps_two && map.devices % 2 == 1 && device == map.devices / 2;
  return map.copies == 1 || (reduces_early && !middle);
}

/// The lowest stage of a device, of which its update is if it has one in all.
constexpr int first_stage(StageMapView const& map, int device) {
  int stage = 0;
  while (stage + 1 < map.stages && map.device[stage] != device) {
    ++stage;
  }
  return stage;
}

}  // namespace tandem
