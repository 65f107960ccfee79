// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ModelExchange: how the ranks that have the same parts of two models average them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/rank_groups.hpp>
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

/// Sums of the weights of two models, and of their optimizer states if the rule says so, stage by
/// stage over the pair of ranks that has them, on the communication stream. Where the two may
/// differ between steps the sums have memory of their own. A device in the middle has both.
///
/// Comm: an all-reduce of a stage's parameters over two ranks, each way as many bytes as these.
template <class Program, class Backend, class Communicator>
class ModelExchange {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Buffer = typename Backend::Buffer;
  using Mark = typename Device::Mark;
  using Whole = typename Program::Program;
  static constexpr auto const& layout = Program::layout;
  static constexpr Averaging rule = Whole::averaging;
  static constexpr bool has_buffer = rule.has_buffer();

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  /// @param states   of the optimizer
  /// @param tracer   outlives this
  template <class Connect>
  ModelExchange(Device& device, int rank, Connect const& connect, int states,
                Tracer<Device>& tracer)
      : arrays_{1 + (rule.what == Averaged::weights_and_state ? states : 0)},
        tracer_{&tracer},
        sums_{device,
              has_buffer ? static_cast<std::size_t>(layout.trained * arrays_) * sizeof(P) : 0} {
    int const pair = RankGroups<Whole>::of_pair(rank);
    if (pair != RankGroups<Whole>::all) {
      pair_.push_back(connect(pair));
    }
    for (int stage = 0; stage < Program::stages.count; ++stage) {
      marks_.push_back(device.make_mark());
    }
  }

  /// What has been computed so far of a local stage is summed over its two copies.
  template <class Memory>
  void begin(Device& device, Memory const& memory, int stage) {
    if constexpr (has_twins) {
      twins_ready_ = (twins_ready_ + 1) % 2;
      if (twins_ready_ == 0) {
        add_twins(device, memory);
      }
    } else {
      ElementRange const own = range(stage);
      device.begin_on(device.communication);
      for (int a = 0; a < arrays_; ++a) {
        sum_over_pair(device, array(memory, a) + own.begin, sums(memory, a) + own.begin,
                      own.count());
      }
      device.mark_on(device.communication, marks_[static_cast<std::size_t>(stage)]);
    }
  }

  /// The same of all stages.
  template <class Memory>
  void begin_all(Device& device, Memory const& memory) {
    each_stage([&](int stage) { begin(device, memory, stage); });
  }

  /// What is computed from now on has the average, unless *stopped.
  template <class Memory>
  void await(Device& device, Memory const& memory, int stage, int const* stopped) {
    if constexpr (!has_twins) {
      device.await_on(device.communication, marks_[static_cast<std::size_t>(stage)]);
    }
    ElementRange const own = range(stage);
    for (int a = 0; a < arrays_; ++a) {
      Verbs<Backend>::each(
          device, own.count(),
          TakeMean<P>{sums(memory, a) + own.begin, array(memory, a) + own.begin, stopped});
    }
  }

  /// Both copies of each stage get the weights of one model, or the average, for an evaluation;
  /// restore() gives them back their own, also after a stand_in() that threw. The same calls on
  /// both ranks.
  template <class Memory>
  void stand_in(Device& device, Memory const& memory, WhichModel which) {
    if constexpr (has_buffer) {
      copy(device, array(memory, 0), sums(memory, 0), layout.trained);
      kept_ = true;
      each_stage([&](int stage) { stand_in(device, memory, which, stage); });
    }
  }
  template <class Memory>
  void restore(Device& device, Memory const& memory) {
    if (has_buffer && std::exchange(kept_, false)) {
      copy(device, sums(memory, 0), array(memory, 0), layout.trained);
    }
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(sums_.bytes()); }

 private:
  static constexpr bool has_twins =
      rule.keeps_two() && Whole::devices % 2 == 1 && Program::device == Whole::devices / 2;

  // From the last part of the model to the first, as backward ends them: so on both ranks.
  template <class F>
  static void each_stage(F const& f) {
    for (int part = Whole::map.parts() - 1; part >= 0; --part) {
      for (int stage = 0; stage < Program::stages.count; ++stage) {
        if (Program::stages.stage[stage].part == part) {
          f(stage);
        }
      }
    }
  }

  static ElementRange range(int stage) {
    return trained_range(layout, Program::stages.stage[stage].id);
  }
  // The weights, then the optimizer's states.
  template <class Memory>
  static P* array(Memory const& memory, int a) {
    return a == 0 ? memory.parameters() : memory.state(a - 1);
  }
  template <class Memory>
  P* sums(Memory const& memory, int a) const {
    return has_buffer ? sums_.template as<P>() + a * layout.trained : array(memory, a);
  }

  void sum_over_pair(Device& device, P const* in, P* out, std::int64_t count) {
    auto const size = static_cast<std::size_t>(count);
    tracer_->collective(device, {"average"}, [&] {
      pair_.front().all_reduce(std::span<P const>{in, size}, std::span<P>{out, size}, Sum{},
                               device.communication, {"average"});
    });
  }

  // Both copies of the device in the middle, in the place of each.
  template <class Memory>
  void add_twins(Device& device, Memory const& memory) {
    ElementRange const first = range(0);
    ElementRange const second = range(1);
    for (int a = 0; a < arrays_; ++a) {
      P* const all = array(memory, a);
      P* const sum = sums(memory, a);
      if (has_buffer) {
        copy(device, all + first.begin, sum + first.begin, first.count());
      }
      Verbs<Backend>::add(device, static_cast<P const*>(all + second.begin), sum + first.begin,
                          first.count());
      copy(device, sum + first.begin, sum + second.begin, second.count());
    }
  }
  static void copy(Device& device, P const* from, P* to, std::int64_t count) {
    Verbs<Backend>::copy(device, from, to, count);
  }

  template <class Memory>
  void stand_in(Device& device, Memory const& memory, WhichModel which, int stage) {
    ElementRange const own = range(stage);
    P* const weights = array(memory, 0) + own.begin;
    int const own_copy = Program::stages.stage[stage].copy;
    bool const counts =
        which == WhichModel::average || own_copy == (which == WhichModel::first ? 0 : 1);
    if constexpr (has_twins) {
      if (!counts || which == WhichModel::average) {
        copy(device, sums(memory, 0) + range(1 - stage).begin, weights, own.count());
      }
      if (which == WhichModel::average) {
        Verbs<Backend>::add(device, static_cast<P const*>(sums(memory, 0) + own.begin), weights,
                            own.count());
      }
    } else {
      if (!counts) {
        Verbs<Backend>::zero(device, weights, own.count());
      }
      device.begin_on(device.communication);
      sum_over_pair(device, weights, weights, own.count());
      device.mark_on(device.communication, marks_[static_cast<std::size_t>(stage)]);
      device.await_on(device.communication, marks_[static_cast<std::size_t>(stage)]);
    }
    if (which == WhichModel::average) {
      Verbs<Backend>::each(device, own.count(), TakeMean<P>{weights, weights, nullptr});
    }
  }

  std::vector<Communicator> pair_;  // with the device that has the other copies, if it is another
  int arrays_;
  Tracer<Device>* tracer_;
  Buffer sums_;
  int twins_ready_ = 0;
  bool kept_ = false;        // the sums have a stand-in's own weights
  std::vector<Mark> marks_;  // of each local stage
};

}  // namespace tandem
