// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterMemory: the parameters, gradients and optimizer states of one rank.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/engine/memory/row_gradients.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem {

/// Whether a backend's ops keep parameters in layouts of their own.
template <class Backend>
inline constexpr bool packs_weights = [] {
  if constexpr (requires { Backend::packs_weights; }) {
    return bool{Backend::packs_weights};
  } else {
    return false;
  }
}();

/// Flat arrays in the order of the device's ParameterLayout.
template <class Program, class Backend>
class ParameterMemory {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;
  using Device = typename Backend::Device;
  /// Whether products read parameters of another type than the optimizer keeps, and no op packs
  /// them.
  static constexpr bool mixed = !std::is_same_v<T, P> && !packs_weights<Backend>;
  static constexpr auto const& graph = Program::graph;
  static constexpr auto const& layout = Program::layout;
  static constexpr auto const& places = Program::places;
  /// Whether summed_gradients() has the rank's part alone, and kept_parameters().
  static constexpr bool deals_gradients = Program::sharded_gradients;
  static constexpr bool deals_parameters = Program::sharded_parameters;
  static_assert(places.count() == 1 || !mixed, "there is one copy of rounded parameters");

  using Rows = std::conditional_t<(layout.row_gradients > 0), RowGradients<Program, Backend>,
                                  NoRowGradients<P>>;

  /// @param leaves  of one replica: runs of microbatches whose gradients a tree joins
  /// @param batch, microbatches  of its microbatches the largest, and how many these are
  /// @param replicas  where the strategy takes any number
  ParameterMemory(Device& device, int states, int leaves, int batch, int microbatches, int replicas)
      : waiting_leaves_{static_cast<int>(std::bit_width(static_cast<unsigned>(leaves))) - 1},
        parameters_{device, bytes(Program::parameter_elements)},
        versions_{device, bytes(layout.trained) * static_cast<std::size_t>(places.count() - 1)},
        weights_{device,
                 mixed ? static_cast<std::size_t>(Program::weight_elements) * sizeof(T) : 0},
        gradients_{device, bytes(Program::gradient_elements) *
                               (1 + static_cast<std::size_t>(waiting_leaves_))},
        states_{device, bytes(Program::state_elements) * static_cast<std::size_t>(states)},
        rows_{device,
              {.batch = batch,
               .microbatches = microbatches,
               .replicas = Program::gradient_replicas(replicas),
               .buffers = 1 + waiting_leaves_}} {}

