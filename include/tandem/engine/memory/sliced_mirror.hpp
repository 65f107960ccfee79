// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SlicedMirror: the ParameterMirror of a rank that has slices of its parameters: it shows them
/// whole, as the network has them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

namespace detail {

/// f(first element in the slice's array, in the whole one, elements) of each run of parameter @p p
/// that a rank has, as @p ranks says which one it is.
template <class F>
void each_run(GraphParameter const& p, Slice const& ranks, F const& f) {
  Shape const& own = p.parameter.shape;
  if (p.slices.count == 1) {
    f(std::int64_t{0}, std::int64_t{0}, own.elements());
    return;
  }
  int const number = ranks.number * (p.slices.count / ranks.count) + p.slices.own;
  std::int64_t const row = own.elements() / own[0];
  if (p.slices.axis == 0) {
    p.slices.parts.each_run(number, p.slices.count, [&](int from, int to, int rows) {
      f(from * row, to * row, rows * row);
    });
    return;
  }
  std::int64_t const cells = row / own[1];  // of a kernel
  for (std::int64_t r = 0; r < own[0]; ++r) {
    p.slices.parts.each_run(number, p.slices.count, [&](int from, int to, int columns) {
      f(r * row + from * cells, r * row * p.slices.count + to * cells, columns * cells);
    });
  }
}

}  // namespace detail

/// What it shows are copies: after gather() all of each parameter, gradient and state, before it
/// this rank's slices, the rest as it was; until the next step or upload() releases them.
///
/// Memory: while it shows something, that of a rank that has no slices, in the host's memory. While
///         it gathers, the slices of one array, also on a device that has memory of its own.
template <class Backend>
class SlicedMirror {
 public:
  using T = typename Backend::Master;
  using Device = typename Backend::Device;

  SlicedMirror(DeviceTables const& tables, int states) : tables_{tables}, states_{states} {}

  /// Shows what @p own has, ParameterMirror or ShardedMirror: the slices of the rank, as @p rank
  /// says.
  template <class Own>
  TANDEM_COLD void show(Own& own, Slice const& rank) {
    copies_.resize(static_cast<std::size_t>(tables_.whole_layout.elements +
                                            (1 + states_) * tables_.whole_layout.trained));
    each_array(own, [&](T const* slice, T* whole, bool trained, char const*) {
      copy(slice, whole, rank, trained);
    });
  }

  /// The other ranks' slices, too; all of them call it. Blocks until they are there.
  template <class Own, class Slices>
  TANDEM_COLD void gather(Device& device, Own& own, Slices& slices) {
    int const count = slices.slice().count;
    std::vector<T> all;
    each_array(own, [&](T const* slice, T* whole, bool trained, char const* name) {
      std::int64_t const each = trained ? tables_.layout.trained : tables_.layout.elements;
      all.resize(static_cast<std::size_t>(each * count));
      gather_array(device, slices, slice, all, {name});
      for (int number = 0; number < count; ++number) {
        copy(all.data() + number * each, whole, {number, count}, trained);
      }
    });
  }

  /// Gives @p own this rank's slices of what was written; whether there is anything.
  template <class Own>
  TANDEM_COLD bool give(Own& own, Slice const& rank) const {
    for (int s = -1; s < states_ && !copies_.empty(); ++s) {
      put(s < 0 ? own.parameters() : own.state(s), copies_.data() + place(s), rank, s >= 0);
    }
    return !copies_.empty();
  }

  /// Gives the memory of the copies back.
  void release() { copies_ = std::vector<T>{}; }

  /// In the layout of WholeParameters. @pre show() was called
  [[nodiscard]] T* parameters() { return copies_.data(); }
  [[nodiscard]] T* gradients() { return copies_.data() + tables_.whole_layout.elements; }
  [[nodiscard]] T* state(int s) { return copies_.data() + place(s); }

 private:
  // Where the copies of the parameters begin, s = -1, or those of state s.
  [[nodiscard]] std::int64_t place(int s) const {
    return s < 0 ? 0 : tables_.whole_layout.elements + (1 + s) * tables_.whole_layout.trained;
  }

  // f(a slice's array, the whole one, whether it has trained parameters only, its name).
  template <class Own, class F>
  void each_array(Own& own, F const& f) {
    f(own.parameters(), parameters(), false, "parameters");
    f(own.gradients(), gradients(), true, "gradients");
    for (int s = 0; s < states_; ++s) {
      f(own.state(s), state(s), true, "states");
    }
  }

  // All ranks' arrays that are as long as @p own, in the order of their slices.
  template <class Slices>
  static void gather_array(Device& device, Slices& slices, T const* own, std::vector<T>& all,
                           Label label) {
    Slice const slice = slices.slice();
    std::size_t const size = all.size() / static_cast<std::size_t>(slice.count);
    if constexpr (ParameterMirror<Backend>::is_memory) {
      slices.gather(device, std::span{own, size}, std::span{all}, label);
      device.finish();
    } else {
      typename Backend::Buffer const there{device, all.size() * sizeof(T)};
      T* const part = there.template as<T>() + size * static_cast<std::size_t>(slice.number);
      Verbs<Backend>::from_host(device, reinterpret_cast<std::byte const*>(own),
                                reinterpret_cast<std::byte*>(part), size * sizeof(T));
      slices.gather(device, std::span<T const>{part, size},
                    std::span{there.template as<T>(), all.size()}, label);
      Verbs<Backend>::to_host(device, there.data(), reinterpret_cast<std::byte*>(all.data()),
                              there.bytes());
    }
  }

  // f(begin in the rank's array, in the whole one, elements) of what a rank has.
  template <class F>
  void each_run(Slice const& rank, bool trained, F const& f) const {
    GraphView const& graph = tables_.graph;
    for (int p = 0; p < graph.parameters; ++p) {
      if (!trained || !graph.parameter[p].frozen) {
        std::int64_t const own = tables_.layout.offset[p];
        std::int64_t const whole = tables_.whole_layout.offset[graph.parameter[p].whole];
        detail::each_run(graph.parameter[p], rank,
                         [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                           f(own + from, whole + to, count);
                         });
      }
    }
  }

  void copy(T const* own, T* whole, Slice const& rank, bool trained) const {
    each_run(rank, trained, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(own + from, count, whole + to);
    });
  }
  void put(T* own, T const* whole, Slice const& rank, bool trained) const {
    each_run(rank, trained, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      std::copy_n(whole + from, count, own + to);
    });
  }

  DeviceTables const& tables_;
  int states_;
  std::vector<T> copies_;  // parameters, gradients, then states
};

}  // namespace tandem
