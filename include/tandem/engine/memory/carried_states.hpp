// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CarriedStates: what the Stateful layers of a rank hand from step to step, for each sample of its
/// part of the global batch. CarriedChunks: what layers hand from chunk to chunk of time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/buffer_sizes.hpp>

namespace tandem {

/// One tensor of the states of the global batch, (samples, numbers), under its name in checkpoints.
template <class P>
struct NamedState {
  std::string name;
  int node = 0;    ///< index in the network's graph
  bool c = false;  ///< else h
  int numbers = 0;
  std::vector<P> value{};
};

/// Those of all Stateful layers of a network, zeros of @p samples samples: "state.<path>.h", and
/// behind it, of an Lstm, "state.<path>.c".
template <class P>
TANDEM_COLD std::vector<NamedState<P>> named_states(GraphView network, int samples) {
  std::vector<NamedState<P>> list;
  for (int n = 0; n < network.nodes; ++n) {
    CarriedState const& carried = network.node[n].sequence.carried;
    std::string const path = to_string(network.node[n].path);
    auto const add = [&](bool c, int numbers) TANDEM_COLD {
      if (numbers > 0) {
        list.push_back({.name = "state." + (path.empty() ? path : path + ".") + (c ? "c" : "h"),
                        .node = n,
                        .c = c,
                        .numbers = numbers,
                        .value = std::vector<P>(static_cast<std::size_t>(samples) *
                                                static_cast<std::size_t>(numbers))});
      }
    };
    add(false, carried.h);
    add(true, carried.c);
  }
  return list;
}

/// Where a step of training begins, unless one before it has failed that the host has not seen yet:
/// then what that one began with stays.
struct BeginStates {
  int const* stopped;  ///< an UpdateFlag in the device's memory
  std::uint64_t const* left;
  std::uint64_t* begun;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    if (*stopped != update_nothing) {
      begun[i] = left[i];
    }
  }
};

/// Whether a backend can keep them: it fills and copies words that are no numbers of its own.
template <class Backend>
concept KeepsStates = requires(typename Backend::Device& device, std::uint64_t* words) {
  Verbs<Backend>::zero(device, words, std::int64_t{1});
  Verbs<Backend>::copy(device, static_cast<std::uint64_t const*>(words), words, std::int64_t{1});
  Verbs<Backend>::each(device, std::int64_t{1}, BeginStates{});
};

/// In the device's memory. Twice: what the last step has left, and what a pass begins with, so that
/// it can be computed again, and a step that failed undone. Between steps of training the second
/// has the states of an evaluation, which do not disturb those of training.
///
/// All work is queued, in the order of the device, but for get() and put(), which wait.
template <class Backend>
class CarriedStates {
  using Device = typename Backend::Device;
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;

 public:
  /// @param needs    of each node's op
  /// @param samples  of the rank, at most
  TANDEM_COLD CarriedStates(Device& device, GraphView graph, std::vector<OpNeeds> const& needs,
                            std::int64_t samples)
      : graph_{graph},
        of_node_(places(graph, needs, samples)),
        left_{device, static_cast<std::size_t>(of_node_.back().offset)},
        begun_{device, static_cast<std::size_t>(of_node_.back().offset)} {
    clear(device);
  }

  /// All states are 0.
  void clear(Device& device) { zero(device, left_); }
  /// An evaluation begins, or each of its steps goes on where the one before has ended.
  void begin_evaluation(Device& device) { zero(device, begun_); }
  /// A step of training begins. @param stopped  as BeginStates has it; null: the host knows how the
  /// step before has ended
  void begin_step(Device& device, int const* stopped) {
    if (stopped == nullptr) {
      copy(device, left_, begun_);
    } else {
      Verbs<Backend>::each(device, word_count(left_),
                           BeginStates{stopped, words(left_), words(begun_)});
    }
  }
  /// It has failed: the states are those of before.
  void undo(Device& device) { copy(device, begun_, left_); }

