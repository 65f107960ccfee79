// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LoadedCheckpoint: a checkpoint that was read and checked, and what it will change; until it is
/// taken nothing has changed.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/io/safetensors/numbers.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/folder/read.hpp>
#include <tandem/train/checkpoint/plan.hpp>
#include <tandem/train/checkpoint/two_models.hpp>

namespace tandem {

/// What a load will do. All that can fail has been done when there is one.
template <class T>
struct LoadedCheckpoint {
  Safetensors file;
  std::vector<CheckpointCopy> copies;
  TrainingPosition position{};
  std::vector<NamedState<T>> states{};  ///< of Stateful layers, of position.streams samples
  std::vector<std::string> unused{};    ///< of load_weights(): tensors that nobody takes

  /// Copies, and rounds what is of another type to nearest. Allocates nothing, cannot fail.
  void take() const noexcept {
    for (CheckpointCopy const& copy : copies) {
      if (copy.second != nullptr) {
        take_mean<T>(copy.to, *copy.from, *copy.second);
      } else if (is_float(copy.from->dtype) && copy.from->dtype != dtype_of<T>) {
        auto const size = static_cast<std::int64_t>(copy.from->data.size());
        copy_numbers(copy.from->dtype, copy.from->data.data(), reinterpret_cast<T*>(copy.to), 1,
                     size / dtype_bytes(copy.from->dtype), false);
      } else if (!copy.from->data.empty()) {
        std::memcpy(copy.to, copy.from->data.data(), copy.from->data.size());
      }
    }
  }
};

namespace detail {

/// The plan's states and position, and copies of the first @p ranks of its ranks.
template <class T>
void take_plan(LoadedCheckpoint<T>& loaded, CheckpointPlan<T> plan, std::size_t ranks) {
  loaded.position = plan.position;
  loaded.states = std::move(plan.states);  // the memory of each stays where it is
  loaded.copies = std::move(plan.of_states);
  for (std::size_t r = 0; r < ranks; ++r) {
    loaded.copies.insert(loaded.copies.end(), plan.of_ranks[r].begin(), plan.of_ranks[r].end());
  }
}

}  // namespace detail

/// Reads and checks a checkpoint for @p ranks, the parameters of every rank. Where they have
/// averages and the file has none, these begin at its weights.
/// @param whole   all parameters of the network, of both models if they may differ
/// @param states  of Stateful layers, of no samples
/// @param most    samples whose states are taken; where the file has none they are 0
/// @throws FileError  the file is corrupt, lacks a tensor, has one too many, or one of another
/// shape
template <class T>
LoadedCheckpoint<T> read_checkpoint(std::string const& path,
                                    std::vector<NamedParameter<T>> const& whole,
                                    std::vector<std::vector<NamedParameter<T>>> const& ranks,
                                    std::vector<std::string> const& state_names,
                                    std::string const& optimizer,
                                    std::vector<NamedState<T>> states = {}, int most = 0) {
  LoadedCheckpoint<T> loaded{.file = detail::read_tensors(path), .copies = {}};
  detail::take_plan(loaded,
                    detail::plan_checkpoint(loaded.file, path,
                                            {.whole = whole,
                                             .state_names = state_names,
                                             .optimizer = optimizer,
                                             .states = std::move(states),
                                             .most = most},
                                            ranks),
                    ranks.size());
  return loaded;
}

}  // namespace tandem
