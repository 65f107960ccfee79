// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterSlots: the parameters of a rank that keeps its part of each bucket alone. What a pass
/// reads is gathered in two slots in turns, a bucket ahead of its use.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/links/parameter_shares.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// As ParameterShares, with a rank's own part of the parameters where that has all. The replicas of
/// a stage go through its buckets in one order, without samples, too.
template <class Program, class Backend, class Groups>
class ParameterSlots : public ParameterShares<Program, Backend, Groups> {
  using Base = ParameterShares<Program, Backend, Groups>;

 public:
  using Base::layout;
  using Base::shares;
  using typename Base::Device;
  using typename Base::P;

  TANDEM_COLD ParameterSlots(Device& device, Groups& groups, Tracer<Device>& tracer)
      : Base{device, groups, tracer},
        turns_{Program::graph, layout, Program::segments.of},
        gathered_{device.make_mark(), device.make_mark()} {}

  void begin_pass() { turns_.begin_pass(); }

  /// What is computed from now on reads the parameters of node @p n, in products rounded where
  /// these read them so.
  template <class Memory>
  void use(Device& device, Memory const& memory, int n, PassDirection direction) {
    turns_.use(
        n, direction, [&](int bucket) { fetch(device, memory, bucket); },
        [&](int bucket) { device.await_on(device.communication, gathered_[bucket & 1]); });
  }

  /// The rank's part has changed, or a step begins: what it queues is the same each time, since it
  /// may be recorded.
  void forget() { turns_.forget(); }
  template <class Memory>
  void gather(Device& /*device*/, Memory const& /*memory*/) {
    forget();
  }
  template <class Memory>
  void keep(Device& /*device*/, Memory const& /*memory*/) {}
  template <class Memory>
  void give_back(Device& /*device*/, Memory const& /*memory*/) {
    forget();
  }

 private:
  template <class Memory>
  void fetch(Device& device, Memory const& memory, int bucket) {
    std::int64_t const count = bucket_range(layout, bucket).count();
    Label const label{"parameters", bucket};
    detail::queue_collective(device, this->tracer_, label, gathered_[bucket & 1], [&] {
      P const* const own = memory.parameters() + layout.bucket_begin[bucket] / shares;
      this->group(bucket).all_gather(
          std::span<P const>{own, static_cast<std::size_t>(count / shares)},
          std::span<P>{memory.parameter_slot(bucket & 1), static_cast<std::size_t>(count)},
          device.communication, label);
      memory.round_slot(device.communication, bucket & 1, count);
    });
  }

  SlotTurns turns_;
  typename Device::Mark gathered_[2];  // of each slot
};

}  // namespace tandem
