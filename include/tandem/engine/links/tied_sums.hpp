// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TiedSums: the gradient of a parameter that several layers share, from those of its copies.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Nothing is shared, and nothing compiled.
struct NoTiedSums {
  template <class Device, class Groups, class Connect, class Tracer>
  NoTiedSums(Device& /*device*/, Groups const& /*groups*/, int /*rank*/, Connect const& /*connect*/,
             Tracer& /*tracer*/) {}
  void begin_step() {}
  template <class Device, class Memory, class Gradients>
  void add(Device& /*device*/, Memory const& /*memory*/, Gradients& /*gradients*/) {}
};

/// Of each copy of the model the device adds what it holds itself, then the devices add that, and
/// all copies have the sum: they are updated alike, and stay equal.
///
/// Cost: a pass over the gradient a further copy on the device, and an all-reduce of it where other
///       devices hold it; where a rank keeps its part of the gradients alone, a gather of each
///       copy's bucket.
/// @tparam Program  DeviceProgram
template <class Program, class Backend, class Communicator>
class TiedSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Mark = typename Device::Mark;
  using Whole = typename Program::Program;

  /// @param connect  connect(group): the rank's end of one of @p groups
  template <class Connect>
  TANDEM_COLD TiedSums(Device& device, RankGroups<Whole> const& groups, int rank,
                       Connect const& connect, Tracer<Device>& tracer)
      : tracer_{&tracer}, summed_{device.make_mark()} {
    for (int copy = 0; copy < Whole::map.copies; ++copy) {
      for (int tie = 0; tie < Whole::ties.count; ++tie) {
        Tie own{.held = held(copy, Whole::ties.owner[tie]), .others = {}};
        if (own.held.empty()) {
          continue;
        }
        if (int const group = groups.of_tie(rank, copy, tie); group != RankGroups<Whole>::all) {
          own.others.push_back(connect(group));
        }
        if (own.held.size() > 1 || !own.others.empty()) {
          ties_.push_back(std::move(own));
        }
      }
    }
  }

  /// The gradients to come are new.
  void begin_step() { added_ = false; }

  /// What is computed from now on reads the sum in every copy; once a step.
  /// @param gradients  GradientReduction, which lends them whole
  /// @pre all gradients of the step are reduced over the replicas
  template <class Memory, class Gradients>
  void add(Device& device, Memory const& memory, Gradients& gradients) {
    if (std::exchange(added_, true)) {
      return;
    }
    for (Tie& tie : ties_) {
      P* const sum = gradients.lend(device, memory, tie.held.front().begin, 0);
      std::int64_t const count = tie.held.front().count();
      for (std::size_t i = 1; i < tie.held.size(); ++i) {
        Verbs<Backend>::add(device, gradients.lend(device, memory, tie.held[i].begin, 1), sum,
                            count);
      }
      for (Communicator& group : tie.others) {
        std::span<P> const data{sum, static_cast<std::size_t>(count)};
        Label const label{"shared"};
        detail::queue_collective(device, *tracer_, label, summed_, [&] {
          group.all_reduce(data, data, Sum{}, device.communication, label);
        });
        device.await_on(device.communication, summed_);
      }
      for (std::size_t i = 1; i < tie.held.size(); ++i) {
        Verbs<Backend>::copy(device, sum, gradients.lend(device, memory, tie.held[i].begin, 1),
                             count);
        gradients.take_back(device, memory, tie.held[i].begin);
      }
      gradients.take_back(device, memory, tie.held.front().begin);
    }
  }

 private:
  struct Tie {
    std::vector<ElementRange> held{};    // of the gradients, in the network's order
    std::vector<Communicator> others{};  // none, or the group of the devices that hold it
  };

  // Where the device has a parameter of one of the model's copies.
  static std::vector<ElementRange> held(int copy, int owner) {
    std::vector<ElementRange> list;
    for (int p = 0; p < Program::graph.parameters; ++p) {
      GraphParameter const& own = Program::graph.parameter[p];
      bool const of_copy = Program::graph.node[own.node].stage / Whole::map.parts() == copy;
      if (own.owner() == owner && of_copy && !own.frozen) {
        std::int64_t const begin = Program::layout.offset[p];
        list.push_back({begin, begin + own.parameter.shape.elements()});
      }
    }
    return list;
  }

  Tracer<Device>* tracer_;
  Mark summed_;
  std::vector<Tie> ties_;
  bool added_ = false;
};

}  // namespace tandem
