// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ModelExchange: how the ranks that have the same parts of two models average them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// A flat array of a model, in the order of the device's layout, and where its sum with the other
/// model's goes: the same, or memory of its own.
template <class P>
struct ModelArray {
  P* own = nullptr;
  P* sum = nullptr;
};

/// How the two copies of a stage's weights are added up.
template <class Backend>
class ModelSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Arrays = std::vector<ModelArray<P>>;

  ModelSums() = default;
  ModelSums(ModelSums const&) = delete;
  ModelSums& operator=(ModelSums const&) = delete;
  virtual ~ModelSums() = default;

  /// What has been computed so far of a local stage is summed over its two copies.
  virtual void begin(Device& device, Arrays const& arrays, int stage) = 0;
  /// What is computed from now on reads the sum.
  virtual void await(Device& device, int stage) = 0;
  /// In place of a stage's weights, which array.sum has kept: the sum of those copies that count.
  /// @param counts  whether this one does
  /// @param both    whether the other one does, too
  virtual void replace(Device& device, ModelArray<P> const& array, int stage, bool counts,
                       bool both) = 0;
};

/// On two devices.
///
/// Comm: an all-reduce of a stage's parameters over two ranks, each way as many bytes as these, on
///       the communication stream.
template <class Backend, class Communicator>
class PairSums final : public ModelSums<Backend> {
 public:
  using typename ModelSums<Backend>::Arrays;
  using typename ModelSums<Backend>::Device;
  using typename ModelSums<Backend>::P;

  /// @param ends    RankEnds
  /// @param tracer  outlives this, as @p tables do
  template <class Ends>
  PairSums(DeviceTables const& tables, Device& device, Ends const& ends, Tracer<Device>& tracer)
      : tables_{tables}, pair_{ends.connect(ends.groups.of_pair(ends.rank))}, tracer_{&tracer} {
    for (int stage = 0; stage < static_cast<int>(tables.stages.size()); ++stage) {
      marks_.push_back(device.make_mark());
    }
  }

  void begin(Device& device, Arrays const& arrays, int stage) override {
    ElementRange const own = tables_.trained(stage);
    device.begin_on(device.communication);
    for (ModelArray<P> const& array : arrays) {
      add(device, array.own + own.begin, array.sum + own.begin, own.count());
    }
    device.mark_on(device.communication, mark(stage));
  }

  void await(Device& device, int stage) override {
    device.await_on(device.communication, mark(stage));
  }
  void replace(Device& device, ModelArray<P> const& array, int stage, bool counts,
               bool /*both*/) override {
    ElementRange const own = tables_.trained(stage);
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
    Label const label{"average"};
    tracer_->collective(device, label, [&] {
      pair_.all_reduce(std::span<P const>{in, size}, std::span<P>{out, size}, Sum{},
                       device.communication, label);
    });
  }

  DeviceTables const& tables_;
  Communicator pair_;  // with the device that has the other copies
  Tracer<Device>* tracer_;
  std::vector<Mark> marks_;  // of each local stage
};

/// The same on a device that has both copies of its part, stages 0 and 1: nothing is sent.
template <class Backend>
class TwinSums final : public ModelSums<Backend> {
 public:
  using typename ModelSums<Backend>::Arrays;
  using typename ModelSums<Backend>::Device;
  using typename ModelSums<Backend>::P;

  explicit TwinSums(DeviceTables const& tables) : tables_{tables} {}

  /// Sums once both stages have begun, in the place of each.
  void begin(Device& device, Arrays const& arrays, int /*stage*/) override {
    begun_ = (begun_ + 1) % 2;
    if (begun_ != 0) {
      return;
    }
    ElementRange const first = tables_.trained(0);
    ElementRange const second = tables_.trained(1);
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
  void await(Device& /*device*/, int /*stage*/) override {}
  void replace(Device& device, ModelArray<P> const& array, int stage, bool counts,
               bool both) override {
    ElementRange const own = tables_.trained(stage);
    ElementRange const other = tables_.trained(1 - stage);
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
  DeviceTables const& tables_;
  int begun_ = 0;  // stages, of two
};

/// mean[i] = half of sum[i], unless *stopped.
template <class P>
struct TakeMean {
  P const* sum;
  P* mean;
  int const* stopped;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    if (stopped == nullptr || *stopped == 0) {
      mean[i] = sum[i] * P{0.5};
    }
  }
};

/// The weights of two models, and their optimizer states if the rule says so, are averaged stage by
/// stage. Where the two may differ between steps the sums have memory of their own.
template <class Backend>
class ModelExchange {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  /// @param memory   the rank's, which stays where it is
  /// @param states   of the optimizer
  ModelExchange(Device& device, ParameterMemory<Backend> const& memory,
                std::unique_ptr<ModelSums<Backend>> sums, int states)
      : tables_{memory.tables()}, sums_{std::move(sums)}, buffer_{device, buffer_bytes(states)} {
    for (int a = 0; a < arrays(states); ++a) {
      P* const own = a == 0 ? memory.parameters() : memory.state(a - 1);
      arrays_.push_back({own, has_buffer() ? buffer_.template as<P>() + a * trained() : own});
    }
  }

