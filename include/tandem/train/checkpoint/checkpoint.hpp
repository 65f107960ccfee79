// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checkpoints: one logical, unsharded safetensors file that every strategy writes and reads.
///
/// Tensors: each parameter and statistic under its name ("1.0.0.weight", "1.0.1.running_mean"),
/// each optimizer state as "optimizer.<state>.<name>" ("optimizer.momentum_buffer.1.0.0.weight"),
/// and the position as 64-bit integers of one element: tandem.step, tandem.epoch, tandem.position
/// (samples of the epoch already trained on), tandem.seed; where the learning rate was set while
/// training, tandem.learning_rate as a double; where the loss is scaled, tandem.loss_scale as a
/// float, tandem.loss_scale_steps and tandem.skipped_steps; what the trainer's Plateaus have
/// counted, tandem.plateaus (4, 3) as doubles; of a weight with fewer updates than the run has
/// steps, since a ParameterGroup froze it, tandem.updates.<name> counts them; averages of weights
/// are "average.<name>"; states of Stateful layers, (samples, numbers), are "state.<path>.h" and
/// "state.<path>.c". Shapes are those of PyTorch's layers of the same name. Of two models that may
/// differ the second one's parameters are there, too, their names behind "second."; a strategy with
/// one model reads the mean of both, and one with two gives both what a file has for one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/check_finite.hpp>
#include <tandem/train/checkpoint/folder/write.hpp>
#include <tandem/train/plateau.hpp>

namespace tandem {

/// How often a weight was updated: less often than the run has steps if a ParameterGroup freezes
/// it, or has frozen it.
struct WeightUpdates {
  std::string name{};
  int index = 0;  ///< in the network's order
  bool frozen = false;
  std::int64_t count = 0;  ///< of one that is frozen its updates, else the steps that it missed
};

/// Where training stands. Random numbers need nothing else.
struct TrainingPosition {
  std::int64_t step = 0;      ///< steps taken
  std::int64_t epoch = 0;     ///< the epoch at work
  std::int64_t position = 0;  ///< samples of it already trained on
  std::int64_t seed = 0;
  /// In place of the optimizer's, before schedule and groups; -1: the optimizer's.
  double learning_rate = -1.0;
  LossScale scaling{};                     ///< of the next step's loss, where losses are scaled
  std::array<PlateauState, 4> plateaus{};  ///< of the trainer's Plateaus, as they were made
  /// Of a network with Stateful layers: samples whose states go on; 0: they begin.
  int streams = 0;

  /// Updates of a trainer's weights, or of those that a file counts by themselves; null: none.
  std::shared_ptr<std::vector<WeightUpdates> const> weights{};
  std::vector<std::int64_t> written{};  ///< updates of each of them, while a checkpoint is written

