// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterMemory: the parameters, gradients and optimizer states of one rank. ParameterMirror:
/// whether their memory is the host's.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/engine/links/no_part.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/memory/row_gradient_size.hpp>

namespace tandem {

/// Whether a backend has what GradientRows need.
template <class Backend>
concept HasRowVerbs = requires(typename Backend::Device& device,
                               GradientRows<typename Backend::Master> const& rows) {
  Verbs<Backend>::clear_rows(device, rows);
};

/// Of each such parameter, in the order of ParameterLayout::row_parameter: what one replica makes
/// of it, as many buffers as there are of dense gradients; what all replicas have made; their sum.
template <class Backend>
class RowGradients {
 public:
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;
  using Device = typename Backend::Device;

  TANDEM_COLD RowGradients(GraphView graph, LayoutView const& layout, Device& device,
                           RowGradientTask const& task) {
    for (int r = 0; r < layout.row_gradients; ++r) {
      Parameter const& parameter = graph.parameter[layout.row_parameter[r]].parameter;
      RowGradientSize const size{parameter, task, sizeof(P)};
      RowsTouched const touched = parameter.touched;
      RowScratch const scratch{.keys = task.batch * touched.of_sample + touched.of_step,
                               .most = size.most,
                               .block = size.block,
                               .limit = size.limit,
                               // What is drawn for the step is added apart from what samples name.
                               .accumulates = task.microbatches > 1 || touched.of_step > 0,
                               .tree = task.buffers > 1,
                               .replicas = task.replicas};
      std::int64_t const bytes = Verbs<Backend>::row_scratch_bytes(device, scratch);
      all_.push_back({size, Buffer{device, static_cast<std::size_t>(size.own)},
                      Buffer{device, static_cast<std::size_t>(size.gathered)},
                      Buffer{device, static_cast<std::size_t>(size.sum)},
                      Buffer{device, static_cast<std::size_t>(bytes)}});
      Entry& own = all_.back();
      for (int buffer = 0; buffer < task.buffers; ++buffer) {
        own.buffer.push_back(view(own, own.own, buffer * size.block, size.most));
        Verbs<Backend>::clear_rows(device, own.buffer.back());
      }
      for (int replica = 0; task.replicas > 1 && replica < task.replicas; ++replica) {
        own.replica.push_back(view(own, own.gathered, replica * size.block, size.most));
      }
      own.total = task.replicas > 1 ? view(own, own.sum, 0, size.all) : own.buffer.front();
      Verbs<Backend>::clear_rows(device, own.total);
    }
  }

  /// Buffer 0 takes those of the leaf at work, the others wait in the tree.
  [[nodiscard]] GradientRows<P> const& buffer(int r, int b = 0) const {
    return entry(r).buffer[static_cast<std::size_t>(b)];
  }
  /// The replicas' rows, once they have come.
  [[nodiscard]] std::vector<GradientRows<P>> const& replicas(int r) const {
    return entry(r).replica;
  }
  /// The sum over all replicas, what an update reads; of one replica buffer 0.
  [[nodiscard]] GradientRows<P> const& sum(int r) const { return entry(r).total; }

  /// Buffer 0 as it is sent, and where the replicas' are received.
  [[nodiscard]] std::span<P> sent(int r) const {
    return {entry(r).own.template as<P>(), elements(entry(r).size.block)};
  }
  [[nodiscard]] std::span<P> received(int r) const {
    return {entry(r).gathered.template as<P>(), elements(entry(r).size.gathered)};
  }
  [[nodiscard]] TANDEM_COLD std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (Entry const& own : all_) {
      sum += own.size.bytes();
    }
    return sum;
  }
  [[nodiscard]] TANDEM_COLD std::int64_t scratch_bytes() const {
    std::int64_t sum = 0;
    for (Entry const& own : all_) {
      sum += static_cast<std::int64_t>(own.scratch.bytes());
    }
    return sum;
  }

