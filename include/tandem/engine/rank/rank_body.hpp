// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankBody: what a rank answers alike, whether it goes step by step or through a stream.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/memory/rank_mirror.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank_core.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/weight_average.hpp>

namespace tandem {

namespace detail {

// Before what refers to them.
template <class Parts>
struct HeldParts {
  Parts held;
};

}  // namespace detail

/// @tparam Interface  RankInterface
/// @tparam Parts      RankCore
template <class Interface, class Parts>
class RankBody : public Interface {
 public:
  using typename Interface::Batch;
  using typename Interface::P;
  using Backend = typename Parts::Backend;

  [[nodiscard]] RankPlan const& plan() const { return parts_.plan; }
  /// What each node's op asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return parts_.needs; }

  std::vector<NamedParameter<P>> parameters() override {
    auto list = named_parameters(parts_.tables, mirror_, states_);
    for (std::size_t p = 0; p < list.size(); ++p) {
      if (averaged_[p]) {
        std::int64_t const at = parts_.tables.whole_layout.offset[p];
        list[p].average = {mirror_.state(states_) + at, list[p].value.size()};
      }
    }
    return list;
  }
  void download() override {
    parts_.arrive();
    mirror_.download(parts_);
  }
  void share_with(DeviceSpec const& other) override { parts_.device.share_with(other); }
  void report_progress_to(std::atomic<std::uint64_t>* board) override {
    progress_ = board != nullptr ? board : &nowhere_;
  }
  void watch_with(Watch watch) override { watch_ = watch; }
  void settle() override { parts_.settle(); }

  /// For measurements of what it has allocated.
  [[nodiscard]] auto& device() { return parts_.device; }

 protected:
  TANDEM_COLD RankBody(Parts& parts, RankOptions const& options)
      : parts_{parts},
        mirror_{parts_.tables, arrays_of(options)},
        states_{states_of(options.optimizer)},
        averaged_{averaged_parameters(parts_.tables.whole_graph, options.groups, options.average)} {
  }

  Parts& parts_;
  RankMirror<Parts> mirror_;
  std::atomic<std::uint64_t>* progress_ = &nowhere_;  // which action it is at
  Watch watch_{};

 private:
  std::atomic<std::uint64_t> nowhere_{};
  int states_;  // of the optimizer
  std::vector<bool> averaged_;
};

}  // namespace tandem
