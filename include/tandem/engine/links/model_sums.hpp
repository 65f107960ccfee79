// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sums of the weights of two models, stage by stage: over the pair of ranks that have a stage's
/// two copies, or on the device in the middle, which has both.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// A flat array of a model, in the order of the device's layout, and where its sum with the other
/// model's goes: the same, or memory of its own.
template <class P>
struct ModelArray {
  P* own = nullptr;
  P* sum = nullptr;
};

namespace detail {

/// Where the trained parameters of a local stage are.
template <class Program>
ElementRange stage_range(int stage) {
  return trained_range(Program::layout, Program::stages.stage[stage].id);
}

}  // namespace detail

/// Comm: an all-reduce of a stage's parameters over two ranks, each way as many bytes as these, on
///       the communication stream.
template <class Program, class Backend, class Communicator>
class PairSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Arrays = std::vector<ModelArray<P>>;

  using Groups = RankGroups<typename Program::Program>;

  /// @param connect  connect(group): the rank's end of one of @p groups
  /// @param tracer   outlives this
  template <class Connect>
  PairSums(Device& device, Groups const& groups, int rank, Connect const& connect,
           Tracer<Device>& tracer)
      : pair_{connect(groups.of_pair(rank))}, tracer_{&tracer} {
    for (int stage = 0; stage < Program::stages.count; ++stage) {
      marks_.push_back(device.make_mark());
    }
  }

  /// What has been computed so far of a local stage is summed over its two copies.
  void begin(Device& device, Arrays const& arrays, int stage) {
    ElementRange const own = detail::stage_range<Program>(stage);
    device.begin_on(device.communication);
    for (ModelArray<P> const& array : arrays) {
      add(device, array.own + own.begin, array.sum + own.begin, own.count());
    }
    device.mark_on(device.communication, mark(stage));
  }

  /// What is computed from now on reads the sum.
  void await(Device& device, int stage) { device.await_on(device.communication, mark(stage)); }

  /// In place of a stage's weights, which array.sum has kept: the sum of those copies that count.
  /// @param counts  whether this one does
  void replace(Device& device, ModelArray<P> const& array, int stage, bool counts, bool /*both*/) {
    ElementRange const own = detail::stage_range<Program>(stage);
    P* const weights = array.own + own.begin;
    if (!counts) {
      Verbs<Backend>::zero(device, weights, own.count());
    }
    device.begin_on(device.communication);
    add(device, weights, weights, own.count());
    device.mark_on(device.communication, mark(stage));
    await(device, stage);
  }

 private:
  using Mark = typename Device::Mark;
  [[nodiscard]] Mark& mark(int stage) { return marks_[static_cast<std::size_t>(stage)]; }

  void add(Device& device, P const* in, P* out, std::int64_t count) {
    auto const size = static_cast<std::size_t>(count);
    tracer_->collective(device, {"average"}, [&] {
      pair_.all_reduce(std::span<P const>{in, size}, std::span<P>{out, size}, Sum{},
                       device.communication, {"average"});
    });
  }

  Communicator pair_;  // with the device that has the other copies
  Tracer<Device>* tracer_;
  std::vector<Mark> marks_;  // of each local stage
};

/// The same on a device that has both copies of its part, stages 0 and 1: nothing is sent.
template <class Program, class Backend>
class TwinSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Arrays = std::vector<ModelArray<P>>;

  template <class Groups, class Connect>
  TwinSums(Device& /*device*/, Groups const& /*groups*/, int /*rank*/, Connect const& /*connect*/,
           Tracer<Device>& /*tracer*/) {}

  /// Sums once both stages have begun, in the place of each.
  void begin(Device& device, Arrays const& arrays, int /*stage*/) {
    begun_ = (begun_ + 1) % 2;
    if (begun_ != 0) {
      return;
    }
    ElementRange const first = detail::stage_range<Program>(0);
    ElementRange const second = detail::stage_range<Program>(1);
    for (ModelArray<P> const& array : arrays) {
      P* const sum = array.sum + first.begin;
      if (array.sum != array.own) {
        Verbs<Backend>::copy(device, array.own + first.begin, sum, first.count());
      }
      Verbs<Backend>::add(device, static_cast<P const*>(array.own + second.begin), sum,
                          first.count());
      Verbs<Backend>::copy(device, sum, array.sum + second.begin, second.count());
    }
  }
  void await(Device& /*device*/, int /*stage*/) {}

  /// @param both  whether the other copy counts, too
  void replace(Device& device, ModelArray<P> const& array, int stage, bool counts, bool both) {
    ElementRange const own = detail::stage_range<Program>(stage);
    ElementRange const other = detail::stage_range<Program>(1 - stage);
    P* const weights = array.own + own.begin;
    if (!counts || both) {
      Verbs<Backend>::copy(device, array.sum + other.begin, weights, own.count());
    }
    if (both) {
      Verbs<Backend>::add(device, static_cast<P const*>(array.sum + own.begin), weights,
                          own.count());
    }
  }

 private:
  int begun_ = 0;  // stages, of two
};

}  // namespace tandem
