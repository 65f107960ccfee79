// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// load_checkpoint: of several processes one reads what all are to know of a checkpoint, and each
/// tensor is read by one of those that need it, which passes it on to the others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/load.hpp>
#include <tandem/train/checkpoint/plan.hpp>
#include <tandem/train/checkpoint/processes/group.hpp>
#include <tandem/train/checkpoint/processes/outline.hpp>
#include <tandem/train/checkpoint/processes/sharing.hpp>
#include <tandem/train/checkpoint/processes/transfer.hpp>
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/two_models.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>

namespace tandem {

namespace detail {

/// What process 0 has read of the checkpoint, in all. All call it.
/// @throws FileError  process 0 could not, in all of them
TANDEM_ONCE CheckpointStart start_in_all(ProcessGroup& group, std::string const& path,
                                         LoadedBytes& bytes);

/// Which processes see at @p path the checkpoint that process 0 sees. All call it.
TANDEM_ONCE std::vector<bool> who_sees(ProcessGroup& group, std::string const& path,
                                       CheckpointStart const& start);

/// @param all     tensors that all processes need
/// @param device  of each device of a replica: tensors that it needs; none where each process has
///                all of them
/// @param mesh    of all ranks
TANDEM_ONCE CheckpointNeeds needs_of(Safetensors const& file, int processes,
                                     std::vector<CheckpointCopy> const& all,
                                     std::span<std::vector<CheckpointCopy> const> device,
                                     Mesh const& mesh);

/// load_checkpoint() of several processes.
template <class Workers>
LoadedCheckpoint<typename Workers::P> load_over_processes(Workers& workers, World const& world,
                                                          std::string const& path,
                                                          CheckpointWanted<typename Workers::P> by,
                                                          LoadedBytes& bytes) {
  using T = typename Workers::P;
  workers.check_can(WorkKind::writes);
  WorkersAsProcesses<Workers> group{workers, world};
  CheckpointStart const start = start_in_all(group, path, bytes);
  std::vector<bool> const sees = who_sees(group, path, start);
  std::optional<LoadedCheckpoint<T>> loaded;
  CheckpointTransfer transfer;
  std::exception_ptr failure;
  try {
    CheckpointOutline outline = outline_of(path, start);
    loaded.emplace(LoadedCheckpoint<T>{.file = std::move(outline.tensors), .copies = {}});
    Replicas<typename Workers::Batch> const replicas{workers};
    by.whole = replicas.whole();
    std::vector<std::vector<NamedParameter<T>>> ranks = replicas.of_ranks();
    std::size_t const here = ranks.size();
    for (int d = 0; d < static_cast<int>(workers.facts().devices.size()); ++d) {  // of one replica
      if (workers.elsewhere().needed()) {
        auto list = workers.elsewhere().of(d);
        ranks.push_back(replicas.has_two() ? with_prefix(std::move(list)) : std::move(list));
      }
    }
    CheckpointPlan<T> plan = plan_checkpoint(loaded->file, path, by, ranks);
    std::span<std::vector<CheckpointCopy> const> const devices =
        std::span{plan.of_ranks}.subspan(here);
    std::vector<CheckpointCopy> all = plan.of_states;
    for (std::size_t r = 0; devices.empty() && r < here; ++r) {  // each process has whole replicas
      all.insert(all.end(), plan.of_ranks[r].begin(), plan.of_ranks[r].end());
    }
    CheckpointNeeds const needs =
        needs_of(loaded->file, world.processes, all, devices, workers.mesh());
    take_plan(*loaded, std::move(plan), here);
    transfer.prepare(group, path, start, outline, loaded->file, needs, loaded->copies, sees, bytes);
  } catch (...) {
    failure = std::current_exception();
  }
  fail_together(group, path, failure);
  transfer.pass_on(group, loaded->file, bytes);
  loaded->take();
  return *std::move(loaded);
}

}  // namespace detail

/// Loads a checkpoint, a file or a folder, into the parameters of all ranks, when it has been read
/// and checked in every process: else replicas would go on from different ones. All processes call
/// it. Of several, process 0 must see the checkpoint; each of the others that sees the same one
/// reads its share of what it needs, and what nobody who needs it sees process 0 reads.
/// @param by     but for the whole
/// @param bytes  gets what this process has read and received of tensors
/// Cost: of one process memory for the file; of several memory for what this process reads, and a
///       message of 1 MiB. Each tensor is read once, and sent to each other process that needs it.
/// @throws FileError  it is damaged, or of another network or optimizer, in all processes with the
///                    words of the first that has found it: nothing has changed then
template <class Workers>
LoadedCheckpoint<typename Workers::P> load_checkpoint(
    Workers& workers, World const& world, std::string const& path,
    detail::CheckpointWanted<typename Workers::P> by, LoadedBytes& bytes) {
  bytes = {};
  if (world.processes > 1) {
    return detail::load_over_processes(workers, world, path, std::move(by), bytes);
  }
  Replicas<typename Workers::Batch> const replicas{workers};
  auto loaded = replicas.load(path, [&] {
    return read_checkpoint(path, replicas.whole(), replicas.of_ranks(), by.state_names,
                           by.optimizer, std::move(by.states), by.most);
  });
  for (TensorView const& tensor : loaded.file.tensors()) {
    bytes.read += static_cast<std::int64_t>(tensor.data.size());
  }
  return loaded;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE CheckpointStart start_in_all(ProcessGroup& group, std::string const& path,
                                         LoadedBytes& bytes) {
  std::string text;
  std::exception_ptr failure;
  if (group.process() == 0) {
    try {
      text = to_text(read_start(path, bytes));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  fail_together(group, path, failure);
  return start_of(text_of_one(group, std::move(text)));
}

TANDEM_ONCE std::vector<bool> who_sees(ProcessGroup& group, std::string const& path,
                                       CheckpointStart const& start) {
  auto const same = [&] {
    try {
      return group.process() == 0 || known_by(path) == start.identity;
    } catch (FileError const&) {
      return false;
    }
  };
  std::vector<double> seen(static_cast<std::size_t>(group.processes()));
  seen[static_cast<std::size_t>(group.process())] = same() ? 1.0 : 0.0;
  group.add_up(seen);
  std::vector<bool> sees;
  for (double const one : seen) {
    sees.push_back(one > 0.0);
  }
  return sees;
}

TANDEM_ONCE CheckpointNeeds needs_of(Safetensors const& file, int processes,
                                     std::vector<CheckpointCopy> const& all,
                                     std::span<std::vector<CheckpointCopy> const> device,
                                     Mesh const& mesh) {
  std::vector<std::vector<int>> devices(file.tensors().size());  // that need a tensor, sorted
  auto const each = [&](std::vector<CheckpointCopy> const& copies, auto const& f) {
    for (CheckpointCopy const& copy : copies) {
      for (TensorView const* const tensor : {copy.from, copy.second}) {
        if (tensor != nullptr) {
          f(file.index_of(*tensor));
        }
      }
    }
  };
  for (std::size_t d = 0; d < device.size(); ++d) {
    each(device[d], [&](std::size_t tensor) {
      if (devices[tensor].empty() || devices[tensor].back() != static_cast<int>(d)) {
        devices[tensor].push_back(static_cast<int>(d));
      }
    });
  }
  CheckpointNeeds needs;
  std::vector<int>& everybody = needs.sets.emplace_back();
  for (int p = 0; p < processes; ++p) {
    everybody.push_back(p);
  }
  std::vector<std::vector<int>> known(1);  // devices of each set
  int const ranks = mesh.size() / processes;
  for (std::vector<int> const& own : devices) {
    auto const at = std::ranges::find(known, own) - known.begin();
    if (at == std::ssize(known)) {
      known.push_back(own);
      std::vector<int>& set = needs.sets.emplace_back();
      for (int rank = 0; rank < mesh.size(); ++rank) {
        bool const has = std::ranges::binary_search(own, mesh.coordinate(rank, Axis::model));
        if (has && (set.empty() || set.back() != rank / ranks)) {
          set.push_back(rank / ranks);
        }
      }
    }
    needs.set.push_back(own.empty() ? CheckpointNeeds::none : static_cast<int>(at));
  }
  each(all, [&](std::size_t tensor) { needs.set[tensor] = 0; });
  return needs;
}

}  // namespace tandem::detail

#endif
