// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeviceMemory: how much memory the tensors of a device take at most. One function on values, for
/// fits<>, where the compiler knows them, and for the planner, which makes them up.
///
/// Gradients of activations are placed as an engine places them. What backward reads has memory of
/// its own; what it does not read shares memory where no layer works in place. Of a layer that does
/// not say which it is (Kept), all is taken to be read, but that a ReLU takes the memory of the
/// batch norm before it. Left out
/// is what only a backend knows: scratch memory, packed weights, batches and messages on their way,
/// and what layers of the user's own save; the start-up plan (MemoryReport) has all of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/scratch.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/gradient_arena.hpp>
#include <tandem/strategy/memory/gradient_lives.hpp>
#include <tandem/strategy/memory/row_gradient_size.hpp>
#include <tandem/strategy/memory/value_sizes.hpp>

namespace tandem {

namespace detail {

/// A graph's nodes, to be rewritten, for a size that is not part of a type.
class NodeCopies {
 public:
  int nodes;
  Node* node;
  int const* source;

  constexpr explicit NodeCopies(GraphView graph)
      : nodes{graph.nodes}, node{nullptr}, source{graph.source}, own_{graph.nodes} {
    node = own_.data();
    for (int n = 0; n < nodes; ++n) {
      node[n] = graph.node[n];
    }
  }

 private:
  Scratch<Node> own_;
};

/// As Readers.
struct NodeReaders {
  Scratch<int> count;
  Scratch<int> last;

  constexpr explicit NodeReaders(GraphView graph) : count{graph.nodes}, last{graph.nodes} {
    for (int n = 0; n < graph.nodes; ++n) {
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        ++count[graph.source[e]];
        last[graph.source[e]] = n;
      }
    }
  }
};

}  // namespace detail

/// Bytes of the gradients of a device's activations, at most: with the backends `Host` of portable
/// kernels, which computes ReLU and Dropout in place; Cuda, which fuses ReLU with batch norm,
/// activations with Linear and sums with norms, and places concatenations; and `Host` of oneDNN,
/// which merges convolutions instead of the two in the middle.
/// @param graph    as it is before rewrites
/// @param task     in_place is not read; apart: the strategy is Reproducible
/// @param passes   whose gradients are held at once
/// @param segment  of each node: its run that is computed again, or -1
/// @param streams  on which Cuda runs branches at the same time; 1: one after another
constexpr std::int64_t gradient_bound(GraphView graph, GradientTask task, int passes,
                                      int const* segment = nullptr, int streams = 1) {
  detail::Scratch<bool> in_place{graph.nodes};
  for (int n = 0; n < graph.nodes; ++n) {
    LayerKind const layer = graph.node[n].layer;
    in_place[n] = layer == LayerKind::relu || layer == LayerKind::dropout;
  }
  std::int64_t most = 0;
  auto const place_as = [&](bool const* places, Branches const* at_once) {
    task.in_place = places;
    task.branches = at_once;
    GradientArena const arena{graph, task};
    most = std::max(most, task.chunks * arena.outgoing_bytes + passes * arena.bytes);
  };
  auto const place = [&](bool const* places) {
    if (streams > 1) {
      Branches const at_once{graph, streams, segment};
      place_as(places, &at_once);
    } else {
      place_as(places, nullptr);
    }
  };
  place(in_place.data());

  detail::NodeReaders const readers{graph};
  detail::NodeCopies copy{graph};
  graph.node = copy.node;
  detail::Scratch<bool> const nowhere{graph.nodes};
  detail::fuse_relu_in(copy, readers);
  detail::materialise_flatten_in(copy);
  detail::place_concat_in(copy, readers);
  detail::NodeCopies fused{graph};
  bool again = detail::fuse_sum_in(fused, readers, segment);
  if (!task.apart) {
    again = detail::fuse_linear_in(fused, readers, segment) || again;
  }
  graph.node = fused.node;
  place(nowhere.data());

  graph.node = copy.node;
  if (!task.apart) {
    detail::absorb_bias_in(copy, readers);  // changes no gradient, but which convolutions merge
    again = detail::merge_pointwise_in(copy, readers, most_merged) || again;
  }
  if (again) {
    place(nowhere.data());
  }
  return most;
}

/// Bytes; upper bounds.
struct DeviceMemory {
  std::int64_t parameters = 0;
  std::int64_t versions = 0;   ///< further copies of the trained ones, where gradients are late;
                               ///< of PostValidated one, and of the optimizer's states
  std::int64_t weights = 0;    ///< copies in the type of products, where that is another
  std::int64_t gradients = 0;  ///< 1 + log2(leaves of a copy of the model) buffers, and rows
  std::int64_t optimizer_state = 0;
  std::int64_t states = 0;      ///< of Stateful layers, twice; from chunk to chunk, and back
  std::int64_t exchange = 0;    ///< averages of two models on their way
  std::int64_t kept = 0;        ///< activations of all live microbatches
  std::int64_t recomputed = 0;  ///< of one run of layers
  std::int64_t passing = 0;     ///< what backward does not read, beyond the memory of gradients
  std::int64_t activation_gradients =
      0;  ///< those that live at once, of one backward pass or of all not yet retired

