// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointPlan: what of a checkpoint is copied where, and that it is of this network and
/// optimizer. Of the tensors' data only those of the position are looked at.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/states.hpp>
#include <tandem/train/checkpoint/two_models.hpp>

namespace tandem {

/// Memory and the file's tensor that it will hold, or the mean of two.
struct CheckpointCopy {
  std::byte* to = nullptr;
  TensorView const* from = nullptr;
  TensorView const* second = nullptr;  ///< of the mean; else null
};

namespace detail {

// The tensor of @p file that has the name, type and shape of @p wanted.
TANDEM_ONCE TensorView const& matching(Safetensors const& file, std::string const& path,
                                       TensorView const& wanted);

// Where @p wanted is in memory.
inline std::byte* memory_of(TensorView const& wanted) {
  return const_cast<std::byte*>(wanted.data.data());
}

TANDEM_ONCE TrainingPosition read_position(Safetensors const& file, std::string const& path);

/// The weights of a network, of which none has been updated.
TANDEM_ONCE TANDEM_COLD std::shared_ptr<std::vector<WeightUpdates>> weights_of(
    GraphView network, std::vector<ParameterGroup> const& groups);

/// Gives @p weights the updates of a position that was read: the run's, unless it counts them by
/// themselves. Allocates nothing.
/// @param missed  of each parameter of the network, see set_missed()
TANDEM_ONCE TANDEM_COLD void take_updates(
    GraphView network, TrainingPosition& position,
    std::shared_ptr<std::vector<WeightUpdates>> const& weights,
    std::span<std::int64_t> missed) noexcept;

/// Whether a file has averages of weights.
TANDEM_ONCE bool has_averages(Safetensors const& file);

/// Every tensor of the file is a wanted one or a position.
void check_all_known(Safetensors const& file, std::string const& path,
                     std::vector<TensorView> const& wanted, auto const& states) {
  for (TensorView const& tensor : file.tensors()) {
    bool const known =
        tensor.name == plateaus_field || tensor.name == learning_rate_field ||
        tensor.name == loss_scale_field ||
        (tensor.name.starts_with(updates_field) &&
         std::ranges::any_of(wanted,
                             [&](TensorView const& w) {
                               return tensor.name.substr(updates_field.size()) == w.name;
                             })) ||
        std::ranges::any_of(scaling_fields,
                            [&](ScalingField const& field) { return tensor.name == field.name; }) ||
        std::ranges::any_of(wanted, [&](TensorView const& w) { return w.name == tensor.name; }) ||
        std::ranges::any_of(states, [&](auto const& s) { return s.name == tensor.name; }) ||
        std::ranges::any_of(position_fields,
                            [&](PositionField const& field) { return tensor.name == field.name; });
    if (!known) {
      throw FileError{path, "tensor '" + printable(tensor.name) +
                                "' is not of this network and optimizer; load_weights() reads the "
                                "parameters alone"};
    }
  }
}

/// Averages begin where their weights do, whose copies are planned.
template <class T>
void begin_averages(std::vector<CheckpointCopy>& copies,
                    std::vector<NamedParameter<T>> const& rank) {
  for (NamedParameter<T> const& p : rank) {
    if (!p.average.empty()) {
      auto const* const weight = reinterpret_cast<std::byte const*>(p.value.data());
      CheckpointCopy copy = *std::ranges::find(copies, weight, &CheckpointCopy::to);
      copy.to = reinterpret_cast<std::byte*>(writable(p.average).data());
      copies.push_back(copy);
    }
  }
}

/// Of a network and its trainer, for which a checkpoint is to be.
template <class T>
struct CheckpointWanted {
  /// All parameters of the network, of both models if they may differ.
  std::vector<NamedParameter<T>> whole{};
  std::vector<std::string> state_names{};
  std::string optimizer{};
  std::vector<NamedState<T>> states{};  ///< of Stateful layers, of no samples
  int most = 0;                         ///< samples whose states are taken
};

/// What is to be copied where.
template <class T>
struct CheckpointPlan {
  TrainingPosition position{};
  std::vector<NamedState<T>> states{};
  std::vector<CheckpointCopy> of_states{};
  std::vector<std::vector<CheckpointCopy>> of_ranks{};
};

/// Checks a checkpoint, of whose tensors only those of the position need to have data yet, and
/// plans it for @p ranks, each the parameters of one.
/// @param path  names it in errors
/// @throws FileError  as read_checkpoint(), but for tensors' data
template <class T>
CheckpointPlan<T> plan_checkpoint(Safetensors const& file, std::string const& path,
                                  CheckpointWanted<T> const& by,
                                  std::vector<std::vector<NamedParameter<T>>> const& ranks) {
  CheckpointPlan<T> plan;
  if (std::ranges::none_of(file.tensors(),
                           [](TensorView const& t) { return t.name.starts_with("tandem."); })) {
    throw FileError{path,
                    "this is no checkpoint but a model: it has no step, epoch and seed to go on "
                    "from; load_weights() reads the parameters"};
  }
  std::string const* const writer = file.find_metadata("optimizer");
  if (writer != nullptr && *writer != by.optimizer) {  // Adam and AdamW: states of the same names
    throw FileError{path, "the optimizer was " + printable(*writer) + ", but this trainer has " +
                              by.optimizer + "; load_weights() reads the parameters alone"};
  }
  bool const two =
      file.find(std::string{second_model} + without_prefix(by.whole)[0].name) != nullptr;
  std::vector<TensorView> wanted =
      checkpoint_tensors(saved_model(two ? by.whole : without_prefix(by.whole)), by.state_names);
  bool const mean = two && by.whole.back().copy == 0;
  if (mean) {
    for (TensorView const& tensor :
         checkpoint_tensors(saved_model(as_second(by.whole)), by.state_names)) {
      wanted.push_back(tensor);
    }
  }
  bool const averages = has_averages(file);
  std::vector<TensorView> const averaged = average_tensors(saved_model(by.whole));
  if (averages && averaged.empty()) {
    throw FileError{path,
                    "it has averages of weights, but this trainer keeps none; give "
                    "TrainerOptions::average, or load_weights() reads the parameters alone"};
  }
  if (averages) {
    wanted.insert(wanted.end(), averaged.begin(), averaged.end());
  }
  for (TensorView const& tensor : wanted) {
    static_cast<void>(matching(file, path, tensor));
  }
  plan.position = read_position(file, path);
  plan.states = by.states;
  check_all_known(file, path, wanted, plan.states);
  plan.position.streams = make_room_for_states(file, path, plan.states, by.most);
  for (NamedState<T>& state : plan.states) {
    if (!state.value.empty()) {
      plan.of_states.push_back(
          {reinterpret_cast<std::byte*>(state.value.data()), file.find(state.name)});
    }
  }
  for (auto const& rank : ranks) {
    std::vector<CheckpointCopy>& copies = plan.of_ranks.emplace_back();
    std::vector<TensorView> const own =
        checkpoint_tensors(saved_model(two ? rank : without_prefix(rank)), by.state_names);
    std::vector<TensorView> const second =  // of a state "optimizer.<state>.second.<name>"
        mean ? checkpoint_tensors(saved_model(as_second(rank)), by.state_names)
             : std::vector<TensorView>{};
    for (std::size_t i = 0; i < own.size(); ++i) {
      copies.push_back(
          {memory_of(own[i]), file.find(own[i].name), mean ? file.find(second[i].name) : nullptr});
    }
    if (averages) {
      for (TensorView const& tensor : average_tensors(saved_model(rank))) {
        copies.push_back({memory_of(tensor), file.find(tensor.name)});
      }
    } else {
      begin_averages(copies, rank);
    }
  }
  return plan;
}

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE TensorView const& matching(Safetensors const& file, std::string const& path,
                                       TensorView const& wanted) {
  TensorView const* const found = file.find(wanted.name);
  if (found == nullptr) {
    throw FileError{path, "tensor '" + wanted.name +
                              "' is missing; the file is of another network or optimizer"};
  }
  if (found->dtype != wanted.dtype || found->shape != wanted.shape) {
    auto const text = [](TensorView const& t) {
      std::string s = t.type();
      for (std::int64_t const extent : t.shape) {
        s += " " + std::to_string(extent);
      }
      return s;
    };
    throw FileError{path, "tensor '" + wanted.name + "' is (" + text(*found) +
                              "), but this trainer wants (" + text(wanted) + ")"};
  }
  return *found;
}

/// @param counts  what 2^53 bounds
TANDEM_ONCE void read_count(Safetensors const& file, std::string const& path, char const* name,
                            std::int64_t& value, bool counts) {
  constexpr std::int64_t most = std::int64_t{1} << 53;  // steps are counted in doubles, too
  TensorView const own = view_of(name, vector_shape(1), std::span<std::int64_t>{&value, 1});
  std::memcpy(&value, matching(file, path, own).data.data(), sizeof value);
  if (counts && (value < 0 || value > most)) {
    throw FileError{path, std::string{name} + " is " + std::to_string(value) +
                              ", which is not between 0 and 2^53, so no training has come "
                              "there; the file is corrupt"};
  }
}

TANDEM_ONCE TrainingPosition read_position(Safetensors const& file, std::string const& path) {
  TrainingPosition position;
  for (PositionField const& field : position_fields) {
    bool const counts = field.field != &TrainingPosition::seed;
    read_count(file, path, field.name, position.*field.field, counts);
  }
  if (file.find(loss_scale_field) != nullptr) {
    float& scale = position.scaling.scale;
    TensorView const own = view_of(loss_scale_field, vector_shape(1), std::span<float>{&scale, 1});
    std::memcpy(&scale, matching(file, path, own).data.data(), sizeof scale);
    if (!(scale > 0.0F && scale <= std::numeric_limits<float>::max())) {
      throw FileError{path, std::string{loss_scale_field} +
                                " is no finite number above 0; the file is corrupt"};
    }
    for (ScalingField const& field : scaling_fields) {
      read_count(file, path, field.name, position.scaling.*field.field, true);
    }
  }
  std::vector<WeightUpdates> weights;
  for (TensorView const& tensor : file.tensors()) {
    if (tensor.name.starts_with(updates_field)) {
      WeightUpdates& own = weights.emplace_back();
      own.name = tensor.name.substr(updates_field.size());
      read_count(file, path, tensor.name.c_str(), own.count, true);
    }
  }
  position.weights = std::make_shared<std::vector<WeightUpdates> const>(std::move(weights));
  if (file.find(learning_rate_field) != nullptr) {
    double& rate = position.learning_rate;
    TensorView const own =
        view_of(learning_rate_field, vector_shape(1), std::span<double>{&rate, 1});
    std::memcpy(&rate, matching(file, path, own).data.data(), sizeof rate);
    if (!(rate >= 0.0 && rate <= double{std::numeric_limits<float>::max()})) {
      throw FileError{path, std::string{learning_rate_field} +
                                " is no finite number of 0 or more; the file is corrupt"};
    }
  }
  if (file.find(plateaus_field) != nullptr) {
    auto& plateaus = position.plateaus;
    std::memcpy(plateaus.data(), matching(file, path, view_of_plateaus(plateaus)).data.data(),
                sizeof plateaus);
    for (PlateauState const& own : plateaus) {
      if (!(is_finite(own.best) && own.waited >= 0.0 && own.waited <= 0x1p53 && own.step >= -1.0 &&
            own.step <= 0x1p53)) {
        throw FileError{path, std::string{plateaus_field} +
                                  " has a number that no Plateau counts; the file is corrupt"};
      }
    }
  }
  return position;
}

TANDEM_ONCE std::shared_ptr<std::vector<WeightUpdates>> weights_of(
    GraphView network, std::vector<ParameterGroup> const& groups) {
  auto list = std::make_shared<std::vector<WeightUpdates>>();
  for (int p = 0; p < network.parameters; ++p) {
    GraphParameter const& own = network.parameter[p];
    if (!own.frozen && own.shared < 0 && own.parameter.role == Role::weight) {
      int const g = group_of(network, p, groups);
      list->push_back({.name = parameter_name(network, p),
                       .index = p,
                       .frozen = g >= 0 && groups[static_cast<std::size_t>(g)].frozen});
    }
  }
  return list;
}

TANDEM_ONCE void take_updates(GraphView network, TrainingPosition& position,
                              std::shared_ptr<std::vector<WeightUpdates>> const& weights,
                              std::span<std::int64_t> missed) noexcept {
  std::int64_t const all = position.updates();
  for (WeightUpdates& own : *weights) {
    auto const there = std::ranges::find(*position.weights, own.name, &WeightUpdates::name);
    std::int64_t const updates = there != position.weights->end() ? there->count : all;
    own.count = own.frozen ? updates : all - updates;
    for (int p = 0; !own.frozen && p < network.parameters; ++p) {
      if (network.parameter[p].owner() == own.index) {
        missed[static_cast<std::size_t>(p)] = own.count;
      }
    }
  }
  position.weights = weights;
}

TANDEM_ONCE bool has_averages(Safetensors const& file) {
  return std::ranges::any_of(file.tensors(),
                             [](TensorView const& t) { return t.name.starts_with("average."); });
}

}  // namespace tandem::detail

#endif
