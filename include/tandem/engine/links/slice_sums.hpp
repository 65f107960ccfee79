// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SliceSums: what the ranks that have the slices of one model's layers add up, in a pass.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/graph/columns.hpp>

namespace tandem {

/// The rank's end of the group of its slices, on the communication stream. The group adds in the
/// order of the slices, so that all ranks have the same bits, and each run the same.
template <class Backend, class Communicator>
class SliceSums {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  /// @param tracer   outlives this
  template <class Connect>
  TANDEM_COLD SliceSums(Device& device, Connect const& connect, int group, Tracer<Device>& tracer)
      : group_{connect(group)}, tracer_{tracer}, mark_{device.make_mark()} {}

  /// The rank's.
  [[nodiscard]] Slice slice() { return {group_.rank(), group_.size()}; }

  /// Where the rank writes what all of them make: @p place, the caller's, or no such place.
  float* scores(float* place, std::int64_t count) {
    if (group_.rank() == 0) {
      return place;
    }
    unread_.resize(static_cast<std::size_t>(count));
    return unread_.data();
  }

  /// What is computed from now on reads the sums of @p count elements over the slices; all of them
  /// call it.
  void add(Device& device, T* data, std::int64_t count, Label label) {
    if (count > 0) {
      std::span<T> const all{data, static_cast<std::size_t>(count)};
      queue(device, label,
            [&] { group_.all_reduce(all, all, Sum{}, device.communication, label); });
    }
  }

  /// What is computed from now on reads in @p data the numbers of all slices, each of which has
  /// written its own, as many; all of them call it.
  void bring_together(Device& device, std::span<double> data, Label label) {
    std::size_t const each = data.size() / static_cast<std::size_t>(group_.size());
    if (each > 0) {
      std::span<double const> const own =
          data.subspan(each * static_cast<std::size_t>(group_.rank()), each);
      queue(device, label, [&] { group_.all_gather(own, data, device.communication, label); });
    }
  }

  /// The arrays of all slices, one behind the other, each as long as @p own; all of them call it.
  TANDEM_COLD void gather(Device& device, std::span<P const> own, std::span<P> all, Label label) {
    if (!own.empty()) {
      queue(device, label, [&] { group_.all_gather(own, all, device.communication, label); });
    }
  }

 private:
  template <class F>
  void queue(Device& device, Label label, F const& f) {
    detail::queue_collective(device, tracer_, label, mark_, f);
    device.await_on(device.communication, mark_);
  }

  Communicator group_;
  Tracer<Device>& tracer_;
  typename Device::Mark mark_;
  std::vector<float> unread_;
};

/// SliceSums where each rank has whole layers.
struct NoSliceSums {
  template <class... Arguments>
  explicit NoSliceSums(Arguments const&... /*arguments*/) {}
  [[nodiscard]] static constexpr Slice slice() { return {}; }
};

}  // namespace tandem