  [[nodiscard]] constexpr std::int64_t total() const {
    return parameters + versions + weights + gradients + optimizer_state + states + exchange +
           kept + recomputed + passing + activation_gradients;
  }
  friend constexpr bool operator==(DeviceMemory const&, DeviceMemory const&) = default;
};

/// A stage of a device, for its memory.
struct StageMemory {
  int first = 0;  ///< nodes [first, last) of the device's graph
  int last = 0;
  int live = 1;      ///< microbatches that it holds at once
  int deferred = 0;  ///< of these: between the input gradient and the weight gradient, where apart
};

/// What a device trains, in values: what the compiler knows of a program, or a planner has made up.
struct MemoryTask {
  std::int64_t batch = 1;         ///< samples of the largest microbatch
  std::int64_t samples = 0;       ///< of all microbatches of the replica; 0: of one
  std::int64_t master_bytes = 4;  ///< of an element of parameters, gradients and states
  std::int64_t scalar_bytes = 4;  ///< of activations, and of weights in products
  std::int64_t elements = 0;      ///< of the array of parameters
  std::int64_t read = 0;          ///< of the array of rounded ones, where products read such
  std::int64_t trained = 0;       ///< of those that are not frozen
  std::int64_t dense = 0;         ///< of a buffer of gradients that are not GradientRows
  int microbatches = 1;           ///< of a replica, each counted once for each of its chunks
  int chunks = 1;                 ///< of time
  int replicas = 1;
  int states = 1;             ///< arrays of the optimizer's state
  int state_shares = 1;       ///< equal parts of each, of which a device has one
  int gradients = 1;          ///< buffers
  int places = 1;             ///< of weights, as WeightPlaces::count()
  bool undoes = false;        ///< it keeps what an update changes, to take it back
  int branches = 1;           ///< streams on which those of joins run at the same time
  bool reproducible = false;  ///< the strategy is
  Averaging averaging{};
  StageMemory const* stage = nullptr;
  int stages = 0;
  int const* segment = nullptr;  ///< of each node: its run that is computed again, or -1
};

namespace detail {

/// What is kept, computed again and differentiated.
constexpr void count_activations(GraphView graph, MemoryTask const& task, DeviceMemory& memory) {
  ValueSizes const value{{graph, task.batch, task.scalar_bytes}, task.segment, task.master_bytes};
  KeptNodes const kept{graph, task.segment};
  int deferred = 0;
  std::int64_t segment = 0;
  for (int s = 0; s < task.stages; ++s) {
    StageMemory const& stage = task.stage[s];
    deferred = std::max(deferred, stage.deferred);
    for (int n = stage.first; n < stage.last; ++n) {
      bool const begins = n == stage.first || task.segment[n] != task.segment[n - 1];
      std::int64_t const bytes = value.of(n);
      segment = begins ? 0 : segment;
      if (kept.of[n]) {
        memory.kept += stage.live * (bytes + value.saved(n) * (task.segment[n] < 0 ? 1 : 0));
      }
      if (task.segment[n] >= 0) {
        segment += (kept.of[n] ? 0 : bytes) + value.saved(n);
        memory.recomputed = std::max(memory.recomputed, segment);
      }
    }
  }
  memory.activation_gradients = gradient_bound(graph,
                                               {.batch = task.batch,
                                                .element_bytes = task.scalar_bytes,
                                                .deferred = deferred > 0,
                                                .apart = task.reproducible,
                                                .chunks = task.chunks},
                                               std::max(deferred, 1), task.segment, task.branches);
  auto const count_passing = [&](PassingValues const& passing) {
    memory.passing = passing.bytes;
    if (deferred == 0 && !passing.again) {  // the memory of the gradients, which comes later
      std::int64_t const gradients =
          memory.activation_gradients - task.chunks * value.outgoing(task.reproducible);
      memory.passing = std::max<std::int64_t>(0, passing.bytes - gradients);
    }
  };
  if (task.branches > 1) {
    Branches const at_once{graph, task.branches, task.segment};
    count_passing(PassingValues{value, kept, &at_once});
  } else {
    count_passing(PassingValues{value, kept});
  }
}

}  // namespace detail

