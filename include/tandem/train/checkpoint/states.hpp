// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The states of Stateful layers for a checkpoint: those of the whole batch, from all ranks and
/// processes, and back.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/over_processes.hpp>

namespace tandem {

/// Of a batch of @p samples samples; nothing where that is 0, or no layer is Stateful. All
/// processes call it.
template <class Workers>
std::vector<NamedState<typename Workers::P>> states_of(Workers& workers, int samples,
                                                       int processes) {
  using RankType = typename Workers::RankType;
  std::vector<NamedState<typename Workers::P>> all;
  if (!workers.facts().tables().stateful || samples == 0) {
    return all;
  }
  all = named_states<typename Workers::P>(workers.facts().tables().network, samples);
  for (int local = 0; local < workers.size(); ++local) {
    workers.run_on(
        local, [&](RankType& rank) { rank.get_states(samples, all); }, WorkKind::looks);
  }
  for (auto& tensor : all) {
    if (processes > 1) {
      add_over_processes(workers, std::span{tensor.value});  // each number is one process's
    }
  }
  return all;
}

/// Gives the ranks those of a batch of @p samples samples; all others are 0.
template <class Workers>
void take_states(Workers& workers, std::vector<NamedState<typename Workers::P>>& all, int samples) {
  using RankType = typename Workers::RankType;
  if (workers.facts().tables().stateful) {
    workers.run([&](RankType& rank) {
      rank.reset_states();
      if (samples > 0) {
        rank.put_states(samples, all);
      }
    });
  }
}

namespace detail {

inline constexpr char const* state_prefix = "state.";

/// Room for those of a file, as @p wanted of no samples names them; none where it has none of them.
/// @param most  samples
/// @returns samples
/// @throws FileError  one is missing, is of another shape, or of more samples than @p most
template <class P>
TANDEM_COLD int make_room_for_states(Safetensors const& file, std::string const& path,
                                     std::vector<NamedState<P>>& wanted, int most) {
  std::int64_t samples = 0;
  for (NamedState<P> const& own : wanted) {
    TensorView const* const found = file.find(own.name);
    samples = found != nullptr && found->shape.size() == 2 ? found->shape[0] : samples;
  }
  for (NamedState<P>& own : wanted) {
    TensorView const* const found = file.find(own.name);
    if (samples == 0 && found == nullptr) {
      continue;
    }
    std::vector<std::int64_t> const shape{samples, own.numbers};
    if (found == nullptr || found->dtype != dtype_of<P> || found->shape != shape) {
      throw FileError{path, "tensor '" + own.name + "' is missing or no (" +
                                std::to_string(samples) + ", " + std::to_string(own.numbers) +
                                ") of this trainer's precision; the file is of another network"};
    }
    if (samples > most) {
      throw FileError{path, "it has the states of " + std::to_string(samples) +
                                " samples a step, but TrainerOptions::batch is " +
                                std::to_string(most) + "; train with that batch"};
    }
    own.value.resize(static_cast<std::size_t>(samples * own.numbers));
  }
  return static_cast<int>(samples);
}

}  // namespace detail

}  // namespace tandem