 private:
  struct Entry {
    RowGradientSize size;
    Buffer own;
    Buffer gathered;
    Buffer sum;
    Buffer scratch;
    std::vector<GradientRows<P>> buffer{};
    std::vector<GradientRows<P>> replica{};
    GradientRows<P> total{};
  };

  [[nodiscard]] Entry const& entry(int r) const { return all_[static_cast<std::size_t>(r)]; }
  static std::size_t elements(std::int64_t bytes) {
    return static_cast<std::size_t>(bytes) / sizeof(P);
  }
  static GradientRows<P> view(Entry const& own, Buffer const& buffer, std::int64_t offset,
                              std::int64_t most) {
    auto rows =
        gradient_rows(buffer.template as<P>() + offset / static_cast<std::int64_t>(sizeof(P)), most,
                      own.size.width);
    rows.limit = own.size.limit;
    rows.scratch = own.scratch.data();
    rows.scratch_bytes = static_cast<std::int64_t>(own.scratch.bytes());
    return rows;
  }

  std::vector<Entry> all_;
};

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
template <class Backend>
class ParameterMemory {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;
  using Device = typename Backend::Device;
  /// Whether products read parameters of another type than the optimizer keeps, and no op packs
  /// them.
  static constexpr bool mixed = !std::is_same_v<T, P> && !packs_weights<Backend>;
  using Rows = std::conditional_t<HasRowVerbs<Backend>, RowGradients<Backend>, NoPart>;

  /// @param tables      outlive this
  /// @param leaves  of one replica: runs of microbatches whose gradients a tree joins
  /// @param batch, microbatches  of its microbatches the largest, and how many these are
  /// @param replicas  where the strategy takes any number
  TANDEM_COLD ParameterMemory(DeviceTables const& tables, Device& device, int states, int leaves,
                              int batch, int microbatches, int replicas)
      : tables_{tables},
        waiting_leaves_{static_cast<int>(std::bit_width(static_cast<unsigned>(leaves))) - 1},
        parameters_{device, bytes(tables.parameter_elements)},
        versions_{device, bytes(tables.layout.trained) *
                              static_cast<std::size_t>(tables.places.count() - 1)},
        weights_{device, mixed ? static_cast<std::size_t>(tables.weight_elements) * sizeof(T) : 0},
        gradients_{device, bytes(tables.gradient_elements) *
                               (1 + static_cast<std::size_t>(waiting_leaves_))},
        states_{device, bytes(tables.state_elements) * static_cast<std::size_t>(states)},
        rows_{tables.graph, tables.layout, device,
              RowGradientTask{.batch = batch,
                              .microbatches = microbatches,
                              .replicas = tables.gradient_replicas(replicas),
                              .buffers = 1 + waiting_leaves_}} {}

  [[nodiscard]] DeviceTables const& tables() const { return tables_; }

