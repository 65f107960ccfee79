// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParametersElsewhere: what devices of a replica that live in other processes have, as copies in
/// this one.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>

namespace tandem {

/// Of the first replica, where a process has some devices of one only. All replicas have the same.
template <class P>
class ParametersElsewhere {
 public:
  /// @param devices  of a replica
  /// @param options  of every rank
  /// @param mesh     of all ranks
  /// @param local    ranks of each process
  TANDEM_COLD ParametersElsewhere(std::span<DeviceTables const* const> devices,
                                  RankOptions const& options, Mesh const& mesh, int first,
                                  int local)
      : devices_{devices},
        options_{options},
        mesh_{mesh},
        first_{first},
        local_{local},
        memory_(devices.size()) {
    for (int rank = 0; rank < mesh.size(); rank += local) {
      needed_ = needed_ || !mesh.has_whole_groups(Axis::model, rank, local);
    }
  }

  /// Whether there are any; the same in all processes.
  [[nodiscard]] bool needed() const { return needed_; }
  /// Of the first replica.
  [[nodiscard]] int rank_of(int device) const { return mesh_.group(0, Axis::model)[device]; }
  [[nodiscard]] bool is_here(int device) const {
    int const rank = rank_of(device);
    return rank >= first_ && rank < first_ + local_;
  }

  /// The last copy of a device's parameters; before fetch() their numbers are not set.
  [[nodiscard]] TANDEM_COLD std::vector<NamedParameter<P>> of(int device);

  /// Makes copies of all devices' parameters, which are here where this process has them. All
  /// processes call it.
  /// Cost: 8 bytes a number of the parameters, gradients and states, all-reduced by all ranks.
  template <class Workers>
  TANDEM_COLD void fetch(Workers& workers);

 private:
  // The bits of the process that has them: what the others add is -0, which changes no number.
  template <class Workers>
  static void exchange(Workers& workers, std::span<P const> own, bool here);

  std::span<DeviceTables const* const> devices_;
  RankOptions options_;
  Mesh mesh_;
  int first_;
  int local_;
  bool needed_ = false;
  std::vector<std::unique_ptr<P[]>> memory_;  // of each device
};

template <class P>
std::vector<NamedParameter<P>> ParametersElsewhere<P>::of(int device) {
  DeviceTables const& own = *devices_[static_cast<std::size_t>(device)];
  int const states = states_of(options_.optimizer);
  auto const elements = static_cast<std::size_t>(own.whole_layout.elements);
  auto& memory = memory_[static_cast<std::size_t>(device)];
  if (memory == nullptr) {  // not set to 0: what nobody writes there takes no memory
    memory.reset(new P[elements * static_cast<std::size_t>(2 + arrays_of(options_))]);
  }
  std::vector<P*> of_states;
  for (int s = 0; s <= states; ++s) {  // behind them the average
    of_states.push_back(memory.get() + elements * static_cast<std::size_t>(2 + s));
  }
  P* const averages = of_states.back();
  of_states.pop_back();
  auto list = detail::named_parameters<P>(own.whole_graph, own.whole_layout.offset, own.map.parts(),
                                          memory.get(), memory.get() + elements, of_states);
  std::vector<bool> const averaged =
      averaged_parameters(own.whole_graph, options_.groups, options_.average);
  for (std::size_t p = 0; p < list.size(); ++p) {
    if (averaged[p]) {
      list[p].average = {averages + own.whole_layout.offset[p], list[p].value.size()};
    }
  }
  return list;
}

template <class P>
template <class Workers>
void ParametersElsewhere<P>::fetch(Workers& workers) {
  using RankType = typename Workers::RankType;
  for (int device = 0; device < static_cast<int>(devices_.size()); ++device) {
    bool const here = is_here(device);
    std::vector<NamedParameter<P>> list;
    if (here) {
      int const local = rank_of(device) - first_;
      workers.run_on(
          local, [](RankType& rank) { rank.download(); }, WorkKind::looks);
      list = workers.rank(local).parameters();
    } else {
      list = of(device);
    }
    for (NamedParameter<P> const& own : list) {
      exchange(workers, own.value, here);
      exchange(workers, own.gradient, here);
      exchange(workers, own.average, here);
      for (std::span<P const> const state : own.states) {
        exchange(workers, state, here);
      }
    }
  }
}

template <class P>
template <class Workers>
void ParametersElsewhere<P>::exchange(Workers& workers, std::span<P const> own, bool here) {
  using RankType = typename Workers::RankType;
  constexpr std::size_t most = std::size_t{1} << 20;
  std::span<P> const numbers = detail::writable(own);
  for (std::size_t begin = 0; begin < numbers.size(); begin += most) {
    auto const part = numbers.subspan(begin, std::min(most, numbers.size() - begin));
    std::vector<double> sums(part.size(), -0.0);
    if (here) {
      std::copy(part.begin(), part.end(), sums.begin());
    }
    workers.run(
        [&](RankType& rank) {
          std::vector<double> none(part.size(), -0.0);
          bool const is_first = &rank == &workers.rank(0);  // its numbers are the process's
          rank.add_up(is_first ? std::span{sums} : std::span{none});
        },
        WorkKind::computes);
    if (!here) {
      std::transform(sums.begin(), sums.end(), part.begin(),
                     [](double sum) { return static_cast<P>(sum); });
    }
  }
}

}  // namespace tandem
