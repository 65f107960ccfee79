// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMirror: parameters, gradients and states of a rank where the calling program can read and
/// write them, whichever part of them the rank has.

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
#include <tandem/strategy/memory/parameter_layout.hpp>

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

/// Shows a rank's arrays in place where the device's memory is the host's and the rank has all of
/// them. It shows copies of what is elsewhere, of arrays of which the rank has a part, and where
/// the rank has slices, of everything, as the network has it. After gather() copies are whole.
/// Before it they have the rank's part; the rest is as it was, and what is written to that goes
/// nowhere.
///
/// Memory: copies are in the host's memory, as large as the arrays of a rank that has all. A rank
///         that has a part keeps them until the next step. While it gathers, there are
///         all slices of one array more, and one array on a device that has memory of its own.
/// @tparam Core  RankCore
template <class Core>
class RankMirror {
 public:
  using Backend = typename Core::Backend;
  using T = typename Backend::Master;

  /// @param tables  outlive this
  RankMirror(DeviceTables const& tables, int states) : tables_{tables}, states_{states} {}

  /// Shows what the rank has; the rest is as it was.
  TANDEM_COLD void download(Core& core) { show(core, false); }
  /// Shows what other ranks have, too, where the rank has a part alone; all of them call it. Blocks
  /// until that is there, as the others do until the device has done what is queued.
  /// @pre the device has finished a step's updates, and other ranks' parameters have arrived
  TANDEM_COLD void gather(Core& core) { show(core, true); }

  /// The rank takes its part of the parameters and states that were written. Copies stay, so that a
  /// program may go through a list of parameters and set each.
  TANDEM_COLD void upload(Core& core) {
    for (int array = of_parameters; array <= states_; ++array) {
      if (array != of_gradients) {
        if (!whole_.empty()) {
          copy_slices(core.slice(), array, own(array), false);
        }
        if (!own_.empty()) {
          move(core, array, false);
        }
      }
    }
  }

  /// Gives the memory of copies of other ranks' parts back: a step begins.
  void release() {
    if (has_shares() || has_slices()) {
      own_ = std::vector<T>{};  // {} alone would keep it
      whole_ = std::vector<T>{};
    }
  }

  /// In the layout of WholeParameters. @pre download() was called
  [[nodiscard]] T* parameters() { return shown(of_parameters); }
  [[nodiscard]] T* gradients() { return shown(of_gradients); }
  [[nodiscard]] T* state(int s) { return shown(1 + s); }

 private:
  using Device = typename Backend::Device;
  static constexpr bool in_place = ParameterMirror<Backend>::is_memory;
  static constexpr bool can_share = Core::Gradients::can_share;
  static constexpr bool can_slice = Core::way.slices;

  // Numbers of arrays; state s is number 1 + s.
  static constexpr int of_parameters = -1;
  static constexpr int of_gradients = 0;

  [[nodiscard]] bool has_shares() const { return can_share && tables_.state_shares > 1; }
  [[nodiscard]] bool has_slices() const { return can_slice && tables_.layer_slices > 1; }
  // Whether the rank has its part of an array alone.
  [[nodiscard]] bool is_part(int array) const {
    return has_shares() && (array != of_parameters || tables_.sharded_parameters);
  }
  [[nodiscard]] bool is_copy(int array) const { return !in_place || is_part(array); }

  // How many elements an array has: those of the parameters that begin before its end.
  static std::int64_t size(LayoutView const& layout, int array) {
    return array == of_parameters  ? layout.elements
           : array == of_gradients ? layout.dense
                                   : layout.trained;
  }
  // Where it is among copies: gradients, states, then parameters.
  [[nodiscard]] std::int64_t place(LayoutView const& layout, int array) const {
    int const states = array == of_parameters ? states_ : array - 1;
    return array == of_gradients ? 0 : layout.dense + states * layout.trained;
  }
  [[nodiscard]] std::size_t copied(LayoutView const& layout, bool parameters) const {
    return static_cast<std::size_t>(place(layout, of_parameters) +
                                    (parameters ? layout.elements : 0));
  }
  // The array of the rank's slices, the one with all of them, and what the program sees.
  [[nodiscard]] T* own(int array) {
    return is_copy(array) ? own_.data() + place(tables_.layout, array) : there(array, {});
  }
  [[nodiscard]] T* whole(int array) { return whole_.data() + place(tables_.whole_layout, array); }
  [[nodiscard]] T* shown(int array) { return has_slices() ? whole(array) : own(array); }

  // Where the rank has a part of an array; {} begins as the array does.
  [[nodiscard]] T* there(int array, OwnedRange const& part) const {
    return array == of_parameters  ? memory_->kept_parameters(part.range.begin, part.lag)
           : array == of_gradients ? memory_->summed_gradients(part.range.begin, part.lag)
                                   : memory_->state(array - 1) + part.state_begin();
  }
  // f(there, which elements) of what the rank has of an array.
  template <class F>
  void each_part(Core& core, int array, F const& f) const {
    if (!is_part(array)) {
      f(there(array, {}), ElementRange{0, size(tables_.layout, array)});
      return;
    }
    for (OwnedRange const& part : core.shares->owned()) {
      f(there(array, part), part.range);
    }
    if (array == of_parameters) {
      f(memory_->frozen(), ElementRange{tables_.layout.trained, tables_.layout.elements});
    }
  }

