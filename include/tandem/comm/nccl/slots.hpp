// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::NcclSlots: all communicators of one process, by group and rank.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <nccl.h>

#include <tandem/comm/nccl/slot.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/runtime/cuda/device.hpp>

namespace tandem::detail {

/// The group of all ranks comes first, then each group's members that live in this process. Slots
/// do not move.
class NcclSlots {
 public:
  /// @pre the groups' ranks are some of @p ranks
  NcclSlots(int ranks, int first, std::span<cuda::Device const> devices,
            std::vector<RankSet> const& groups)
      : first_{first},
        progress_{std::make_unique<std::atomic<std::uint64_t>[]>(devices.size())},
        begin_{0, devices.size()} {
    auto const local = static_cast<int>(devices.size());
    auto const is_local = [&](int rank) { return rank >= first && rank < first + local; };
    for (RankSet const& set : groups) {
      begin_.push_back(begin_.back());
      for (int const rank : set.ranks) {
        begin_.back() += is_local(rank) ? 1U : 0U;
      }
    }
    slots_ = std::make_unique<NcclSlot[]>(begin_.back());
    auto const fill = [&](std::size_t at, int rank, int position, int size, int group) {
      auto const local_index = static_cast<std::size_t>(rank - first);
      NcclSlot& slot = slots_[at];
      slot.rank = rank;
      slot.position = position;
      slot.size = size;
      slot.group = group;
      slot.progress = &progress_[local_index];
      slot.make_word(devices[local_index]);
    };
    for (int i = 0; i < local; ++i) {
      fill(static_cast<std::size_t>(i), first + i, first + i, ranks, -1);
    }
    std::size_t at = devices.size();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      auto const size = static_cast<int>(groups[g].ranks.size());
      for (int position = 0; position < size; ++position) {
        int const rank = groups[g].ranks[static_cast<std::size_t>(position)];
        if (is_local(rank)) {
          fill(at++, rank, position, size, static_cast<int>(g));
        }
      }
    }
  }

  [[nodiscard]] std::span<NcclSlot> all() const { return {slots_.get(), begin_.back()}; }
  [[nodiscard]] int groups() const { return static_cast<int>(begin_.size()) - 2; }

  /// This process's members of @p group; of all ranks, for -1.
  [[nodiscard]] std::span<NcclSlot> of_group(int group) const {
    auto const g = static_cast<std::size_t>(group + 1);
    return all().subspan(begin_[g], begin_[g + 1] - begin_[g]);
  }

  /// The rank's slot in the group of all ranks. @pre it lives in this process
  [[nodiscard]] NcclSlot& of_rank(int rank) const {
    return slots_[static_cast<std::size_t>(rank - first_)];
  }

  /// In any group; null where it is no member.
  [[nodiscard]] NcclSlot* find(int rank, int group) const {
    for (NcclSlot& slot : of_group(group)) {
      if (slot.rank == rank) {
        return &slot;
      }
    }
    return nullptr;
  }

  [[nodiscard]] NcclLocks lock_all() const { return NcclLocks{all()}; }

  /// The open communicators, which nobody else will find any more: so each is aborted once.
  [[nodiscard]] std::vector<ncclComm_t> take_all() const {
    auto const locks = lock_all();
    std::vector<ncclComm_t> open;
    for (NcclSlot& slot : all()) {
      if (slot.comm != nullptr) {
        open.push_back(std::exchange(slot.comm, nullptr));
      }
    }
    return open;
  }

 private:
  int first_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> progress_;  // of each rank, for all its groups
  std::vector<std::size_t> begin_;  // of each group's slots, from group -1 on; and the end
  std::unique_ptr<NcclSlot[]> slots_;
};

}  // namespace tandem::detail