  /// Points the operands of stage @p stage to what a pass from sample @p first of the rank on
  /// begins with, and to where it leaves what its samples have got to.
  template <class OperandsOf>
  void point(int stage, std::int64_t first, bool training, OperandsOf const& operands) const {
    for (int n = 0; n < graph_.nodes; ++n) {
      Place const& own = of_node_[static_cast<std::size_t>(n)];
      if (own.bytes > 0 && graph_.node[n].stage == stage) {
        std::int64_t const at = own.offset + first * own.bytes;
        operands(n).sequence.carry = begun_.data() + at;
        operands(n).sequence.carried_on = (training ? left_ : begun_).data() + at;
      }
    }
  }

  /// Writes the rank's rows of @p all. @param own  of a batch of as many samples
  TANDEM_COLD void get(Device& device, std::vector<NamedState<P>>& all, RankMicrobatches const& own,
                       int parts) const {
    auto image = image_of(device);
    each_row(image, all, own, parts, [](auto* state, P* row, int numbers) {
      for (int i = 0; i < numbers; ++i) {
        row[i] = static_cast<P>(state[i]);
      }
    });
  }
  /// The other way round.
  TANDEM_COLD void put(Device& device, std::vector<NamedState<P>>& all, RankMicrobatches const& own,
                       int parts) {
    auto image = image_of(device);
    each_row(image, all, own, parts, [](auto* state, P const* row, int numbers) {
      for (int i = 0; i < numbers; ++i) {
        state[i] = static_cast<std::remove_pointer_t<decltype(state)>>(row[i]);
      }
    });
    Verbs<Backend>::from_host(device, bytes_of(image), left_.data(), left_.bytes());
  }

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(left_.bytes() + begun_.bytes());
  }

 private:
  struct Place {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;  // of a sample
  };

  // Of each node, and the end.
  TANDEM_COLD static std::vector<Place> places(GraphView graph, std::vector<OpNeeds> const& needs,
                                               std::int64_t samples) {
    std::vector<Place> list;
    std::int64_t offset = 0;
    for (int n = 0; n < graph.nodes; ++n) {
      bool const carries = graph.node[n].sequence.carried.any();
      Place const own{offset, carries ? needs[static_cast<std::size_t>(n)].carried_bytes : 0};
      list.push_back(own);
      offset += own.bytes * samples;
    }
    list.push_back({offset, 0});
    return list;
  }

  static std::uint64_t* words(Buffer const& of) {
    return reinterpret_cast<std::uint64_t*>(of.data());
  }
  static void zero(Device& device, Buffer const& what) {
    Verbs<Backend>::zero(device, words(what), word_count(what));
  }
  static void copy(Device& device, Buffer const& from, Buffer const& to) {
    Verbs<Backend>::copy(device, static_cast<std::uint64_t const*>(words(from)), words(to),
                         word_count(from));
  }
  static std::int64_t word_count(Buffer const& of) {
    return static_cast<std::int64_t>(of.bytes() / sizeof(std::uint64_t));
  }

  // What the last step has left, in the host's memory.
  static std::byte* bytes_of(std::vector<std::uint64_t>& image) {
    return reinterpret_cast<std::byte*>(image.data());
  }
  [[nodiscard]] TANDEM_COLD std::vector<std::uint64_t> image_of(Device& device) const {
    std::vector<std::uint64_t> image(static_cast<std::size_t>(word_count(left_)));
    Verbs<Backend>::to_host(device, left_.data(), bytes_of(image), left_.bytes());
    return image;
  }

  // f(the numbers of an image, those of the tensor, how many) of each sample that is this rank's.
  template <class F>
  void each_row(std::vector<std::uint64_t>& image, std::vector<NamedState<P>>& all,
                RankMicrobatches const& own, int parts, F const& f) const {
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      Place const& place = of_node_[static_cast<std::size_t>(n)];
      for (NamedState<P>& tensor : all) {
        if (tensor.node != node.origin || place.bytes == 0) {
          continue;
        }
        int const copy = node.stage / parts;
        for (std::int64_t b = own.begin(copy); b < own.end(copy); ++b) {
          std::byte* const state = bytes_of(image) + place.offset + (b - own.begin()) * place.bytes;
          P* const row = tensor.value.data() + b * tensor.numbers;
          if (tensor.c) {
            f(reinterpret_cast<P*>(state), row, tensor.numbers);
          } else {
            f(reinterpret_cast<T*>(state + node.sequence.carried.h_at(sizeof(P))), row,
              tensor.numbers);
          }
        }
      }
    }
  }

  GraphView graph_;
  std::vector<Place> of_node_;
  Buffer left_;
  Buffer begun_;
};

