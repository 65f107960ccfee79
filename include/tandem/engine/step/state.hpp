// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepBatch: the data of one step; StepResult: what it gives back;
/// StepKey: what the work of a step depends on.

#include <cstdint>
#include <type_traits>

#include <tandem/core/loss_scaling.hpp>
#include <tandem/core/metric_values.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/step_state.hpp>

namespace tandem {

/// The second of two inputs of a batch.
template <class In>
struct StepInput {
  In const* x = nullptr;                  ///< (size, time)
  int time = 0;                           ///< rows of each sample; 0: the most
  std::int32_t const* lengths = nullptr;  ///< (size): how many of them count; null: all
};

/// One global batch, the same on every rank of a process: each takes its own microbatches of it.
/// @tparam In  of the network's input: T, or std::int32_t of indices
template <class T, class Target, class In = T>
struct StepBatch {
  using Scalar = T;
  using TargetType = Target;
  using Input = In;
  In const* x = nullptr;            ///< (size, input)
  Target const* targets = nullptr;  ///< (size, targets a sample); null: predict only
  T* outputs = nullptr;             ///< (size, output), written if not null
  int size = 0;
  /// The sample that x, targets and second.x begin with, where this process has those of its ranks
  /// only, up to sample `to`. All else is of the whole batch.
  int from = 0;
  int to = -1;   ///< -1: size
  int time = 0;  ///< rows of each timed sample, and of its targets and outputs; 0: the most
  std::int32_t const* lengths = nullptr;  ///< (size): how many of them count; null: all
  StepInput<In> second{};                 ///< where the network has two inputs
  /// Of sequences that come in pieces: rows before these; -1: they are whole. Of two inputs the
  /// first comes with the piece of position 0, and with no other.
  int position = -1;
  /// With a position above 0: which sample of the batch before each goes on with, -1 for one that
  /// begins with zeros; both on one device, and taken by the same copy of the model. Null: each
  /// with its own.
  std::int32_t const* parents = nullptr;
  bool begins = false;      ///< of an evaluation: the states of Stateful layers are 0 before it
  float* scores = nullptr;  ///< (size, limit), written if not null: logits of each last row
  /// (size, longest of the first input), on Host written if not null: how much of each of its rows
  /// the network's attention has taken so far.
  float* coverage = nullptr;
};

/// What the input of @p Program has: indices, or numbers, as the backend's parameters are.
template <class Program, class Backend>
using InputOf = std::conditional_t<(Program::network.node[0].limit > 0), std::int32_t,
                                   typename Backend::Master>;

/// The input of @p network of this number; of no shape where it has fewer.
constexpr Shape input_shape(GraphView network, int number) {
  Node const& node = network.node[number];
  return node.kind == NodeKind::input ? node.out : Shape{};
}
template <class Program>
constexpr Shape input_shape(int number) {
  return input_shape(Program::network, number);
}

/// The batches of a program's steps. @tparam Device  DeviceProgram
template <class Device, class Backend, class LossType>
using StepBatchOf = StepBatch<typename Backend::Master, typename LossType::Target,
                              InputOf<typename Device::Program, Backend>>;

/// Sums over the global batch, the same on every rank.
struct StepResult {
  double loss = 0.0;    ///< mean over the samples
  double metric = 0.0;  ///< mean over the samples that count; the first of several metrics
  /// Of what TrainerOptions::clip_norm bounds, before it does; 0 where that is off, unless the loss
  /// is scaled: then of a step that was skipped infinity.
  double gradient_norm = 0.0;
  /// First microbatch whose loss is not finite, or 0 where a gradient alone is not; -1: all are
  /// finite. The update is skipped.
  int non_finite = -1;
  /// Where all losses are finite: the first parameter of the network whose gradient is not.
  int bad_gradient = -1;
  int samples = 0;
  double weight = 0.0;   ///< what the loss is a mean over: the samples, or their targets
  double counted = 0.0;  ///< what metrics are means over, likewise
  MetricValues metrics{};
  double loss_scale = 0.0;  ///< what its loss was multiplied by; 0: loss scaling is off
  bool skipped = false;     ///< its gradient, so multiplied, was not finite: no weight has moved
  LossScale scaling{};      ///< of the next step

  /// Whether training cannot go on behind it; it has changed nothing then.
  [[nodiscard]] bool failed() const { return non_finite >= 0 || (skipped && scaling.lost()); }
};

/// Steps with the same key queue the same work.
struct StepKey {
  int samples = 0;              ///< of the global batch
  Times time{};                 ///< rows of each sample, where these are sequences
  bool lengths = false;         ///< some rows of some samples do not count
  bool second_lengths = false;  ///< the same of the second input
  int position = -1;            ///< rows before these, where a sequence comes in pieces
  bool training = false;
  bool targets = false;
  bool outputs = false;
  bool exchanges = false;  ///< two models are averaged
  bool clips = false;      ///< gradients may be scaled down to a largest norm

  friend bool operator==(StepKey const&, StepKey const&) = default;
};

}  // namespace tandem
