// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GradientReduction: the gradients of a rank on their way from its microbatches to the sum over
/// all replicas.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/links/no_part.hpp>
#include <tandem/engine/links/scattered_buckets.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Has the rank's end of the group of all ranks, for the losses, and of the replicas of each of its
/// stages. Buckets are reduced in the order in which backward closes them, on the communication
/// stream, while it goes on. Where a stage's copies are on devices with different rows, that must
/// be from the last part of the model to the first, or else they are reduced in this order when all
/// are whole, so that no two ranks wait for each other. Of two copies on one device the first has
/// the sum.
template <class Backend, class CommunicatorType, RankWay Way>
class GradientReduction {
 public:
  using Communicator = CommunicatorType;
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Mark = typename Device::Mark;
  using Memory = ParameterMemory<Backend>;
  static constexpr bool can_sum =
      Way.in_order || Way.wire != WireFormat::exact || AllReduces<Communicator, P, Sum>;
  static constexpr bool can_share =
      Way.shares && ReduceScatters<Communicator, P, Sum> && AllGathers<Communicator, P>;
  using Sums = std::conditional_t<can_sum, BucketSums<Backend, Communicator, Way>, NoPart>;
  using Scattered =
      std::conditional_t<can_share, ScatteredBuckets<Backend, Communicator, Way>, NoPart>;
  using RowGradientSums = std::conditional_t<HasRowVerbs<Backend>, RowSums<Backend>, NoPart>;

  /// @param tables  outlive this
  /// @param all     the group of all ranks
  /// @param stages  of each local stage: the group of its replicas
  /// @param plan    microbatches, leaves, and the order in which the stages end
  /// @param tracer  outlives this
  TANDEM_COLD GradientReduction(DeviceTables const& tables, Device& device, Communicator all,
                                std::vector<Communicator> stages, RankPlan const& plan,
                                Tracer<Device>& tracer)
      : tables_{tables},
        communicator_{std::move(all)},
        stages_{std::move(stages)},
        has_twins_{tables.has_twins && !tables.averaging.keeps_two()},
        overlaps_{tables.map.copies == 1 || (plan.reduces_early && !has_twins_)},
        leaves_{plan.batching.leaves_of_copy(tables.map.copies)},
        tracer_{&tracer},
        summed_{device.make_mark()},
        synchronized_{device.make_mark()},
        alone_{tables.any_replicas &&
               (has_twins_ ? plan.batching.replicas
                           : tables.gradient_replicas(plan.batching.replicas)) == 1},
        sums_{make_part<Sums>(sums_over_devices(tables) && !tables.sharded_gradients, layout(),
                              device, tables.gradient_replicas(plan.batching.replicas))},
        scattered_{make_part<Scattered>(tables.sharded_gradients, tables, device, tracer)},
        rows_{tables, device, tables.gradient_replicas(plan.batching.replicas)} {}

  /// Of ranks that each update a part: whether in the step to come all of them want the whole sum,
  /// for its norm.
  void begin_step(bool norm) { sums_whole_ = norm; }

  /// Gradients of stage @p stage may be written from now on, from its first bucket to its last.
  void open(Device& device, Memory const& memory, int stage) {
    if (scattered_) {
      scattered_->open_stage(device, memory, stage);
    }
  }

  /// The gradients of @p bucket are whole for @p leaf of the stage's copy: they join the tree, and
  /// at the end of the last leaf their reduction over the replicas begins; of each leaf where a
  /// rank keeps its part alone.
  TANDEM_NOINLINE void leaf_ready(Device& device, Memory const& memory, int bucket, int leaf) {
    if (scattered_) {
      scattered_->begin(device, group(bucket), memory, bucket, leaf);
    } else {
      if (memory.waiting_leaves() > 0) {
        join_tree(device, memory, leaf, tables_.bucket(bucket));
        rows_.join_tree(device, memory.rows(), bucket, leaf, leaves_);
      }
      if (overlaps_ && leaf == leaves_ - 1) {
        begin(device, memory, bucket);
      }
    }
  }

