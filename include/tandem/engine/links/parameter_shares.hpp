// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterShares: which part of each bucket a rank updates, and how and when the others get it.
/// ParameterSlots: the same where each rank keeps its part alone.

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
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// Of each bucket, in equal parts by the ranks of its stage's replicas: what ShardedState asks for.
/// @tparam Groups  GradientReduction, which has the groups of replicas
template <class Backend, class Groups>
class ParameterShares {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Memory = ParameterMemory<Backend>;
  /// Whether what gather() began is awaited bucket by bucket, by whoever reads it first: mostly the
  /// next step's forward passes. Not on devices whose steps are recorded, which end whole.
  static constexpr bool comes_late = ParameterMirror<Backend>::is_memory;

  ParameterShares(ParameterShares const&) = delete;
  ParameterShares& operator=(ParameterShares const&) = delete;
  virtual ~ParameterShares() = default;

  /// @param tables, groups, tracer  outlive this
  TANDEM_COLD ParameterShares(DeviceTables const& tables, Device& device, Groups& groups,
                              Tracer<Device>& tracer)
      : tables_{tables},
        layout_{tables.layout},
        groups_{groups},
        tracer_{tracer},
        comes_(static_cast<std::size_t>(layout_.buckets), false) {
    for (int bucket = 0; bucket < layout_.buckets; ++bucket) {
      marks_.push_back(device.make_mark());
    }
    for (int n = 0; n < tables.graph.nodes; ++n) {
      Node const& node = tables.graph.node[n];
      bucket_of_.push_back(
          node.parameters > 0 ? bucket_of(layout_, layout_.offset[node.first_parameter]) : none);
    }
  }

  /// This rank's part of bucket @p bucket.
  [[nodiscard]] ElementRange own(int bucket) const {
    return bucket_share(layout_, bucket, group(bucket).rank(), tables_.state_shares);
  }
  /// Its parts of all buckets, and where their states stand.
  [[nodiscard]] TANDEM_COLD std::vector<OwnedRange> owned() const {
    std::vector<OwnedRange> list;
    for (int bucket = 0; bucket < layout_.buckets; ++bucket) {
      ElementRange const range = own(bucket);
      list.push_back({range, range.begin - layout_.bucket_begin[bucket] / tables_.state_shares});
    }
    return list;
  }

  /// Brings all parameters, each as the rank that owns it has it, in the order in which a forward
  /// pass reads them. They have come behind arrive(), those of a node behind use(), and where
  /// nothing comes late at once. Comm: an all-gather of each bucket.
  virtual void gather(Device& device, Memory const& memory) {
    arrive(device);
    for (int bucket = layout_.buckets - 1; bucket >= 0; --bucket) {
      begin(device, memory.parameters(), bucket, {"parameters", bucket});
      comes_[static_cast<std::size_t>(bucket)] = true;
    }
    coming_ = layout_.buckets;
    if constexpr (!comes_late) {
      arrive(device);
    }
  }
  /// What is computed from now on reads and writes all parameters.
  void arrive(Device& device) {
    for (int bucket = layout_.buckets - 1; bucket >= 0 && coming_ > 0; --bucket) {
      arrive(device, bucket);
    }
  }
  [[nodiscard]] bool arrived() const { return coming_ == 0; }

  /// What is computed from now on reads the parameters of node @p n, and those of the one whose
  /// bias it absorbs.
  virtual void use(Device& device, Memory const& /*memory*/, int n, PassDirection /*direction*/) {
    if (coming_ == 0) {
      return;
    }
    arrive(device, bucket_of_[static_cast<std::size_t>(n)]);
    if (int const absorbed = tables_.graph.node[n].fusion.absorbs; absorbed >= 0) {
      arrive(device, bucket_of_[static_cast<std::size_t>(absorbed)]);
    }
  }

  /// An array of the device's trained parameters, of which this rank has its own part only:
  /// becomes whole.
  void gather_array(Device& device, P* array, Label label) {
    arrive(device);
    for (int bucket = 0; bucket < layout_.buckets; ++bucket) {
      begin(device, array, bucket, label);
      device.await_on(device.communication, mark(bucket));
    }
  }