  void show(Core& core, bool all) {
    memory_ = &core.memory;
    own_.resize(is_copy(of_gradients) ? copied(tables_.layout, is_copy(of_parameters)) : 0);
    whole_.resize(has_slices() ? copied(tables_.whole_layout, true) : 0);
    for (int array = of_parameters; array <= states_; ++array) {
      move(core, array, true);
      if constexpr (can_share) {
        if (all && is_part(array)) {
          gather_parts(core, array);
        }
      }
      copy_slices(core.slice(), array, own(array), true);
    }
    if constexpr (Core::has_slices) {
      if (all && has_slices() && core.slices) {
        gather_slices(core);
      }
    }
  }

  // Copies what the rank has of an array, if that is to be copied, to the host, or back.
  void move(Core& core, int array, bool down) {
    if constexpr (can_share || !in_place) {
      if (is_copy(array)) {
        bool const part = is_part(array);
        if (part || !down) {  // what other ranks have given stays
          reorder(own(array), size(tables_.layout, array), true);
        }
        each_part(core, array, [&](T* there, ElementRange range) {
          copy(core.device, own(array) + range.begin, there, range.count(), down);
        });
        reorder(own(array), size(tables_.layout, array), false);
      }
    }
  }

  // An array of which replicas have shares becomes whole.
  void gather_parts(Core& core, int array) {
    std::int64_t const trained = tables_.layout.trained;
    on_device(core.device, own(array), trained, [&](T* all) {
      if constexpr (!in_place) {
        each_part(core, array, [&](T* there, ElementRange range) {
          if (range.begin < trained && range.count() > 0) {
            Verbs<Backend>::copy(core.device, there, all + range.begin, range.count());
          }
        });
      }
      core.shares->gather_array(core.device, all, {name_of(array)});
    });
    reorder(own(array), trained, false);
  }

  // The copies that are shown get all ranks' slices.
  void gather_slices(Core& core) {
    Slice const slice = core.slice();
    std::vector<T> slices;
    for (int array = of_parameters; array <= states_; ++array) {
      std::int64_t const each = size(tables_.layout, array);
      slices.resize(static_cast<std::size_t>(each * slice.count));
      on_device(core.device, slices.data(), each * slice.count, [&](T* all) {
        std::span const part{all + each * slice.number, static_cast<std::size_t>(each)};
        copy(core.device, own(array), part.data(), each, false);
        core.slices->gather(core.device, part, std::span{all, slices.size()}, {name_of(array)});
      });
      for (int number = 0; number < slice.count; ++number) {
        copy_slices({number, slice.count}, array, slices.data() + number * each, true);
      }
    }
  }

  // f(the device's memory of @p count elements), which then are @p values.
  template <class F>
  static void on_device(Device& device, T* values, std::int64_t count, F const& f) {
    if constexpr (in_place) {
      f(values);
      device.finish();
    } else {
      typename Backend::Buffer const all{device, static_cast<std::size_t>(count) * sizeof(T)};
      f(all.template as<T>());
      copy(device, values, all.template as<T>(), count, true);
    }
  }

  // Copies from the device's memory to the host's, or back.
  static void copy(Device& device, T* host, T* there, std::int64_t count, bool down) {
    T const* const from = down ? there : host;
    T* const to = down ? host : there;
    if constexpr (in_place) {
      std::copy_n(from, count, to);
    } else if (count > 0) {  // a device may have no parameters, or none that are trained
      auto const* const read = reinterpret_cast<std::byte const*>(from);
      auto* const written = reinterpret_cast<std::byte*>(to);
      std::size_t const bytes = static_cast<std::size_t>(count) * sizeof(T);
      down ? Verbs<Backend>::to_host(device, read, written, bytes)
           : Verbs<Backend>::from_host(device, read, written, bytes);
    }
  }

  // Brings copies to the device's order of parameters, or back.
  void reorder(T* values, std::int64_t end, bool to_device) const {
    if constexpr (!in_place) {
      ParameterMirror<Backend>::reorder(tables_, values, end, to_device);
    }
  }

  // Copies @p slices of an array, those that @p rank has, to all that is shown, or back.
  void copy_slices(Slice const& rank, int array, T* slices, bool to_whole) {
    if constexpr (can_slice) {
      for (int p = 0; p < tables_.graph.parameters && has_slices(); ++p) {
        GraphParameter const& parameter = tables_.graph.parameter[p];
        if (tables_.layout.offset[p] < size(tables_.layout, array)) {
          T* const part = slices + tables_.layout.offset[p];
          T* const all = whole(array) + tables_.whole_layout.offset[parameter.whole];
          detail::each_run(parameter, rank, [&](std::int64_t a, std::int64_t b, std::int64_t n) {
            to_whole ? std::copy_n(part + a, n, all + b) : std::copy_n(all + b, n, part + a);
          });
        }
      }
    }
  }

  static char const* name_of(int array) {
    return array == of_parameters ? "parameters" : array == of_gradients ? "gradients" : "states";
  }

  DeviceTables const& tables_;
  int states_;
  ParameterMemory<Backend> const* memory_ = nullptr;
  std::vector<T> own_;    // in the device's layout
  std::vector<T> whole_;  // in that of WholeParameters, where the rank has slices
};

}  // namespace tandem
