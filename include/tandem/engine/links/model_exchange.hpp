// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ModelExchange: how the ranks that have the same parts of two models average them.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/links/model_sums.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

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
template <class Program, class Backend, class Communicator>
class ModelExchange {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  static constexpr auto const& layout = Program::layout;
  static constexpr Averaging rule = Program::Program::averaging;
  static constexpr bool has_buffer = rule.has_buffer();
  using Sums = std::conditional_t<Program::has_twins, TwinSums<Program, Backend>,
                                  PairSums<Program, Backend, Communicator>>;

  /// @param memory   the rank's, which stays where it is
  /// @param connect  connect(group): the rank's end of one of @p groups
  /// @param states   of the optimizer
  /// @param tracer   outlives this
  template <class Memory, class Connect>
  ModelExchange(Device& device, Memory const& memory,
                RankGroups<typename Program::Program> const& groups, int rank,
                Connect const& connect, int states, Tracer<Device>& tracer)
      : sums_{device, groups, rank, connect, tracer}, buffer_{device, buffer_bytes(states)} {
    for (int a = 0; a < arrays(states); ++a) {
      P* const own = a == 0 ? memory.parameters() : memory.state(a - 1);
      arrays_.push_back({own, has_buffer ? buffer_.template as<P>() + a * layout.trained : own});
    }
  }

  /// What has been computed so far of a local stage is summed over its two copies.
  void begin(Device& device, int stage) { sums_.begin(device, arrays_, stage); }

  /// The same of all stages.
  void begin_all(Device& device) {
    each_stage([&](int stage) { begin(device, stage); });
  }

  /// What is computed from now on has the average, unless *stopped.
  void await(Device& device, int stage, int const* stopped) {
    sums_.await(device, stage);
    ElementRange const own = detail::stage_range<Program>(stage);
    for (ModelArray<P> const& array : arrays_) {
      take_mean(device, array.sum + own.begin, array.own + own.begin, own.count(), stopped);
    }
  }

  /// Both copies of each stage get the weights of one model, or the average, for an evaluation;
  /// restore() gives them back their own, also after a stand_in() that threw. The same calls on
  /// both ranks. Nothing where the two do not differ between steps.
  void stand_in(Device& device, WhichModel which) {
    if (has_buffer) {
      copy(device, weights().own, weights().sum);
      kept_ = true;
      each_stage([&](int stage) { stand_in(device, which, stage); });
    }
  }
  void restore(Device& device) {
    if (has_buffer && std::exchange(kept_, false)) {
      copy(device, weights().sum, weights().own);
    }
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_.bytes()); }

 private:
  // The weights, then the optimizer's states.
  static int arrays(int states) {
    return 1 + (rule.what == Averaged::weights_and_state ? states : 0);
  }
  static std::size_t buffer_bytes(int states) {
    return has_buffer ? static_cast<std::size_t>(layout.trained * arrays(states)) * sizeof(P) : 0;
  }
  [[nodiscard]] ModelArray<P> const& weights() const { return arrays_.front(); }

  // From the last part of the model to the first, as backward ends them: so on both ranks.
  template <class F>
  static void each_stage(F const& f) {
    for (int part = Program::Program::map.parts() - 1; part >= 0; --part) {
      for (int stage = 0; stage < Program::stages.count; ++stage) {
        if (Program::stages.stage[stage].part == part) {
          f(stage);
        }
      }
    }
  }

  static void copy(Device& device, P const* from, P* to) {
    Verbs<Backend>::copy(device, from, to, layout.trained);
  }
  static void take_mean(Device& device, P const* sum, P* mean, std::int64_t count,
                        int const* stopped) {
    Verbs<Backend>::each(device, count, TakeMean<P>{sum, mean, stopped});
  }

  void stand_in(Device& device, WhichModel which, int stage) {
    WhichModel const own_model =
        Program::stages.stage[stage].copy == 0 ? WhichModel::first : WhichModel::second;
    bool const both = which == WhichModel::average;
    bool const counts = both || which == own_model;
    sums_.replace(device, weights(), stage, counts, both);
    if (both) {
      ElementRange const own = detail::stage_range<Program>(stage);
      P* const mean = weights().own + own.begin;
      take_mean(device, mean, mean, own.count(), nullptr);
    }
  }

  Sums sums_;
  typename Backend::Buffer buffer_;
  std::vector<ModelArray<P>> arrays_;
  bool kept_ = false;  // the sums have a stand-in's own weights
};

}  // namespace tandem
