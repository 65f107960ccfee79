// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankBody: what a rank answers alike, whether it goes step by step or through a stream.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/memory/mirror.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/engine/memory/sharded_mirror.hpp>
#include <tandem/engine/memory/sliced_mirror.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/rank/step_slot.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/weight_average.hpp>

namespace tandem {

namespace detail {

template <class Program, class Backend>
struct MirrorOf {
  using type = ParameterMirror<Program, Backend>;
};
template <class Program, class Backend>
  requires(Program::Program::sharded_state&& Program::Program::layer_slices == 1)
struct MirrorOf<Program, Backend> {
  using type = ShardedMirror<Program, Backend>;
};
template <class Program, class Backend>
  requires(Program::Program::layer_slices > 1)
struct MirrorOf<Program, Backend> {
  using type = SlicedMirror<Program, Backend>;
};

}  // namespace detail

/// @tparam Interface  RankInterface
/// @tparam Parts      RankParts
template <class Interface, class Parts>
class RankBody : public Interface {
 public:
  using Whole = typename Parts::Whole;
  using typename Interface::P;
  using Slot = StepSlot<Parts>;
  using FeedType = typename Slot::FeedType;
  using typename Interface::Batch;

  [[nodiscard]] RankPlan const& plan() const { return parts_.plan; }
  /// What each node's op asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return parts_.ops.needs(); }

  std::vector<NamedParameter<P>> parameters() override {
    auto list = named_parameters<typename Parts::Program>(mirror_, states_);
    for (std::size_t p = 0; p < list.size(); ++p) {
      if (averaged_[p]) {
        std::int64_t const at = WholeParameters<typename Parts::Program>::layout.offset[p];
        list[p].average = {mirror_.state(states_) + at, list[p].value.size()};
      }
    }
    return list;
  }
  void download() override {
    parts_.shares.arrive(parts_.device);
    if constexpr (Whole::has_pieces) {
      mirror_.download(parts_.device, parts_.memory, parts_.pieces());
    } else {
      mirror_.download(parts_.device, parts_.memory);
    }
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
  template <class Connect>
  TANDEM_COLD RankBody(RankOptions const& options, RankPlan plan, Connect const& connect)
      : parts_{options, std::move(plan), connect},
        mirror_{arrays_of(options)},
        states_{states_of(options.optimizer)},
        averaged_{averaged_parameters(WholeParameters<typename Parts::Program>::graph,
                                      options.groups, options.average)} {}

  Parts parts_;
  typename detail::MirrorOf<typename Parts::Program, typename Parts::Backend>::type mirror_;
  std::atomic<std::uint64_t>* progress_ = &nowhere_;  // which action it is at
  Watch watch_{};

 private:
  std::atomic<std::uint64_t> nowhere_{};
  int states_;  // of the optimizer
  std::vector<bool> averaged_;
};

}  // namespace tandem