  /// In the order of the layout; where a rank keeps its part alone, that, then the slots.
  [[nodiscard]] P* parameters() const { return parameters_.template as<P>(); }
  /// Slot 0 or 1, where parameters are gathered.
  [[nodiscard]] P* parameter_slot(int slot) const {
    return parameters() + tables_.state_elements + slot * tables_.parameter_slot;
  }
  /// Frozen parameters, in the order of the layout.
  [[nodiscard]] P* frozen() const {
    return tables_.sharded_parameters ? parameter_slot(2) : parameters() + layout().trained;
  }
  /// Where @p element is kept, and its neighbours of the same part.
  /// @param lag  of the rank's part; see OwnedRange
  [[nodiscard]] P* kept_parameters(std::int64_t element, std::int64_t lag) const {
    return parameters() + (tables_.sharded_parameters ? element - lag : element);
  }
  /// The trained parameters in one of the WeightPlaces; place 0 is parameters().
  [[nodiscard]] P* version(int place) const {
    return place == 0 ? parameters() : versions_.template as<P>() + (place - 1) * layout().trained;
  }
  /// Where ops read it. Frozen parameters have no versions.
  [[nodiscard]] P* parameter(int p, int place) const {
    std::int64_t const at = layout().offset[p];
    bool const trained = at < layout().trained;
    if (tables_.sharded_parameters && trained) {
      int const bucket = bucket_of(layout(), at);
      return parameter_slot(bucket & 1) + at - layout().bucket_begin[bucket];
    }
    if (tables_.sharded_parameters) {
      return frozen() + at - layout().trained;
    }
    return (trained ? version(place) : parameters()) + at;
  }
  /// The same as products read it; null where ops pack it.
  [[nodiscard]] T const* weight(int p, int place) const {
    if constexpr (std::is_same_v<T, P>) {
      return parameter(p, place);
    } else if (tables_.sharded_parameters) {
      return weights() + (parameter(p, place) - parameter_slot(0));
    } else {
      return weights() != nullptr ? weights() + layout().offset[p] : nullptr;
    }
  }
  /// The first @p count parameters of a slot, as products read them: behind what @p stream has
  /// brought.
  template <class Stream>
  void round_slot(Stream& stream, int slot, std::int64_t count) const {
    if constexpr (mixed) {
      Verbs<Backend>::cast_on(stream, static_cast<P const*>(parameter_slot(slot)),
                              weights() + slot * tables_.parameter_slot, count);
    }
  }
  /// Likewise what is frozen, where the others are in slots.
  void round_frozen(Device& device) const {
    if constexpr (mixed) {
      if (std::int64_t const count = layout().elements - layout().trained; count > 0) {
        Verbs<Backend>::cast(device, static_cast<P const*>(frozen()),
                             weights() + 2 * tables_.parameter_slot, count);
      }
    }
  }
  void copy_version(Device& device, int from, int to) const {
    Verbs<Backend>::copy(device, version(from), version(to), layout().trained);
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
    return gradients_.template as<P>() + buffer * layout().dense;
  }
  /// Where the gradients of @p bucket are made: in the array of them, or in a slot.
  [[nodiscard]] P* made_gradients(int bucket) const {
    return tables_.sharded_gradients ? gradient_slot(bucket & 1)
                                     : gradients() + layout().bucket_begin[bucket];
  }
  /// Slot 0 or 1, which stand behind this rank's part of the gradients.
  [[nodiscard]] P* gradient_slot(int slot) const {
    return gradients() + tables_.state_elements + slot * tables_.gradient_slot;
  }
  /// Where the sum of the gradient of @p element is, and its neighbours' of the same part.
  /// @param lag  of the rank's part; see OwnedRange
  [[nodiscard]] P* summed_gradients(std::int64_t element, std::int64_t lag) const {
    return gradients() + (tables_.sharded_gradients ? element - lag : element);
  }
  /// Gradients that are GradientRows.
  [[nodiscard]] Rows const& rows() const { return rows_; }
  /// Of this rank's part of each bucket, one behind the other, where DeviceTables::state_shares
  /// > 1.
  [[nodiscard]] P* state(int s) const {
    return states_.template as<P>() + s * tables_.state_elements;
  }
  /// Sums of finished leaves that wait for their sibling in the tree.
  [[nodiscard]] int waiting_leaves() const { return waiting_leaves_; }

 protected:
  [[nodiscard]] LayoutView const& layout() const { return tables_.layout; }
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

  DeviceTables const& tables_;
  int waiting_leaves_;
  Buffer parameters_;
  Buffer versions_;
  Buffer weights_;
  Buffer gradients_;
  Buffer states_;
  Rows rows_;
};

/// How the host has a device's parameters. The primary template is for devices whose memory is the
/// host's. Another backend's has `reorder(tables, values, end, to_device)`, which brings the
/// parameters that begin before element @p end of an array from the order of the network as the
/// user wrote it to that of the device, or back.
template <class Backend>
struct ParameterMirror {
  static constexpr bool is_memory = true;
};

}  // namespace tandem
