// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TiedSums: the gradient of a parameter that several layers share, from those of its copies.
/// PartialSums: those of whole parameters whose layers each rank computes on its rows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Added up over the slices, all in one array.
///
/// Cost: two copies of these gradients and an all-reduce a step.
template <class Backend>
class PartialSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  TANDEM_COLD PartialSums(DeviceTables const& tables, Device& device)
      : ranges_{partial(tables)}, sums_{device, bytes()} {}

  /// The gradients to come are new.
  void begin_step() { added_ = false; }

  /// What is computed from now on reads the sums; once a step. All slices call it.
  /// @pre all gradients of the step are reduced over the replicas
  template <class Slices>
  void add(Device& device, ParameterMemory<Backend> const& memory, Slices& slices) {
    if (std::exchange(added_, true) || ranges_.empty()) {
      return;
    }
    P* const sums = sums_.template as<P>();
    std::int64_t at = 0;
    for (ElementRange const& own : ranges_) {
      Verbs<Backend>::copy(device, memory.gradients() + own.begin, sums + at, own.count());
      at += own.count();
    }
    slices.add_up(device, std::span<P>{sums, static_cast<std::size_t>(at)},
                  Label{"gradients of rows"});
    at = 0;
    for (ElementRange const& own : ranges_) {
      Verbs<Backend>::copy(device, sums + at, memory.gradients() + own.begin, own.count());
      at += own.count();
    }
  }

  [[nodiscard]] std::size_t bytes() const {
    std::int64_t elements = 0;
    for (ElementRange const& own : ranges_) {
      elements += own.count();
    }
    return static_cast<std::size_t>(elements) * sizeof(P);
  }

 private:
  // Where these stand among the gradients.
  TANDEM_COLD static std::vector<ElementRange> partial(DeviceTables const& tables) {
    std::vector<ElementRange> list;
    for (int p = 0; p < tables.graph.parameters; ++p) {
      if (GraphParameter const& own = tables.graph.parameter[p]; own.partial) {
        std::int64_t const begin = tables.layout.offset[p];
        list.push_back({begin, begin + own.parameter.shape.elements()});
      }
    }
    return list;
  }

  std::vector<ElementRange> ranges_;
  typename Backend::Buffer sums_;
  bool added_ = false;
};

/// Of each copy of the model the device adds what it holds itself, then the devices add that, and
/// all copies have the sum: they are updated alike, and stay equal.
///
/// Cost: a pass over the gradient a further copy on the device, and an all-reduce of it where other
///       devices hold it; where a rank keeps its part of the gradients alone, a gather of each
///       copy's bucket.
/// @tparam Gradients  GradientReduction, which lends them whole
template <class Backend, class Gradients>
class TiedSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Mark = typename Device::Mark;
  using Communicator = typename Gradients::Communicator;

  /// @param ends  RankEnds
  template <class Ends>
  TANDEM_COLD TiedSums(DeviceTables const& tables, Device& device, Ends const& ends,
                       Tracer<Device>& tracer)
      : tracer_{&tracer}, summed_{device.make_mark()} {
    for (int copy = 0; copy < tables.map.copies; ++copy) {
      for (int tie = 0; tie < static_cast<int>(tables.tied.size()); ++tie) {
        Tie own{.held = held(tables, copy, tables.tied[static_cast<std::size_t>(tie)]),
                .others = {}};
        if (own.held.empty()) {
          continue;
        }
        if (int const group = ends.groups.of_tie(ends.rank, copy, tie); group != RankGroups::all) {
          own.others.push_back(ends.connect(group));
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
  /// @pre all gradients of the step are reduced over the replicas
  void add(Device& device, ParameterMemory<Backend> const& memory, Gradients& gradients) {
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
  static std::vector<ElementRange> held(DeviceTables const& tables, int copy, int owner) {
    std::vector<ElementRange> list;
    for (int p = 0; p < tables.graph.parameters; ++p) {
      GraphParameter const& own = tables.graph.parameter[p];
      bool const of_copy = tables.graph.node[own.node].stage / tables.map.parts() == copy;
      if (own.owner() == owner && of_copy && !own.frozen) {
        std::int64_t const begin = tables.layout.offset[p];
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
