// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointTransfer: a process's share of a checkpoint is read, and then goes to the others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/plan.hpp>
#include <tandem/train/checkpoint/processes/group.hpp>
#include <tandem/train/checkpoint/processes/outline.hpp>
#include <tandem/train/checkpoint/processes/sharing.hpp>

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

}  // namespace tandem::detail

#endif