  /// In the order of the layout; where a rank keeps its part alone, that, then the slots.
  [[nodiscard]] P* parameters() const { return parameters_.template as<P>(); }
  /// Slot 0 or 1, where parameters are gathered.
  [[nodiscard]] P* parameter_slot(int slot) const {
    return parameters() + Program::state_elements + slot * Program::parameter_slot;
  }
  /// Frozen parameters, in the order of the layout.
  [[nodiscard]] P* frozen() const {
    return Program::sharded_parameters ? parameter_slot(2) : parameters() + layout.trained;
  }
  /// Where @p element is kept, and its neighbours of the same part.
  /// @param lag  of the rank's part; see OwnedRange
  [[nodiscard]] P* kept_parameters(std::int64_t element, std::int64_t lag) const {
    return parameters() + (Program::sharded_parameters ? element - lag : element);
  }
  /// The trained parameters in one of the WeightPlaces; place 0 is parameters().
  [[nodiscard]] P* version(int place) const {
    return place == 0 ? parameters() : versions_.template as<P>() + (place - 1) * layout.trained;
  }
  /// Where ops read it. Frozen parameters have no versions.
  [[nodiscard]] P* parameter(int p, int place) const {
    if constexpr (Program::sharded_parameters) {
      if (std::int64_t const at = layout.offset[p]; at < layout.trained) {
        int const bucket = bucket_of(layout, at);
        return parameter_slot(bucket & 1) + at - layout.bucket_begin[bucket];
      }
      return frozen() + layout.offset[p] - layout.trained;
    }
    return (layout.offset[p] < layout.trained ? version(place) : parameters()) + layout.offset[p];
  }
  /// The same as products read it; null where ops pack it.
  [[nodiscard]] T const* weight(int p, int place) const {
    if constexpr (std::is_same_v<T, P>) {
      return parameter(p, place);
    } else if constexpr (Program::sharded_parameters) {
      return weights() + (parameter(p, place) - parameter_slot(0));
    } else {
      return weights() != nullptr ? weights() + layout.offset[p] : nullptr;
    }
  }
  /// The first @p count parameters of a slot, as products read them: behind what @p stream has
  /// brought.
  template <class Stream>
  void round_slot(Stream& stream, int slot, std::int64_t count) const {
    if constexpr (mixed) {
      Verbs<Backend>::cast_on(stream, static_cast<P const*>(parameter_slot(slot)),
                              weights() + slot * Program::parameter_slot, count);
    }
  }
  /// Likewise what is frozen, where the others are in slots.
  void round_frozen(Device& device) const {
    if constexpr (mixed && layout.trained < layout.elements) {
      Verbs<Backend>::cast(device, static_cast<P const*>(frozen()),
                           weights() + 2 * Program::parameter_slot,
                           layout.elements - layout.trained);
    }
  }
  void copy_version(Device& device, int from, int to) const {
    Verbs<Backend>::copy(device, version(from), version(to), layout.trained);
  }
  /// The parameters as products read them, or of a rank that keeps its part alone the slots and
  /// what is frozen; where the types agree, the parameters themselves. Null where ops pack them.
  [[nodiscard]] T* weights() const {
    if constexpr (mixed) {
      return weights_.template as<T>();
    } else if constexpr (std::is_same_v<T, P>) {
      return parameters();
    } else {
      return nullptr;
    }
  }
  /// Buffer 0 takes the gradients of the leaf at work, the others wait in the tree.
  [[nodiscard]] P* gradients(int buffer = 0) const {
    return gradients_.template as<P>() + buffer * layout.dense;
  }
  /// Where the gradients of @p bucket are made: in the array of them, or in a slot.
  [[nodiscard]] P* made_gradients(int bucket) const {
    return Program::sharded_gradients ? gradient_slot(bucket & 1)
                                      : gradients() + layout.bucket_begin[bucket];
  }
  /// Slot 0 or 1, which stand behind this rank's part of the gradients.
  [[nodiscard]] P* gradient_slot(int slot) const {
    return gradients() + Program::state_elements + slot * Program::gradient_slot;
  }
  /// Where the sum of the gradient of @p element is, and its neighbours' of the same part.
  /// @param lag  of the rank's part; see OwnedRange
  [[nodiscard]] P* summed_gradients(std::int64_t element, std::int64_t lag) const {
    return gradients() + (Program::sharded_gradients ? element - lag : element);
  }
  /// Gradients that are GradientRows.
  [[nodiscard]] Rows const& rows() const { return rows_; }
  /// Of this rank's part of each bucket, one behind the other, where Program::state_shares > 1.
  [[nodiscard]] P* state(int s) const {
    return states_.template as<P>() + s * Program::state_elements;
  }
  /// Sums of finished leaves that wait for their sibling in the tree.
  [[nodiscard]] int waiting_leaves() const { return waiting_leaves_; }

 protected:
  static std::int64_t size(Buffer const& b) { return static_cast<std::int64_t>(b.bytes()); }
  [[nodiscard]] std::int64_t parameter_bytes() const { return size(parameters_); }
  [[nodiscard]] std::int64_t version_bytes() const { return size(versions_); }
  [[nodiscard]] std::int64_t weight_bytes() const { return size(weights_); }
  [[nodiscard]] std::int64_t gradient_bytes() const { return size(gradients_) + rows_.bytes(); }
  [[nodiscard]] std::int64_t state_bytes() const { return size(states_); }

 private:
  static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(P);
  }

  int waiting_leaves_;
  Buffer parameters_;
  Buffer versions_;
  Buffer weights_;
  Buffer gradients_;
  Buffer states_;
  Rows rows_;
};

}  // namespace tandem
