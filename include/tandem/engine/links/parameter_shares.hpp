// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterShares: which part of each bucket a rank updates, and how the others get it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Each replica updates all parameters, and nothing is gathered.
struct NoParameterShares {
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

  /// @param groups, tracer  outlive this
  TANDEM_COLD ParameterShares(Device& device, Groups& groups, Tracer<Device>& tracer)
      : groups_{groups}, tracer_{tracer} {
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      marks_.push_back(device.make_mark());
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

  /// What is computed from now on reads all parameters, each as the rank that owns it has it.
  /// Comm: an all-gather of each bucket.
  template <class Memory>
  void gather(Device& device, Memory const& memory) {
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      begin(device, memory.parameters(), bucket, {"parameters", bucket});
    }
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      device.await_on(device.communication, mark(bucket));
    }
  }

  /// An array of the device's trained parameters, of which this rank has its own part only:
  /// becomes whole.
  void gather_array(Device& device, P* array, Label label) {
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      begin(device, array, bucket, label);
      device.await_on(device.communication, mark(bucket));
    }
  }

  /// Copies all trained parameters, to be given back: without the other ranks, of whom one may
  /// fail meanwhile.
  template <class Memory>
  TANDEM_COLD void keep(Device& device, Memory const& memory) {
    kept_ = Buffer{device, static_cast<std::size_t>(layout.trained) * sizeof(P)};
    Verbs<Backend>::copy(device, memory.parameters(), kept_.template as<P>(), layout.trained);
  }
  template <class Memory>
  TANDEM_COLD void give_back(Device& device, Memory const& memory) {
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
  using Buffer = typename Backend::Buffer;

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
  std::vector<Mark> marks_;  // of each bucket
  Buffer kept_{};
};

}  // namespace tandem