  /// What has been computed so far of a local stage is summed over its two copies.
  void begin(Device& device, int stage) { sums_->begin(device, arrays_, stage); }

  /// The same of all stages.
  void begin_all(Device& device) {
    each_stage([&](int stage) { begin(device, stage); });
  }

  /// What is computed from now on has the average, unless *stopped.
  void await(Device& device, int stage, int const* stopped) {
    sums_->await(device, stage);
    ElementRange const own = tables_.trained(stage);
    for (ModelArray<P> const& array : arrays_) {
      take_mean(device, array.sum + own.begin, array.own + own.begin, own.count(), stopped);
    }
  }

  /// Both copies of each stage get the weights of one model, or the average, for an evaluation;
  /// restore() gives them back their own, also after a stand_in() that threw. The same calls on
  /// both ranks. Nothing where the two do not differ between steps.
  void stand_in(Device& device, WhichModel which) {
    if (has_buffer()) {
      copy(device, weights().own, weights().sum);
      kept_ = true;
      each_stage([&](int stage) { stand_in(device, which, stage); });
    }
  }
  void restore(Device& device) {
    if (has_buffer() && std::exchange(kept_, false)) {
      copy(device, weights().sum, weights().own);
    }
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_.bytes()); }

 private:
  // The weights, then the optimizer's states.
  [[nodiscard]] bool has_buffer() const { return tables_.averaging.has_buffer(); }
  [[nodiscard]] std::int64_t trained() const { return tables_.layout.trained; }
  [[nodiscard]] int arrays(int states) const {
    return 1 + (tables_.averaging.what == Averaged::weights_and_state ? states : 0);
  }
  [[nodiscard]] std::size_t buffer_bytes(int states) const {
    return has_buffer() ? static_cast<std::size_t>(trained() * arrays(states)) * sizeof(P) : 0;
  }
  [[nodiscard]] ModelArray<P> const& weights() const { return arrays_.front(); }

  // From the last part of the model to the first, as backward ends them: so on both ranks.
  template <class F>
  void each_stage(F const& f) const {
    for (int part = tables_.map.parts() - 1; part >= 0; --part) {
      for (int stage = 0; stage < static_cast<int>(tables_.stages.size()); ++stage) {
        if (stage_of(stage).part == part) {
          f(stage);
        }
      }
    }
  }

  void copy(Device& device, P const* from, P* to) const {
    Verbs<Backend>::copy(device, from, to, trained());
  }
  static void take_mean(Device& device, P const* sum, P* mean, std::int64_t count,
                        int const* stopped) {
    Verbs<Backend>::each(device, count, TakeMean<P>{sum, mean, stopped});
  }

  void stand_in(Device& device, WhichModel which, int stage) {
    WhichModel const own_model = stage_of(stage).copy == 0 ? WhichModel::first : WhichModel::second;
    bool const both = which == WhichModel::average;
    bool const counts = both || which == own_model;
    sums_->replace(device, weights(), stage, counts, both);
    if (both) {
      ElementRange const own = tables_.trained(stage);
      P* const mean = weights().own + own.begin;
      take_mean(device, mean, mean, own.count(), nullptr);
    }
  }

  [[nodiscard]] LocalStage const& stage_of(int stage) const {
    return tables_.stages[static_cast<std::size_t>(stage)];
  }

  DeviceTables const& tables_;
  std::unique_ptr<ModelSums<Backend>> sums_;
  typename Backend::Buffer buffer_;
  std::vector<ModelArray<P>> arrays_;
  bool kept_ = false;  // the sums have a stand-in's own weights
};

}  // namespace tandem
