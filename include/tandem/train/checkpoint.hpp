// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checkpoints: one logical, unsharded safetensors file that every strategy writes and reads.
///
/// Tensors: each parameter and statistic under its name ("1.0.0.weight", "1.0.1.running_mean"),
/// each optimizer state as "optimizer.<state>.<name>" ("optimizer.momentum_buffer.1.0.0.weight"),
/// and the position as 64-bit integers of one element: tandem.step, tandem.epoch, tandem.position
/// (samples of the epoch already trained on), tandem.seed. Shapes are those of PyTorch's layers of
/// the same name. Of two models that may differ the second one's parameters are there, too, their
/// names behind "second."; a strategy with one model reads the mean of both, and one with two gives
/// both what a file has for one.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/engine/named_parameter.hpp>
#include <tandem/train/safetensors.hpp>
#include <tandem/train/two_models.hpp>

namespace tandem {

/// Where training stands. Random numbers need nothing else.
struct TrainingPosition {
  std::int64_t step = 0;      ///< steps taken
  std::int64_t epoch = 0;     ///< the epoch at work
  std::int64_t position = 0;  ///< samples of it already trained on
  std::int64_t seed = 0;
};

namespace detail {

struct PositionField {
  char const* name;
  std::int64_t TrainingPosition::*field;
};
inline constexpr PositionField position_fields[] = {
    {"tandem.step", &TrainingPosition::step},
    {"tandem.epoch", &TrainingPosition::epoch},
    {"tandem.position", &TrainingPosition::position},
    {"tandem.seed", &TrainingPosition::seed}};

template <class = void>  // compiled where it is called, not by every include
std::vector<std::int64_t> extents(Shape const& shape) {
  std::vector<std::int64_t> list;
  for (int axis = 0; axis < shape.rank; ++axis) {
    list.push_back(shape[axis]);
  }
  return list;
}

template <class T>
TensorView view_of(std::string name, Shape const& shape, std::span<T> values) {
  return {std::move(name), dtype_of<T>, extents(shape), std::as_bytes(values)};
}

// Every tensor of a checkpoint: name, shape and where its values are in memory.
template <class T>
std::vector<TensorView> checkpoint_tensors(std::vector<NamedParameter<T>> const& parameters,
                                           std::vector<std::string> const& state_names) {
  std::vector<TensorView> tensors;
  for (NamedParameter<T> const& p : parameters) {
    tensors.push_back(view_of(p.name, p.shape, p.value));
  }
  for (std::size_t s = 0; s < state_names.size(); ++s) {
    for (NamedParameter<T> const& p : parameters) {
      if (s < p.states.size()) {
        tensors.push_back(
            view_of("optimizer." + state_names[s] + "." + p.name, p.shape, p.states[s]));
      }
    }
  }
  return tensors;
}

// The tensor of @p file that has the name, type and shape of @p wanted.
template <class = void>
TensorView const& matching(Safetensors const& file, std::string const& path,
                           TensorView const& wanted) {
  TensorView const* const found = file.find(wanted.name);
  if (found == nullptr) {
    throw FileError{path, "tensor '" + wanted.name +
                              "' is missing; the file is of another network or optimizer"};
  }
  if (found->dtype != wanted.dtype || found->shape != wanted.shape) {
    auto const text = [](TensorView const& t) {
      std::string s{dtype_name(t.dtype)};
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

inline void copy_into(TensorView const& wanted, TensorView const& from) {
  std::memcpy(const_cast<std::byte*>(wanted.data.data()), from.data.data(), from.data.size());
}

template <class = void>
void take(std::vector<TensorView> const& wanted, Safetensors const& file) {
  for (TensorView const& own : wanted) {
    copy_into(own, *file.find(own.name));
  }
}

// Of each tensor and the second model's.
template <class T>
void take_means(std::vector<TensorView> const& wanted, std::vector<TensorView> const& second,
                Safetensors const& file) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    take_mean<T>(wanted[i].data.data(), *file.find(wanted[i].name), *file.find(second[i].name));
  }
}

}  // namespace detail

/// Writes a checkpoint; a file of that name is replaced only when the new one is whole and synced.
/// @throws FileError  anything fails; the old file is untouched
template <class T>
void save_checkpoint(std::string const& path, std::vector<NamedParameter<T>> const& parameters,
                     std::vector<std::string> const& state_names, TrainingPosition position,
                     std::string const& optimizer) {
  std::vector<TensorView> tensors = detail::checkpoint_tensors(parameters, state_names);
  for (detail::PositionField const& field : detail::position_fields) {
    tensors.push_back(detail::view_of(field.name, vector_shape(1),
                                      std::span<std::int64_t>{&(position.*field.field), 1}));
  }
  write_safetensors(path, tensors,
                    {{"format", "tandem"}, {"version", "1"}, {"optimizer", optimizer}});
}

/// Reads a checkpoint into @p ranks, the parameters of every rank. All is checked first: on an
/// error nothing has changed.
/// @param whole  all parameters of the network, of both models if they may differ
/// @throws FileError  the file is corrupt, lacks a tensor, has one too many, or one of another
/// shape
template <class T>
TrainingPosition load_checkpoint(std::string const& path,
                                 std::vector<NamedParameter<T>> const& whole,
                                 std::vector<std::vector<NamedParameter<T>>> const& ranks,
                                 std::vector<std::string> const& state_names,
                                 std::string const& optimizer) {
  Safetensors const file = Safetensors::read(path);
  std::string const* const writer = file.find_metadata("optimizer");
  if (writer != nullptr && *writer != optimizer) {  // Adam and AdamW have states of the same names
    throw FileError{path, "the optimizer was " + *writer + ", but this trainer has " + optimizer +
                              "; load_weights() reads the parameters alone"};
  }
  bool const two = file.find(std::string{second_model} + without_prefix(whole)[0].name) != nullptr;
  std::vector<TensorView> wanted =
      detail::checkpoint_tensors(two ? whole : without_prefix(whole), state_names);
  bool const mean = two && whole.back().copy == 0;
  if (mean) {
    for (TensorView const& tensor : detail::checkpoint_tensors(as_second(whole), state_names)) {
      wanted.push_back(tensor);
    }
  }
  for (TensorView const& tensor : wanted) {
    static_cast<void>(detail::matching(file, path, tensor));
  }
  TrainingPosition position;
  for (detail::PositionField const& field : detail::position_fields) {
    std::int64_t& value = position.*field.field;
    std::span<std::int64_t> const memory{&value, 1};
    TensorView const own = detail::view_of(field.name, vector_shape(1), memory);
    detail::copy_into(own, detail::matching(file, path, own));
  }
  if (position.step < 0 || position.epoch < 0 || position.position < 0) {
    throw FileError{path, "a position is negative; the file is corrupt"};
  }
  for (TensorView const& tensor : file.tensors()) {
    bool const known =
        std::ranges::any_of(wanted, [&](TensorView const& w) { return w.name == tensor.name; }) ||
        std::ranges::any_of(detail::position_fields, [&](detail::PositionField const& field) {
          return tensor.name == field.name;
        });
    if (!known) {
      throw FileError{path, "tensor '" + tensor.name +
                                "' is not of this network and optimizer; load_weights() reads the "
                                "parameters alone"};
    }
  }
  for (auto const& rank : ranks) {
    detail::take(detail::checkpoint_tensors(two ? rank : without_prefix(rank), state_names), file);
    if (mean) {
      detail::take_means<T>(detail::checkpoint_tensors(rank, state_names),
                            detail::checkpoint_tensors(as_second(rank), state_names), file);
    }
  }
  return position;
}

/// Writes parameters and statistics alone; a file of that name is replaced only when the new one is
/// whole and synced.
/// @throws FileError  anything fails; the old file is untouched
template <class T>
void save_parameters(std::string const& path, std::vector<NamedParameter<T>> const& parameters) {
  write_safetensors(path, detail::checkpoint_tensors(parameters, {}),
                    {{"format", "tandem"}, {"version", "1"}});
}

/// Reads parameters and statistics only, whoever wrote the file; other tensors are ignored.
/// @throws FileError  the file is corrupt, lacks a parameter, or has one of another shape
template <class T>
void load_parameters(std::string const& path, std::vector<NamedParameter<T>> const& whole,
                     std::vector<std::vector<NamedParameter<T>>> const& ranks) {
  Safetensors const file = Safetensors::read(path);
  std::vector<std::string> const no_states;
  for (TensorView const& tensor : detail::checkpoint_tensors(without_prefix(whole), no_states)) {
    static_cast<void>(detail::matching(file, path, tensor));
  }
  for (auto const& rank : ranks) {
    detail::take(detail::checkpoint_tensors(without_prefix(rank), no_states), file);
  }
}

}  // namespace tandem