  /// What is computed from now on reads the sum of @p bucket over all replicas.
  TANDEM_NOINLINE void await(Device& device, Memory const& memory, int bucket) {
    if (scattered_) {
      scattered_->await(device, memory, bucket);
    }
    if (!overlaps_ && bucket == 0) {
      begin_in_order(device, memory);
    }
    if (!is_second(bucket)) {  // which gets its sum from the first
      if (!alone_ && sums_ && tables_.bucket(bucket).count() > 0) {
        sums_->await(device, memory.gradients(), bucket, summed(bucket));
      }
      if (!alone_) {
        rows_.await(device, memory.rows(), bucket);
      }
      share_with_twin(device, memory.gradients(), bucket);
    }
  }

  /// The gradients of @p bucket are 0.
  void clear(Device& device, Memory const& memory, int bucket) {
    Verbs<Backend>::zero(device, memory.made_gradients(bucket), tables_.bucket(bucket).count());
    rows_.clear(device, memory.rows(), bucket);
  }

  /// Where a rank keeps its part of the sums alone: f(elements, their sums) of each bucket, whole
  /// for so long. All replicas call it. @pre all buckets were awaited
  template <class F>
  void each_whole(Device& device, Memory const& memory, F const& f) {
    if constexpr (can_share) {
      scattered_->each_whole(
          device, memory, [this](int bucket) -> Communicator& { return group(bucket); }, f);
    }
  }

  /// Where the sum of the gradient of @p element is, with those behind it in its bucket. Where a
  /// rank keeps its part alone, the bucket is gathered in slot @p slot, unless that or slot 0 has
  /// it; until the next one there. All replicas call it. @pre all buckets were awaited
  P* lend(Device& device, Memory const& memory, std::int64_t element, int slot) {
    if constexpr (can_share) {
      if (scattered_) {
        int const bucket = bucket_of(layout(), element);
        return scattered_->lend(device, group(bucket), memory, bucket, slot) + element -
               layout().bucket_begin[bucket];
      }
    }
    return memory.gradients() + element;
  }
  /// The rank's part of what was changed there.
  void take_back(Device& device, Memory const& memory, std::int64_t element) {
    if (scattered_) {
      int const bucket = bucket_of(layout(), element);
      scattered_->take_back(device, memory, bucket, group(bucket).rank());
    }
  }

  /// Sums over all ranks: whole numbers, or what one rank has and all others have as 0.
  TANDEM_NOINLINE void reduce_sums(Device& device, std::span<double> sums,
                                   Label label = {"losses"}) {
    add(device, communicator_, sums, label, summed_);
  }
  /// Queues @p pass, which await_sums() awaits. @param pass  RankEnds::PassOn
  template <class PassOn>
  TANDEM_NOINLINE void pass_on(Device& device, std::span<double> data, int from,
                               std::span<int const> to, PassOn pass) {
    Label const label{"tensors"};
    detail::queue_collective(device, *tracer_, label, summed_, [&] {
      pass(communicator_, data, from, to, device.communication, label);
    });
  }
  void await_sums(Device& device) { device.await_on(device.communication, summed_); }

  /// What is computed from now on reads in @p sums the sums over the replicas of a local stage.
  TANDEM_NOINLINE void synchronize(Device& device, std::span<double> sums, int stage) {
    if (alone_) {
      return;
    }
    add(device, communicator(stage), sums, {"statistics"}, synchronized_);
    device.await_on(device.communication, synchronized_);
  }

