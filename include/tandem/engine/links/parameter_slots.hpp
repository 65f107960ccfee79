// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterSlots: the parameters of a rank that keeps its part of each bucket alone. What a pass
/// reads is gathered in two slots in turns, a bucket ahead of its use.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/links/parameter_shares.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

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
        slots_{{.gathered = device.make_mark()}, {.gathered = device.make_mark()}},
        first_(static_cast<std::size_t>(layout.buckets), none),
        last_(first_) {
    for (int n = 0; n < Program::graph.nodes; ++n) {
      if (int const bucket = bucket_of_[static_cast<std::size_t>(n)]; bucket != none) {
        auto const b = static_cast<std::size_t>(bucket);
        first_[b] = first_[b] == none ? n : first_[b];
        last_[b] = n;
      }
    }
  }

  /// A pass begins: its first bucket is not the one before's neighbour.
  void begin_pass() { used_ = none; }

  /// What is computed from now on reads the parameters of node @p n; those of the next bucket in
  /// @p direction are on their way meanwhile, if it has nodes of the same run.
  template <class Memory>
  void use(Device& device, Memory const& memory, int n, PassDirection direction) {
    int const bucket = bucket_of_[static_cast<std::size_t>(n)];
    if (bucket == none || bucket == used_) {
      return;
    }
    fetch(device, memory, bucket);
    device.await_on(device.communication, slots_[bucket & 1].gathered);
    used_ = bucket;
    int const next = bucket + static_cast<int>(direction);
    if (next >= 0 && next < layout.buckets && are_of_one_run(bucket, next)) {
      fetch(device, memory, next);
    }
  }

  /// The rank's part has changed.
  void forget() {
    used_ = none;
    slots_[0].bucket = slots_[1].bucket = none;
  }
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
  using Base::bucket_of_;
  using Base::none;

  // Whether neighbours are of one stage, and some of their nodes of one run that is computed again.
  [[nodiscard]] bool are_of_one_run(int bucket, int other) const {
    auto const run = [](std::vector<int> const& node, int of) {
      return Program::segments.of[node[static_cast<std::size_t>(of)]];
    };
    int const earlier = bucket > other ? bucket : other;
    int const later = bucket + other - earlier;
    return layout.bucket_stage[bucket] == layout.bucket_stage[other] &&
           run(last_, earlier) == run(first_, later);
  }

  struct Slot {
    typename Device::Mark gathered;
    int bucket = none;  // that is there, or on its way
  };

  // What the slot had is behind the pass.
  template <class Memory>
  void fetch(Device& device, Memory const& memory, int bucket) {
    Slot& slot = slots_[bucket & 1];
    if (slot.bucket == bucket) {
      return;
    }
    slot.bucket = bucket;
    auto const count = static_cast<std::size_t>(bucket_range(layout, bucket).count());
    Label const label{"parameters", bucket};
    detail::queue_collective(device, this->tracer_, label, slot.gathered, [&] {
      P const* const own = memory.parameters() + layout.bucket_begin[bucket] / shares;
      this->group(bucket).all_gather(
          std::span<P const>{own, count / static_cast<std::size_t>(shares)},
          std::span<P>{memory.parameter_slot(bucket & 1), count}, device.communication, label);
    });
  }

  Slot slots_[2];
  int used_ = none;         // the bucket that the pass is at
  std::vector<int> first_;  // of each bucket: the first node that has parameters there
  std::vector<int> last_;
};

}  // namespace tandem
