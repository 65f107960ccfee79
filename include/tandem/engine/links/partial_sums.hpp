// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PartialSums: the gradients of whole parameters whose layers each rank computes on its rows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// No layer is computed so.
struct NoPartialSums {
  template <class Device>
  explicit NoPartialSums(Device& /*device*/) {}
  void begin_step() {}
  template <class Device, class Memory, class Slices>
  void add(Device& /*device*/, Memory const& /*memory*/, Slices& /*slices*/) {}
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }
};

/// Added up over the slices, all in one array.
///
/// Cost: two copies of these gradients and an all-reduce a step.
/// @tparam Program  DeviceProgram
template <class Program, class Backend>
class PartialSums {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  TANDEM_COLD explicit PartialSums(Device& device) : ranges_{partial()}, sums_{device, bytes()} {}

  /// The gradients to come are new.
  void begin_step() { added_ = false; }

  /// What is computed from now on reads the sums; once a step. All slices call it.
  /// @pre all gradients of the step are reduced over the replicas
  template <class Memory, class Slices>
  void add(Device& device, Memory const& memory, Slices& slices) {
    if (std::exchange(added_, true) || ranges_.empty()) {
      return;
    }
    P* const sums = sums_.template as<P>();
    std::int64_t at = 0;
    for (ElementRange const& own : ranges_) {
      Verbs<Backend>::copy(device, memory.gradients() + own.begin, sums + at, own.count());
      at += own.count();
    }
    slices.add_up(device, std::span<P>{sums, static_cast<std::size_t>(at)}, {"gradients of rows"});
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
  TANDEM_COLD static std::vector<ElementRange> partial() {
    std::vector<ElementRange> list;
    for (int p = 0; p < Program::graph.parameters; ++p) {
      if (GraphParameter const& own = Program::graph.parameter[p]; own.partial) {
        std::int64_t const begin = Program::layout.offset[p];
        list.push_back({begin, begin + own.parameter.shape.elements()});
      }
    }
    return list;
  }

  std::vector<ElementRange> ranges_;
  typename Backend::Buffer sums_;
  bool added_ = false;
};

}  // namespace tandem