/// Of each node once, since a stage passes all chunks of a microbatch one after another: forward
/// from the first, which begins with nothing, backward from the last.
template <class Backend>
class CarriedChunks {
  using Device = typename Backend::Device;

 public:
  /// @param needs    of each node's op
  /// @param samples  of the largest microbatch
  TANDEM_COLD CarriedChunks(Device& device, GraphView graph, std::vector<OpNeeds> const& needs,
                            std::int64_t samples)
      : graph_{graph},
        of_node_{places(graph, needs, samples)},
        memory_{device, static_cast<std::size_t>(of_node_.back().state)} {
    for (int n = 0; n < graph.nodes; ++n) {
      next_.resize(std::max(next_.size(), 2 * static_cast<std::size_t>(graph.node[n].stage) + 2));
    }
  }

  /// Points the operands of stage @p stage to what a chunk begins with, and where it leaves what
  /// its rows have got to; those of Stateful layers to what CarriedStates has said already, but
  /// that a chunk behind the first goes on with what the one before has left. What looks at earlier
  /// rows finds those of the chunks before.
  /// @param operands  operands(n, 0) of node n, operands(n, 1) for the chunk before
  template <class OperandsOf>
  void point(int stage, bool first, OperandsOf const& operands) const {
    for (int n = 0; n < graph_.nodes; ++n) {
      Place const& own = of_node_[static_cast<std::size_t>(n)];
      if (graph_.node[n].stage != stage || !own.hands_on) {
        continue;
      }
      auto& of = operands(n, 0);
      of.sequence.apart = first ? 0 : of.x[0] - operands(n, 1).x[0];
      if (!graph_.node[n].sequence.carried.any()) {
        of.sequence.carry = of.sequence.carried_on = memory_.data() + own.state;
      } else if (!first) {
        of.sequence.carry = of.sequence.carried_on;
      }
      of.sequence.carry_gradient = memory_.data() + own.gradient;
    }
  }

  /// Before a pass of stage @p stage over rows [first, last) of @p all goes back.
  /// @param weights  it makes the gradients of weights alone
  /// @throws ContractError  the chunk behind it has not gone back just before
  void go_back(int stage, bool weights, int first, int last, int all) {
    int& next = next_[2 * static_cast<std::size_t>(stage) + (weights ? 1 : 0)];
    if (last != all && last != next) {
      throw ContractError{"Chunks<K>: stage " + std::to_string(stage) + " goes back through rows " +
                          std::to_string(first) + " to " + std::to_string(last) +
                          " of a microbatch before the rows behind them, whose gradient they need"};
    }
    next = first;
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.bytes()); }

 private:
  struct Place {
    std::int64_t state = 0;
    std::int64_t gradient = 0;
    bool hands_on = false;
  };

  // Of each node, and the end.
  TANDEM_COLD static std::vector<Place> places(GraphView graph, std::vector<OpNeeds> const& needs,
                                               std::int64_t samples) {
    std::vector<Place> list;
    std::int64_t offset = 0;
    for (int n = 0; n < graph.nodes; ++n) {
      OpNeeds const& own = needs[static_cast<std::size_t>(n)];
      bool const kept = graph.node[n].sequence.carried.any();
      std::int64_t const state = kept ? 0 : detail::aligned(samples * own.carried_bytes);
      list.push_back({offset, offset + state, own.carried_bytes + own.carried_gradient_bytes > 0});
      offset += state + detail::aligned(samples * own.carried_gradient_bytes);
    }
    list.push_back({offset, offset, false});
    return list;
  }

  GraphView graph_;
  std::vector<Place> of_node_;
  typename Backend::Buffer memory_;
  std::vector<int> next_;  // of a stage: where the rows end that go back next, of both kinds
};

}  // namespace tandem
