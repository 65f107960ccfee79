// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterShares: which part of each bucket a rank updates, and how and when the others get it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/memory/mirror.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// Each replica updates all parameters, and nothing is gathered.
struct NoParameterShares {
  static constexpr bool comes_late = false;
  template <class Device, class Groups, class Tracer>
  NoParameterShares(Device& /*device*/, Groups& /*groups*/, Tracer& /*tracer*/) {}
  [[nodiscard]] static std::vector<OwnedRange> owned() { return {}; }
  template <class Device, class Memory>
  void gather(Device& /*device*/, Memory const& /*memory*/) {}
  template <class Device, class Memory>
  void keep(Device& /*device*/, Memory const& /*memory*/) {}
  template <class Device, class Memory>
  void give_back(Device& /*device*/, Memory const& /*memory*/) {}
  static void forget() {}
  template <class Device>
  static void arrive(Device& /*device*/) {}
  [[nodiscard]] static bool arrived() { return true; }
};

/// Of each bucket, in equal parts by the ranks of its stage's replicas: what ShardedState asks for.
/// @tparam Groups  GradientReduction, which has the groups of replicas
template <class Program, class Backend, class Groups>
class ParameterShares {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  static constexpr auto const& layout = Program::layout;
  static constexpr int shares = Program::state_shares;
  /// Whether what gather() began is awaited bucket by bucket, by whoever reads it first: mostly the
  /// next step's forward passes. Not on devices whose steps are recorded, which end whole.
  static constexpr bool comes_late =
      ParameterMirror<Program, Backend>::is_memory && !Program::sharded_parameters;

  /// @param groups, tracer  outlive this
  TANDEM_COLD ParameterShares(Device& device, Groups& groups, Tracer<Device>& tracer)
      : groups_{groups}, tracer_{tracer}, comes_(static_cast<std::size_t>(layout.buckets), false) {
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      marks_.push_back(device.make_mark());
    }
    for (int n = 0; n < Program::graph.nodes; ++n) {
      Node const& node = Program::graph.node[n];
      bool const trains = node.parameters > 0 && !node.frozen;
      bucket_of_.push_back(trains ? bucket_of(layout, layout.offset[node.first_parameter]) : none);
    }
  }

  /// This rank's part of bucket @p bucket.
  [[nodiscard]] ElementRange own(int bucket) const {
    return bucket_share(layout, bucket, group(bucket).rank(), shares);
  }
  /// Its parts of all buckets, and where their states stand.
  [[nodiscard]] TANDEM_COLD std::vector<OwnedRange> owned() const {
    std::vector<OwnedRange> list;
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      ElementRange const range = own(bucket);
      list.push_back({range, range.begin - layout.bucket_begin[bucket] / shares});
    }
    return list;
  }

  /// Brings all parameters, each as the rank that owns it has it, in the order in which a forward
  /// pass reads them. They have come behind arrive(), those of a node behind use(), and where
  /// nothing comes late at once. Comm: an all-gather of each bucket.
  template <class Memory>
  void gather(Device& device, Memory const& memory) {
    arrive(device);
    for (int bucket = layout.buckets - 1; bucket >= 0; --bucket) {
      begin(device, memory.parameters(), bucket, {"parameters", bucket});
      comes_[static_cast<std::size_t>(bucket)] = true;
    }
    coming_ = layout.buckets;
    if constexpr (!comes_late) {
      arrive(device);
    }
  }
  /// What is computed from now on reads and writes all parameters.
  void arrive(Device& device) {
    for (int bucket = layout.buckets - 1; bucket >= 0 && coming_ > 0; --bucket) {
      arrive(device, bucket);
    }
  }
  [[nodiscard]] bool arrived() const { return coming_ == 0; }

  /// What is computed from now on reads the parameters of node @p n, and those of the one whose
  /// bias it absorbs.
  template <class Memory>
  void use(Device& device, Memory const& /*memory*/, int n, PassDirection /*direction*/) {
    if (coming_ == 0) {
      return;
    }
    arrive(device, bucket_of_[static_cast<std::size_t>(n)]);
    if (int const absorbed = Program::graph.node[n].absorbs; absorbed >= 0) {
      arrive(device, bucket_of_[static_cast<std::size_t>(absorbed)]);
    }
  }

  /// An array of the device's trained parameters, of which this rank has its own part only:
  /// becomes whole.
  void gather_array(Device& device, P* array, Label label) {
    arrive(device);
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      begin(device, array, bucket, label);
      device.await_on(device.communication, mark(bucket));
    }
  }

  /// Copies all trained parameters, to be given back: without the other ranks, of whom one may
  /// fail meanwhile.
  template <class Memory>
  TANDEM_COLD void keep(Device& device, Memory const& memory) {
    arrive(device);
    kept_ = Buffer{device, static_cast<std::size_t>(layout.trained) * sizeof(P)};
    Verbs<Backend>::copy(device, memory.parameters(), kept_.template as<P>(), layout.trained);
  }
  template <class Memory>
  TANDEM_COLD void give_back(Device& device, Memory const& memory) {
    arrive(device);
    Verbs<Backend>::copy(device, kept_.template as<P>(), memory.parameters(), layout.trained);
    kept_ = Buffer{device, 0};
  }
  /// After parameters were written.
  static void forget() {}

 protected:
  using Mark = typename Device::Mark;
  [[nodiscard]] Mark& mark(int bucket) { return marks_[static_cast<std::size_t>(bucket)]; }
  [[nodiscard]] auto& group(int bucket) const {
    return groups_.communicator(local_stage(Program::stages, layout.bucket_stage[bucket]));
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
    ElementRange const range = bucket_range(layout, bucket);
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
  Groups& groups_;
  Tracer<Device>& tracer_;

 private:
  std::vector<int> bucket_of_{};  // of each node: that of its parameters
  std::vector<bool> comes_;       // the bucket is on its way
  int coming_ = 0;                // such buckets
  std::vector<Mark> marks_;       // of each bucket
  Buffer kept_{};
};

}  // namespace tandem
