// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PassPairs: runs a forward pass and the whole backward pass of another stage behind it as one
/// action, on two streams: PyTorch's OVERLAP_F_B, for which DualPipe's rows are made.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/branch_streams.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// The backward pass that may run at the same time as the forward pass @p forward, or null: between
/// the two stand only messages of theirs, what the forward pass has made and what the backward pass
/// wants.
constexpr Action const* paired_backward(Action const* forward) {
  if (forward->kind != ActionKind::forward) {
    return nullptr;
  }
  Action const* next = forward + 1;
  while (next->kind == ActionKind::send_forward && next->stage == forward->stage) {
    ++next;
  }
  while (next->kind == ActionKind::receive_backward && next->stage != forward->stage) {
    ++next;
  }
  bool const pair = next->kind == ActionKind::backward && next->stage != forward->stage;
  return pair ? next : nullptr;
}

/// The forward pass goes to a stream of its own, with scratch memory of its own. What both stages
/// have besides is apart: of two stages each pass writes its own, and the values of a forward pass
/// share no memory with gradients that are deferred.
template <class Backend>
  requires HasSides<typename Backend::Device>
class PassPairs {
 public:
  using Device = typename Backend::Device;

  /// The passes of a pair; between the two of them begin_backward() is called.
  class [[nodiscard]] Pair {
   public:
    explicit Pair(Device& device) : device_{device} {
      device_.fork(1);
      device_.turn_to(1);
    }
    Pair(Pair const&) = delete;
    Pair& operator=(Pair const&) = delete;
    /// Brings a device back to its compute stream also where a pass throws.
    ~Pair() { device_.turn_to(0); }

    void begin_backward() { device_.turn_to(0); }
    /// What is computed from now on comes after both.
    void join() { device_.join(1); }

   private:
    Device& device_;
  };

  [[nodiscard]] bool on() const { return on_; }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.bytes()); }

  /// Makes the stream if the device's row has pairs.
  /// @param scratch  bytes that a pass needs
  /// @pre the device has no sides
  TANDEM_COLD void open(Device& device, RankPlan const& plan, std::int64_t scratch) {
    bool const apart = std::any_of(plan.stages.begin(), plan.stages.end(),
                                   [](StageLife const& stage) { return stage.deferred > 0; });
    for (Action const& action : plan.training) {
      on_ = on_ || (apart && paired_backward(&action) != nullptr);
    }
    if (on_) {
      memory_ = typename Backend::Buffer{device, static_cast<std::size_t>(scratch)};
      auto& side = device.add_side();
      side.scratch = memory_.data();
      side.scratch_bytes = scratch;
    }
  }

  /// After an error.
  void settle(Device& device) {
    device.turn_to(0);
    for (auto& side : device.sides) {
      device.settle(side->stream);
    }
  }

 private:
  typename Backend::Buffer memory_;
  bool on_ = false;
};

/// Its type is not named where a device has no sides.
template <class Backend>
struct PairsOn {
  using type = PassPairs<Backend>;
};

}  // namespace tandem
