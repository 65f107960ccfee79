// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepAverage: the averages of a device's weights, which stand behind the optimizer's states.

#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/insertion_sort.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/step_state.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// One weight's average after a step, one that was skipped too; it stays where nothing is updated.
template <class P>
struct AverageWeight {
  P const* weight;
  P* average;
  P decay;
  P rest;  ///< 1 - decay, rounded once
  StepState const* state;
  int const* stopped;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    if (*stopped != update_nothing) {
      average[i] = state->step == 0 ? weight[i] : decay * average[i] + rest * weight[i];
    }
  }
};

/// x and y change places.
template <class P>
struct SwapElement {
  P* x;
  P* y;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    P const kept = x[i];
    x[i] = y[i];
    y[i] = kept;
  }
};

namespace detail {

/// The averaged parameters as runs of neighbours, in the order of @p offset.
TANDEM_ONCE std::vector<OwnedRange> averaged_runs(GraphView graph, std::int64_t const* offset,
                                                  std::vector<bool> const& averaged);

}  // namespace detail

/// Every replica averages the same weights, so that averages need no messages.
template <class Backend>
class StepAverage {
 public:
  using Device = typename Backend::Device;
  using P = typename Backend::Master;
  using Memory = ParameterMemory<Backend>;

  /// @param offset  of each parameter of @p graph, in elements
  /// @param states  of the optimizer: the averages are the array behind them
  TANDEM_COLD StepAverage(GraphView graph, std::int64_t const* offset,
                          std::vector<ParameterGroup> const& groups, WeightAverage const& average,
                          int states)
      : runs_{detail::averaged_runs(graph, offset, averaged_parameters(graph, groups, average))},
        any_{!runs_.empty()},
        decay_{average.decay},
        state_{states} {}

  /// From now on these alone are averaged here.
  TANDEM_COLD void keep_to(std::vector<OwnedRange> const& owned) {
    std::vector<OwnedRange> parts;
    for (OwnedRange const& run : runs_) {
      for (OwnedRange const& own : owned) {
        OwnedRange const part = within(own, run.range);
        if (part.range.count() > 0) {
          parts.push_back(part);
        }
      }
    }
    any_ = !runs_.empty();
    runs_ = std::move(parts);
  }

  /// Whether there are any.
  [[nodiscard]] bool any() const { return any_; }

  /// After an update. Cost: one pass over weights and averages.
  /// @param state, stopped  in the device's memory
  void update(Device& device, Memory const& memory, StepState const* state,
              int const* stopped) const {
    each(memory, [&](P* weight, P* average, std::int64_t count) {
      Verbs<Backend>::each(device, count,
                           AverageWeight<P>{weight, average, static_cast<P>(decay_),
                                            static_cast<P>(1.0 - decay_), state, stopped});
    });
  }

  /// The averages take the place of the weights; restore() gives them back. Both say whether they
  /// have changed the weights.
  bool stand_in(Device& device, Memory const& memory) {
    swap(device, memory);
    stands_in_ = any_;
    return stands_in_;
  }
  bool restore(Device& device, Memory const& memory) {
    if (!std::exchange(stands_in_, false)) {
      return false;
    }
    swap(device, memory);
    return true;
  }

 private:
  template <class F>
  void each(Memory const& memory, F const& f) const {
    for (OwnedRange const& run : runs_) {
      f(memory.kept_parameters(run.range.begin, run.lag), memory.state(state_) + run.state_begin(),
        run.range.count());
    }
  }
  void swap(Device& device, Memory const& memory) const {
    each(memory, [&](P* weight, P* average, std::int64_t count) {
      Verbs<Backend>::each(device, count, SwapElement<P>{weight, average});
    });
  }

  std::vector<OwnedRange> runs_;
  bool any_;  // on some replica
  double decay_;
  int state_;
  bool stands_in_ = false;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<OwnedRange> averaged_runs(GraphView graph, std::int64_t const* offset,
                                                  std::vector<bool> const& averaged) {
  std::vector<int> trained;
  for (int p = 0; p < graph.parameters; ++p) {
    if (!graph.parameter[p].frozen) {
      trained.push_back(p);
    }
  }
  insertion_sort(trained, [&](int a, int b) { return offset[a] < offset[b]; });
  std::vector<OwnedRange> runs;
  bool joins = false;
  for (int const p : trained) {
    bool const own = averaged[static_cast<std::size_t>(p)];
    std::int64_t const end = offset[p] + graph.parameter[p].parameter.shape.elements();
    if (own && joins) {
      runs.back().range.end = end;
    } else if (own) {
      runs.push_back({{offset[p], end}});
    }
    joins = own;
  }
  return runs;
}

}  // namespace tandem::detail

#endif
