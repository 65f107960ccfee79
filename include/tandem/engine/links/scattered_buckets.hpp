// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ScatteredBuckets: the gradients of a rank that keeps its part of each bucket alone. A bucket is
/// made in one of two slots, and its sum over the replicas goes where the rank's part is, while the
/// next bucket is made in the other slot.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/bucket_gaps.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Of a device's buckets over their replicas. A slot is written again when its sum has been taken.
///
/// Order: the replicas as in an all-reduce; then the microbatches, one by one.
template <class Backend, class Communicator, RankWay Way>
class ScatteredBuckets {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Memory = ParameterMemory<Backend>;
  using Adds = typename BucketSums<Backend, Communicator, Way>::Adds;

  /// @param tracer  outlives this
  TANDEM_COLD ScatteredBuckets(DeviceTables const& tables, Device& device, Tracer<Device>& tracer)
      : layout_{tables.layout},
        shares_{tables.state_shares},
        adds_{layout_, device, shares_},
        tracer_{tracer},
        slots_{{.summed = device.make_mark()}, {.summed = device.make_mark()}},
        gaps_{bucket_gaps(tables.graph, layout_)} {}

  /// What is computed from now on writes the stage's first bucket.
  void open_stage(Device& device, Memory const& memory, int stage) {
    for (int bucket = 0; bucket < layout_.buckets; ++bucket) {
      if (layout_.bucket_stage[bucket] == stage) {
        open(device, memory, bucket);
        return;
      }
    }
  }

  /// Queues the sum of @p bucket of microbatch @p microbatch over @p group, and opens the stage's
  /// next.
  void begin(Device& device, Communicator& group, Memory const& memory, int bucket,
             int microbatch) {
    Slot& slot = slot_of(bucket);
    slot.bucket = bucket;
    slot.rank = group.rank();
    slot.adds = microbatch > 0;
    Label const label{"bucket", bucket};
    detail::queue_collective(device, tracer_, label, slot.summed, [&] {
      adds_.scatter(group, made(memory, bucket), target(memory, slot), device.communication, label);
    });
    if (bucket + 1 < layout_.buckets &&
        layout_.bucket_stage[bucket + 1] == layout_.bucket_stage[bucket]) {
      open(device, memory, bucket + 1);
    }
  }

  /// What is computed from now on reads the rank's part of the sum of @p bucket.
  void await(Device& device, Memory const& memory, int bucket) {
    if (slot_of(bucket).bucket == bucket) {
      take(device, memory, slot_of(bucket));
    }
  }

  /// f(elements, their sums) of each bucket, gathered in one slot while that in the other is looked
  /// at.
  /// Comm: an all-gather of each bucket.
  template <class GroupOf, class F>
  void each_whole(Device& device, Memory const& memory, GroupOf const& group_of, F const& f) {
    for (int bucket = 0; bucket <= layout_.buckets; ++bucket) {
      if (bucket < layout_.buckets) {
        gather(device, group_of(bucket), memory, bucket, bucket & 1);
      }
      if (bucket > 0) {
        int const slot = (bucket - 1) & 1;
        device.await_on(device.communication, slots_[slot].summed);
        f(bucket_range(layout_, bucket - 1), static_cast<P const*>(memory.gradient_slot(slot)));
      }
    }
  }

  /// The sum of @p bucket: in slot 0 or @p slot if it is whole there, else gathered in @p slot.
  P* lend(Device& device, Communicator& group, Memory const& memory, int bucket, int slot) {
    if (int const other = slot_with(bucket); other >= 0 && other <= slot) {
      return memory.gradient_slot(other);
    }
    gather(device, group, memory, bucket, slot);
    device.await_on(device.communication, slots_[slot].summed);
    return memory.gradient_slot(slot);
  }
  /// Keeps the part of rank @p rank of what lend() has given.
  void take_back(Device& device, Memory const& memory, int bucket, int rank) {
    std::span<P> const part = own(memory, bucket);
    auto const count = static_cast<std::int64_t>(part.size());
    Verbs<Backend>::copy(device, memory.gradient_slot(slot_with(bucket)) + rank * count,
                         part.data(), count);
  }

 private:
  struct Slot {
    typename Device::Mark summed;
    int bucket = -1;    // whose sum has begun and is not yet taken
    int rank = 0;       // of its replicas
    bool adds = false;  // it is to be added to the rank's part
    int whole = -1;     // the bucket whose sum was gathered there
  };

  [[nodiscard]] Slot& slot_of(int bucket) { return slots_[bucket & 1]; }
  [[nodiscard]] int slot_with(int bucket) const {
    return slots_[0].whole == bucket ? 0 : slots_[1].whole == bucket ? 1 : -1;
  }

  [[nodiscard]] std::span<P> made(Memory const& memory, int bucket) const {
    return {memory.made_gradients(bucket),
            static_cast<std::size_t>(bucket_range(layout_, bucket).count())};
  }
  // The rank's part of the array of gradients.
  [[nodiscard]] std::span<P> own(Memory const& memory, int bucket) const {
    return {memory.gradients() + layout_.bucket_begin[bucket] / shares_,
            static_cast<std::size_t>(bucket_range(layout_, bucket).count() / shares_)};
  }
  // Where a sum goes: there, or to be added there, within its slot.
  [[nodiscard]] std::span<P> target(Memory const& memory, Slot const& slot) const {
    std::span<P> const part = own(memory, slot.bucket);
    return slot.adds ? made(memory, slot.bucket)
                           .subspan(static_cast<std::size_t>(slot.rank) * part.size(), part.size())
                     : part;
  }

  void take(Device& device, Memory const& memory, Slot& slot) {
    device.await_on(device.communication, slot.summed);
    if (slot.adds) {
      std::span<P> const part = own(memory, slot.bucket);
      Verbs<Backend>::add(device, target(memory, slot).data(), part.data(),
                          static_cast<std::int64_t>(part.size()));
    }
    slot.bucket = -1;
  }

  // The slot has been another bucket's: what no parameter has is 0 again.
  void open(Device& device, Memory const& memory, int bucket) {
    Slot& slot = slot_of(bucket);
    if (slot.bucket >= 0) {
      take(device, memory, slot);
    }
    slots_[0].whole = slots_[1].whole = -1;
    for (ElementRange const& gap : gaps_) {
      if (bucket_range(layout_, bucket).has(gap.begin)) {
        Verbs<Backend>::zero(
            device, memory.made_gradients(bucket) + gap.begin - layout_.bucket_begin[bucket],
            gap.count());
      }
    }
  }

  void gather(Device& device, Communicator& group, Memory const& memory, int bucket, int slot) {
    Label const label{"gradients", bucket};
    slots_[1 - slot].whole = slots_[1 - slot].whole == bucket ? -1 : slots_[1 - slot].whole;
    slots_[slot].whole = bucket;
    detail::queue_collective(device, tracer_, label, slots_[slot].summed, [&] {
      group.all_gather(std::span<P const>{own(memory, bucket)},
                       std::span<P>{memory.gradient_slot(slot), made(memory, bucket).size()},
                       device.communication, label);
    });
  }

  LayoutView layout_;
  int shares_;
  Adds adds_;
  Tracer<Device>& tracer_;
  Slot slots_[2];
  std::vector<ElementRange> gaps_;  // between parameters, in the array of them
};

}  // namespace tandem