  [[nodiscard]] bool has_learning_rate() const { return learning_rate >= 0.0; }
  /// The updates of a weight that no group has frozen.
  [[nodiscard]] std::int64_t updates() const { return step - scaling.skipped; }
};

namespace detail {

inline constexpr char const* learning_rate_field = "tandem.learning_rate";

inline constexpr char const* plateaus_field = "tandem.plateaus";
TANDEM_ONCE TensorView view_of_plateaus(std::span<PlateauState> plateaus);
inline constexpr std::string_view updates_field = "tandem.updates.";  // and the weight's name

inline constexpr char const* loss_scale_field = "tandem.loss_scale";
struct ScalingField {
  char const* name;
  std::int64_t LossScale::*field;
};
inline constexpr ScalingField scaling_fields[] = {{"tandem.loss_scale_steps", &LossScale::good},
                                                  {"tandem.skipped_steps", &LossScale::skipped}};

struct PositionField {
  char const* name;
  std::int64_t TrainingPosition::*field;
};
inline constexpr PositionField position_fields[] = {
    {"tandem.step", &TrainingPosition::step},
    {"tandem.epoch", &TrainingPosition::epoch},
    {"tandem.position", &TrainingPosition::position},
    {"tandem.seed", &TrainingPosition::seed}};

TANDEM_ONCE std::vector<std::int64_t> extents(Shape const& shape);

template <class T>
TensorView view_of(std::string name, Shape const& shape, std::span<T> values) {
  return {std::move(name), dtype_of<T>, extents(shape), std::as_bytes(values)};
}

/// Parameters of whatever type, and other tensors of a checkpoint that are of it.
struct SavedModel {
  std::vector<NamedParameter<std::byte>> parameters{};  ///< without gradients
  Dtype dtype = Dtype::F32;
  std::vector<TensorView> states{};  ///< of Stateful layers
};

template <class T>
TANDEM_COLD SavedModel saved_model(std::vector<NamedParameter<T>> const& parameters,
                                   std::vector<NamedState<T>> const& states = {}, int streams = 0) {
  SavedModel model{.parameters = std::vector<NamedParameter<std::byte>>(parameters.size()),
                   .dtype = dtype_of<T>,
                   .states = std::vector<TensorView>(states.size())};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NamedParameter<T> const& p = parameters[i];
    NamedParameter<std::byte>& own = model.parameters[i];
    own.name = p.name;
    own.index = p.index;
    own.shape = p.shape;
    own.owner = p.owner;
    own.value = std::as_bytes(p.value);
    own.average = std::as_bytes(p.average);
    for (std::span<T const> const state : p.states) {
      own.states.push_back(std::as_bytes(state));
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    model.states[i] = view_of(states[i].name, {2, {streams, states[i].numbers}},
                              std::span<T const>{states[i].value});
  }
  return model;
}

/// Tensors of the parameters and of the optimizer's states.
TANDEM_ONCE TANDEM_COLD std::vector<TensorView> checkpoint_tensors(
    SavedModel const& model, std::vector<std::string> const& state_names);

/// Tensors of the averages of weights, in the order of the parameters that have one.
TANDEM_ONCE TANDEM_COLD std::vector<TensorView> average_tensors(SavedModel const& model);

/// Of a parameter that several layers share, one alone.
template <class T>
std::vector<NamedParameter<T>> each_once(std::vector<NamedParameter<T>> list) {
  std::erase_if(list, [](NamedParameter<T> const& p) { return p.owner != p.index; });
  return list;
}

/// Views of @p position: the updates of each weight that differ from the run's steps.
TANDEM_ONCE TANDEM_COLD void add_updates(TrainingPosition& position,
                                         std::vector<TensorView>& tensors);

/// All tensors of a checkpoint. Those of the position are views of @p position, which outlives
/// them.
TANDEM_ONCE TANDEM_COLD std::vector<TensorView> all_checkpoint_tensors(
    SavedModel model, std::vector<std::string> const& state_names, TrainingPosition& position);

inline SafetensorsMetadata checkpoint_metadata(std::string const& optimizer) {
  return {{"format", "tandem"}, {"version", "1"}, {"optimizer", optimizer}};
}

/// What a checkpoint's folder has; of @p position as above.
TANDEM_ONCE TANDEM_COLD CheckpointContents
checkpoint_contents(SavedModel model, std::vector<std::string> const& state_names,
                    TrainingPosition& position, std::string const& optimizer);

}  // namespace detail

/// Writes a checkpoint; a file of that name is replaced only when the new one is whole and synced.
/// @throws FileError  anything fails, or a number is inf or nan and refused; the old file is
/// untouched
template <class T>
void save_checkpoint(std::string const& path, std::vector<NamedParameter<T>> const& parameters,
                     std::vector<std::string> const& state_names, TrainingPosition position,
                     std::string const& optimizer, NonFinite non_finite = NonFinite::refused,
                     std::vector<NamedState<T>> const& states = {}) {
  auto const tensors = detail::all_checkpoint_tensors(
      detail::saved_model(parameters, states, position.streams), state_names, position);
  if (non_finite == NonFinite::refused) {
    check_finite(path, tensors);
  }
  write_safetensors(path, tensors, with_checksums(tensors, detail::checkpoint_metadata(optimizer)));
}

/// Writes parameters and statistics alone; a file of that name is replaced only when the new one is
/// whole and synced.
/// @throws FileError  anything fails, or a number is inf or nan and refused; the old file is
/// untouched
template <class T>
void save_parameters(std::string const& path, std::vector<NamedParameter<T>> const& parameters,
                     NonFinite non_finite = NonFinite::refused) {
  std::vector<TensorView> const tensors =
      detail::checkpoint_tensors(detail::saved_model(detail::each_once(parameters)), {});
  if (non_finite == NonFinite::refused) {
    check_finite(path, tensors);
  }
  write_safetensors(path, tensors,
                    with_checksums(tensors, {{"format", "tandem"}, {"version", "1"}}));
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE TensorView view_of_plateaus(std::span<PlateauState> plateaus) {
  return {plateaus_field, Dtype::F64, {std::ssize(plateaus), 3}, std::as_bytes(plateaus)};
}

TANDEM_ONCE std::vector<std::int64_t> extents(Shape const& shape) {
  std::vector<std::int64_t> list;
  for (int axis = 0; axis < shape.rank; ++axis) {
    list.push_back(shape[axis]);
  }
  return list;
}

TANDEM_ONCE std::vector<TensorView> checkpoint_tensors(
    SavedModel const& model, std::vector<std::string> const& state_names) {
  std::vector<TensorView> tensors;
  for (auto const& p : model.parameters) {
    tensors.push_back({p.name, model.dtype, extents(p.shape), p.value});
  }
  for (std::size_t s = 0; s < state_names.size(); ++s) {
    for (auto const& p : model.parameters) {
      if (s < p.states.size()) {
        tensors.push_back({"optimizer." + state_names[s] + "." + p.name, model.dtype,
                           extents(p.shape), p.states[s]});
      }
    }
  }
  return tensors;
}

TANDEM_ONCE std::vector<TensorView> average_tensors(SavedModel const& model) {
  std::vector<TensorView> tensors;
  for (auto const& p : model.parameters) {
    if (!p.average.empty()) {
      tensors.push_back({"average." + p.name, model.dtype, extents(p.shape), p.average});
    }
  }
  return tensors;
}

TANDEM_ONCE std::vector<TensorView> all_checkpoint_tensors(
    SavedModel model, std::vector<std::string> const& state_names, TrainingPosition& position) {
  model.parameters = each_once(std::move(model.parameters));
  std::vector<TensorView> tensors = checkpoint_tensors(model, state_names);
  std::vector<TensorView> const averages = average_tensors(model);
  tensors.insert(tensors.end(), averages.begin(), averages.end());
  tensors.insert(tensors.end(), model.states.begin(), model.states.end());
  for (PositionField const& field : position_fields) {
    tensors.push_back(
        view_of(field.name, vector_shape(1), std::span<std::int64_t>{&(position.*field.field), 1}));
  }
  add_updates(position, tensors);
  if (position.has_learning_rate()) {
    tensors.push_back(view_of(learning_rate_field, vector_shape(1),
                              std::span<double>{&position.learning_rate, 1}));
  }
  if (std::ranges::any_of(position.plateaus, [](auto const& own) { return own.step >= 0.0; })) {
    tensors.push_back(view_of_plateaus(position.plateaus));
  }
  if (position.scaling.on()) {
    tensors.push_back(
        view_of(loss_scale_field, vector_shape(1), std::span<float>{&position.scaling.scale, 1}));
    for (ScalingField const& field : scaling_fields) {
      tensors.push_back(view_of(field.name, vector_shape(1),
                                std::span<std::int64_t>{&(position.scaling.*field.field), 1}));
    }
  }
  return tensors;
}

TANDEM_ONCE CheckpointContents checkpoint_contents(SavedModel model,
                                                   std::vector<std::string> const& state_names,
                                                   TrainingPosition& position,
                                                   std::string const& optimizer) {
  return {.tensors = all_checkpoint_tensors(std::move(model), state_names, position),
          .metadata = checkpoint_metadata(optimizer),
          .about = {.step = position.step,
                    .epoch = position.epoch,
                    .position = position.position,
                    .seed = static_cast<std::uint64_t>(position.seed),
                    .optimizer = optimizer}};
}

TANDEM_ONCE void add_updates(TrainingPosition& position, std::vector<TensorView>& tensors) {
  position.written.assign(position.weights != nullptr ? position.weights->size() : 0, 0);
  for (std::size_t i = 0; i < position.written.size(); ++i) {
    WeightUpdates const& own = (*position.weights)[i];
    std::int64_t& updates = position.written[i];
    updates = own.frozen ? own.count : position.updates() - own.count;
    if (updates != position.updates()) {
      tensors.push_back(view_of(std::string{updates_field} + own.name, vector_shape(1),
                                std::span<std::int64_t>{&updates, 1}));
    }
  }
}

}  // namespace tandem::detail

#endif