  [[nodiscard]] Communicator& communicator() { return communicator_; }
  /// The group of the replicas of local stage @p stage.
  [[nodiscard]] Communicator& communicator(int stage) {
    return stages_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t wire_bytes() const {
    return sums_ ? static_cast<std::int64_t>(sums_->bytes()) : 0;
  }

 private:
  [[nodiscard]] LayoutView const& layout() const { return tables_.layout; }

  // What of @p bucket is to be the sum here: where each replica updates a part, that, unless all
  // of them need more.
  [[nodiscard]] ElementRange summed(int bucket) {
    if (tables_.state_shares > 1 && !sums_whole_ && !tables_.shares_bucket(bucket)) {
      return bucket_share(layout(), bucket, group(bucket).rank(), tables_.state_shares);
    }
    return tables_.bucket(bucket);
  }

  // Where the device has both copies of its part of the model, and their gradients are summed, the
  // first copy's buckets take the sum, before what other devices add to it.
  [[nodiscard]] bool is_second(int bucket) const {
    return has_twins_ && layout().bucket_stage[bucket] >= tables_.map.parts();
  }
  void join_twin(Device& device, P* gradients, int first) const {
    if (has_twins_) {
      ElementRange const second = tables_.bucket(tables_.twin_buckets[first]);
      Verbs<Backend>::add(device, gradients + second.begin, gradients + tables_.bucket(first).begin,
                          second.count());
    }
  }
  void share_with_twin(Device& device, P* gradients, int first) const {
    if (has_twins_) {
      ElementRange const second = tables_.bucket(tables_.twin_buckets[first]);
      Verbs<Backend>::copy(device, gradients + tables_.bucket(first).begin,
                           gradients + second.begin, second.count());
    }
  }

  // Where the device has both copies of a part, what it trains of them together has one replica.
  static bool sums_over_devices(DeviceTables const& tables) {
    bool const twins = tables.has_twins && !tables.averaging.keeps_two();
    return twins ? tables.several_replicas : tables.sums_gradients;
  }

  // Of the replicas of a bucket.
  [[nodiscard]] Communicator& group(int bucket) {
    return communicator(local_stage(tables_.stages, layout().bucket_stage[bucket]));
  }

  void begin(Device& device, Memory const& memory, int bucket) {
    if (alone_) {
      return;
    }
    Communicator& replicas = group(bucket);
    if (sums_ && tables_.bucket(bucket).count() > 0) {
      sums_->begin(device, replicas, memory.gradients(), bucket, summed(bucket), *tracer_);
    }
    rows_.begin(device, replicas, memory.rows(), bucket, *tracer_);
  }

  // All buckets, from the last part of the model to the first.
  void begin_in_order(Device& device, Memory const& memory) {
    for (int part = tables_.map.parts() - 1; part >= 0; --part) {
      for (int b = 0; b < layout().buckets; ++b) {
        if (layout().bucket_stage[b] % tables_.map.parts() == part && !is_second(b)) {
          join_twin(device, memory.gradients(), b);
          begin(device, memory, b);
        }
      }
    }
  }

  // No order of such sums rounds.
  void add(Device& device, Communicator& group, std::span<double> data, Label label, Mark& mark) {
    detail::queue_collective(device, *tracer_, label, mark, [&] {
      group.all_reduce(data, data, Sum{}, device.communication, label);
    });
  }

  // A binary counter: leaf k joins as many waiting sums as k has trailing ones.
  void join_tree(Device& device, Memory const& memory, int index, ElementRange range) {
    P* const sum = memory.gradients() + range.begin;
    int level = 0;
    for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
      Verbs<Backend>::add(device, memory.gradients(1 + level) + range.begin, sum, range.count());
    }
    if (index != leaves_ - 1) {
      Verbs<Backend>::copy(device, sum, memory.gradients(1 + level) + range.begin, range.count());
    }
  }

  DeviceTables const& tables_;
  Communicator communicator_;
  std::vector<Communicator> stages_;
  bool has_twins_;  // whose gradients are summed
  bool overlaps_;
  int leaves_;               // of a stage's copy
  bool sums_whole_ = false;  // each bucket, on each rank that updates a part
  Tracer<Device>* tracer_;
  Mark summed_;  // losses, votes and norms
  Mark synchronized_;
  bool alone_;                     // of any number of replicas there is one, whose sums are there
  RankPart<Sums> sums_;            // over other devices
  RankPart<Scattered> scattered_;  // where a rank keeps its part of the sums alone
  RowGradientSums rows_;
};

}  // namespace tandem
