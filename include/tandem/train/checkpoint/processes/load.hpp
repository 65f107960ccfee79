// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// load_checkpoint: of several processes one reads what all are to know of a checkpoint, and each
/// tensor is read by one of those that need it, which passes it on to the others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/two_models.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>

namespace tandem::detail {

/// The tensors of one load on their way into this process's memory.
class CheckpointTransfer {
 public:
  /// Reads this process's share, and makes room for what is still needed beside its place.
  /// @param file  of the outline
  /// @param sees  which processes see the checkpoint
  /// @throws FileError  a tensor cannot be read, or is damaged; or this process does not see the
  ///                    checkpoint, and nobody can send it
  TANDEM_ONCE void prepare(ProcessGroup const& group, std::string const& path,
                           CheckpointStart const& start, CheckpointOutline const& outline,
                           Safetensors& file, CheckpointNeeds const& needs,
                           std::vector<CheckpointCopy> const& copies, std::vector<bool> const& sees,
                           LoadedBytes& bytes);

  /// Passes on what was read, and takes what comes. All processes call it.
  TANDEM_ONCE void pass_on(ProcessGroup& group, Safetensors const& file, LoadedBytes& bytes);

 private:
  static constexpr std::size_t piece = std::size_t{1} << 20;

  TANDEM_ONCE void pass_on(ProcessGroup& group, CheckpointParcel const& parcel,
                           ParcelPlace const& place, Safetensors const& file, LoadedBytes& bytes);

  /// How far a parcel has come.
  struct Cursor {
    std::size_t tensor = 0;  // of the parcel
    std::size_t at = 0;      // in it
  };

  /// f(tensor, where in it, part of @p some) of what comes next.
  template <class F>
  void each_part(Cursor& cursor, CheckpointParcel const& parcel, std::span<std::byte> some,
                 F const& f) const {
    while (!some.empty()) {
      std::size_t const tensor = parcel.tensors[cursor.tensor];
      std::size_t const rest = static_cast<std::size_t>(sizes_[tensor]) - cursor.at;
      std::size_t const count = std::min(rest, some.size());
      if (count > 0) {
        f(tensor, cursor.at, some.first(count));
      }
      some = some.subspan(count);
      cursor =
          count == rest ? Cursor{cursor.tensor + 1, 0} : Cursor{cursor.tensor, cursor.at + count};
    }
  }

  std::vector<std::int64_t> sizes_;  // of the tensors
  std::vector<CheckpointParcel> parcels_;
  std::vector<std::vector<std::byte*>> targets_;  // of each tensor that comes: where it is to be
  std::vector<double> numbers_;
};

}  // namespace tandem::detail

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

TANDEM_ONCE void CheckpointTransfer::prepare(ProcessGroup const& group, std::string const& path,
                                             CheckpointStart const& start,
                                             CheckpointOutline const& outline, Safetensors& file,
                                             CheckpointNeeds const& needs,
                                             std::vector<CheckpointCopy> const& copies,
                                             std::vector<bool> const& sees, LoadedBytes& bytes) {
  std::vector<TensorView> const& tensors = file.tensors();
  for (TensorView const& tensor : tensors) {
    sizes_.push_back(*tensor_bytes(tensor.dtype, tensor.shape));
  }
  std::vector<int> const reader = deal_readers(sizes_, needs, sees);
  bool const alone = !group.passes_on();
  if (alone && !sees[static_cast<std::size_t>(group.process())]) {
    throw FileError{path, "process " + std::to_string(group.process()) +
                              " does not see the checkpoint that process 0 sees, and this "
                              "transport cannot send it; put it where all see it"};
  }
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (alone ? needs.has(i, group.process()) : reader[i] == group.process()) {
      own.push_back(i);
    }
  }
  read_places(start, outline, file, std::move(own), bytes);
  if (alone) {
    return;
  }
  parcels_ = parcels_of(needs, reader);
  targets_.resize(tensors.size());
  for (CheckpointCopy const& copy : copies) {  // a mean needs both tensors at once
    for (TensorView const* const tensor : {copy.from, copy.second}) {
      if (copy.second != nullptr && tensor->data.empty()) {
        std::size_t const i = file.index_of(*tensor);
        targets_[i] = {file.make_room(i).data()};
      }
    }
  }
  for (CheckpointCopy const& copy : copies) {
    if (copy.from->data.empty()) {
      targets_[file.index_of(*copy.from)].push_back(copy.to);
    }
  }
  numbers_.resize(piece / sizeof(double));
}

TANDEM_ONCE void CheckpointTransfer::pass_on(ProcessGroup& group, Safetensors const& file,
                                             LoadedBytes& bytes) {
  for (CheckpointParcel const& parcel : parcels_) {
    ParcelPlace const place = place_in(parcel, group.process());
    if (place.takes_part) {
      pass_on(group, parcel, place, file, bytes);
    }
  }
}

TANDEM_ONCE void CheckpointTransfer::pass_on(ProcessGroup& group, CheckpointParcel const& parcel,
                                             ParcelPlace const& place, Safetensors const& file,
                                             LoadedBytes& bytes) {
  std::size_t left = 0;
  for (std::size_t const tensor : parcel.tensors) {
    left += static_cast<std::size_t>(sizes_[tensor]);
  }
  auto* const buffer = reinterpret_cast<std::byte*>(numbers_.data());
  Cursor sent;
  Cursor taken;
  for (; left > 0; left -= std::min(left, piece)) {
    std::size_t const count = std::min(left, piece);
    std::span<std::byte> const some{buffer, count};
    if (place.from < 0) {
      each_part(sent, parcel, some, [&](std::size_t tensor, std::size_t at, auto part) {
        std::memcpy(part.data(), file.tensors()[tensor].data.data() + at, part.size());
      });
    }
    group.pass_on(std::span{numbers_}.first((count + sizeof(double) - 1) / sizeof(double)),
                  place.from, place.to);
    if (place.from >= 0) {
      bytes.received += static_cast<std::int64_t>(count);
      each_part(taken, parcel, some, [&](std::size_t tensor, std::size_t at, auto part) {
        for (std::byte* const to : targets_[tensor]) {
          std::memcpy(to + at, part.data(), part.size());
        }
      });
    }
  }
}

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