  /// Copies all trained parameters, to be given back: without the other ranks, of whom one may
  /// fail meanwhile.
  TANDEM_COLD virtual void keep(Device& device, Memory const& memory) {
    arrive(device);
    kept_ = Buffer{device, static_cast<std::size_t>(layout_.trained) * sizeof(P)};
    Verbs<Backend>::copy(device, memory.parameters(), kept_.template as<P>(), layout_.trained);
  }
  TANDEM_COLD virtual void give_back(Device& device, Memory const& memory) {
    arrive(device);
    Verbs<Backend>::copy(device, kept_.template as<P>(), memory.parameters(), layout_.trained);
    kept_ = Buffer{device, 0};
  }
  /// After parameters were written.
  virtual void forget() {}
  /// Before a pass of a stage.
  virtual void begin_pass() {}

 protected:
  using Mark = typename Device::Mark;
  [[nodiscard]] Mark& mark(int bucket) { return marks_[static_cast<std::size_t>(bucket)]; }
  [[nodiscard]] auto& group(int bucket) const {
    return groups_.communicator(local_stage(tables_.stages, layout_.bucket_stage[bucket]));
  }

 private:
  static constexpr int none = -1;
  using Buffer = typename Backend::Buffer;

  void arrive(Device& device, int bucket) {
    if (bucket != none && comes_[static_cast<std::size_t>(bucket)]) {
      device.await_on(device.communication, mark(bucket));
      comes_[static_cast<std::size_t>(bucket)] = false;
      --coming_;
    }
  }

  void begin(Device& device, P* array, int bucket, Label label) {
    ElementRange const range = bucket_range(layout_, bucket);
    if (range.count() == 0) {
      return;
    }
    ElementRange const part = own(bucket);
    detail::queue_collective(device, tracer_, label, mark(bucket), [&] {
      group(bucket).all_gather(
          std::span<P const>{array + part.begin, static_cast<std::size_t>(part.count())},
          std::span<P>{array + range.begin, static_cast<std::size_t>(range.count())},
          device.communication, label);
    });
  }

 protected:
  DeviceTables const& tables_;
  LayoutView layout_;
  Groups& groups_;
  Tracer<Device>& tracer_;

 private:
  std::vector<int> bucket_of_{};  // of each node: that of its parameters
  std::vector<bool> comes_;       // the bucket is on its way
  int coming_ = 0;                // such buckets
  std::vector<Mark> marks_;       // of each bucket
  Buffer kept_{};
};

/// As ParameterShares, with a rank's own part of the parameters where that has all. The replicas of
/// a stage go through its buckets in one order, without samples, too.
template <class Backend, class Groups>
class ParameterSlots final : public ParameterShares<Backend, Groups> {
  using Base = ParameterShares<Backend, Groups>;

 public:
  using typename Base::Device;
  using typename Base::Memory;
  using typename Base::P;

  TANDEM_COLD ParameterSlots(DeviceTables const& tables, Device& device, Groups& groups,
                             Tracer<Device>& tracer)
      : Base{tables, device, groups, tracer},
        turns_{tables.graph, tables.layout, tables.segments},
        gathered_{device.make_mark(), device.make_mark()} {}

  void begin_pass() override { turns_.begin_pass(); }

  /// What is computed from now on reads the parameters of node @p n, in products rounded where
  /// these read them so.
  void use(Device& device, Memory const& memory, int n, PassDirection direction) override {
    turns_.use(
        n, direction, [&](int bucket) { fetch(device, memory, bucket); },
        [&](int bucket) { device.await_on(device.communication, gathered_[bucket & 1]); });
  }

  /// The rank's part has changed, or a step begins: what it queues is the same each time, since it
  /// may be recorded.
  void forget() override { turns_.forget(); }
  void gather(Device& /*device*/, Memory const& /*memory*/) override { forget(); }
  void keep(Device& /*device*/, Memory const& /*memory*/) override {}
  void give_back(Device& /*device*/, Memory const& /*memory*/) override { forget(); }

 private:
  void fetch(Device& device, Memory const& memory, int bucket) {
    std::int64_t const count = this->tables_.bucket(bucket).count();
    int const shares = this->tables_.state_shares;
    Label const label{"parameters", bucket};
    detail::queue_collective(device, this->tracer_, label, gathered_[bucket & 1], [&] {
      P const* const own = memory.parameters() + this->layout_.bucket_begin[bucket] / shares;
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