/// What a device needs at most that trains its part of a network, @p graph, in this way.
/// @pre task.stage and task.segment name all nodes of @p graph
constexpr DeviceMemory device_memory(GraphView graph, MemoryTask const& task) {
  std::int64_t const others = task.trained * (task.places - 1);
  bool const rounds = task.scalar_bytes != task.master_bytes;
  DeviceMemory memory{
      .parameters = task.elements * task.master_bytes,
      .versions =
          (others + (task.undoes ? task.trained * (1 + task.states) : 0)) * task.master_bytes,
      .weights = rounds ? (task.read + others) * task.scalar_bytes : 0,
      .gradients = task.dense * task.master_bytes * task.gradients,
      .optimizer_state = task.trained / task.state_shares * task.master_bytes * task.states};
  for (int p = 0; p < graph.parameters; ++p) {
    GraphParameter const& own = graph.parameter[p];
    if (own.parameter.touched.sparse() && !own.frozen) {
      memory.gradients += RowGradientSize{own.parameter,
                                          {.batch = task.batch,
                                           .microbatches = task.microbatches,
                                           .replicas = task.replicas,
                                           .buffers = task.gradients},
                                          task.master_bytes}
                              .bytes();
    }
  }
  if (task.averaging.has_buffer()) {
    bool const with_state = task.averaging.what == Averaged::weights_and_state;
    memory.exchange = task.trained * task.master_bytes * (1 + (with_state ? task.states : 0));
  }
  for (int n = 0; n < graph.nodes; ++n) {
    CarriedState const& own = graph.node[n].sequence.carried;
    memory.states +=
        2 * std::max(task.samples, task.batch) * own.bytes(task.master_bytes, task.scalar_bytes);
    CarriedState const& next = graph.node[n].sequence.hands_on;
    if (task.chunks > 1) {
      std::int64_t const state = own.any() ? 0 : next.bytes(task.master_bytes, task.scalar_bytes);
      std::int64_t const gradient = next.bytes(task.master_bytes, task.master_bytes);
      std::int64_t const rows = graph.node[n].sequence.hands_back * task.master_bytes;
      memory.states +=
          detail::aligned(task.batch * state) + detail::aligned(task.batch * (gradient + rows));
    }
  }
  detail::count_activations(graph, task, memory);
  return memory;
}

namespace detail {

/// What device @p own needs at most for steps of @p batch samples.
/// @param own   a DeviceProgram, or the DeviceTables of one
/// @param rows  of the program's actions
/// @param task  what neither says
template <class Device, class Rows>
constexpr DeviceMemory device_memory(Device const& own, Rows const& rows, StageMapView const& map,
                                     std::span<LocalStage const> stages, int batch,
                                     MemoryTask task) {
  Batching const& batching = own.batching;
  for (int leaves = batching.leaves_of_copy(map.copies); leaves > 1; leaves /= 2) {
    ++task.gradients;
  }
  int const held = held_gradients(rows, own.device, map, stages, batching.passes());
  auto const count = static_cast<int>(stages.size());
  Scratch<StageMemory> stage{count};
  for (int s = 0; s < count; ++s) {
    LocalStage const& local = stages[static_cast<std::size_t>(s)];
    int const deferred = std::max(held, deferred_microbatches(rows, map, local.id));
    stage[s] = {.first = local.first,
                .last = local.last,
                .live = own.places.rule.on()
                            ? own.places.live()
                            : whole_chunks(live_microbatches(rows, map, local.id), batching.chunks),
                .deferred = whole_chunks(deferred, batching.chunks)};
  }
  task.batch = largest_microbatch(batch, batching);
  task.samples = task.batch * batching.microbatches;
  task.elements = own.parameter_elements;
  task.read = own.weight_elements;
  task.trained = own.layout.trained;
  task.dense = own.gradient_elements;
  task.microbatches = batching.passes();
  task.chunks = batching.chunks;
  task.replicas = own.gradient_replicas(1);
  task.state_shares = own.state_shares;
  task.places = own.places.count();
  task.reproducible = batching.reproducible;
  task.stage = stage.data();
  task.stages = count;
  return tandem::device_memory(own.graph, task);
}

/// What the compiler knows of device @p Device::device.
template <class Device, class Precision>
constexpr DeviceMemory device_memory(int batch, int states, int branches = 1) {
  using Whole = typename Device::Program;
  return device_memory(Device{}, Whole::table, Whole::map, Device::stages.stage, batch,
                       {.master_bytes = sizeof(typename Precision::Master),
                        .scalar_bytes = sizeof(typename Precision::Scalar),
                        .states = states,
                        .undoes = Whole::post_validated,
                        .branches = branches,
                        .averaging = Whole::averaging,
                        .segment = Device::segments.of});
}

}  // namespace detail

}  // namespace tandem
