// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences of an NcclGroup about ranks that did not come, as far as one process can tell.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include <tandem/comm/nccl/slot.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/transport_options.hpp>

namespace tandem::detail {

/// Begins the messages of a transport.
inline std::string nccl_prefix(TransportOptions const& options) {
  return options.name != nullptr ? std::string{options.name} + ": " : std::string{};
}

/// Behind it, those of one of its groups; nothing for -1, the group of all.
inline std::string nccl_prefix(TransportOptions const& options, int group) {
  std::string const name = group < 0 ? "" : options.groups[static_cast<std::size_t>(group)].name;
  return name.empty() ? "" : name + ": ";
}

/// "ranks 2 and 3", "rank 0"
inline std::string rank_names(int first, int count) {
  if (count == 1) {
    return "rank " + std::to_string(first);
  }
  return "ranks " + std::to_string(first) + (count == 2 ? " and " : " to ") +
         std::to_string(first + count - 1);
}

/// "ranks 0, 3 and 5"; ranks in a row as above.
inline std::string rank_names(std::span<NcclSlot> slots) {
  bool row = true;
  for (std::size_t i = 1; i < slots.size(); ++i) {
    row = row && slots[i].rank == slots[i - 1].rank + 1;
  }
  if (row) {
    return rank_names(slots[0].rank, static_cast<int>(slots.size()));
  }
  std::string text = "ranks ";
  for (std::size_t i = 0; i < slots.size(); ++i) {
    text += i == 0 ? "" : i + 1 == slots.size() ? " and " : ", ";
    text += std::to_string(slots[i].rank);
  }
  return text;
}

/// "the ranks of other processes did not all come (2 of 4 live here: ranks 0 and 1)"
inline std::string not_all_came(int ranks, int first, int local) {
  if (local == ranks) {
    return "NCCL did not connect " + rank_names(first, local);
  }
  return "NCCL did not connect all " + std::to_string(ranks) + " ranks, of which " +
         rank_names(first, local) + " live in this process: another process did not come";
}

/// What a rank was last seen at.
struct NcclSeen {
  NcclCall last{};
  std::uint64_t calls = 0;
  std::uint64_t latest = 0;
  std::string progress{};
};

/// ", rank 3 at action 1F2", or "" where nobody has words for it.
inline std::string words_of(NcclSlot const& slot, TransportOptions const& options) {
  return options.describe_progress != nullptr
             ? ", " + options.describe_progress(slot.rank, slot.progress->load())
             : std::string{};
}

inline NcclSeen look_at(NcclSlot& slot, TransportOptions const& options) {
  std::lock_guard const lock{slot.mutex};
  return {slot.last, slot.calls, slot.latest, words_of(slot, options)};
}

/// Which ranks of one group are behind the rank of @p mine, or "" if this process knows of none.
/// @param slots  the group's members in this process
inline std::string nccl_behind(std::span<NcclSlot> slots, NcclSlot& mine,
                               TransportOptions const& options) {
  NcclSeen const own = look_at(mine, options);
  bool const message =
      own.last.operation == Operation::send || own.last.operation == Operation::receive;
  std::string text;
  for (NcclSlot& other : slots) {
    NcclSeen const seen = look_at(other, options);
    if (&other != &mine && seen.calls < own.calls) {
      text.append(text.empty() ? "rank " : "; rank ").append(std::to_string(other.rank));
      text.append(" did not reach ").append(message ? "the other end of " : "");
      text.append(numbered(own.last, own.calls));
      text.append(" within ").append(to_string(options.timeout)).append("; it was last in ");
      text.append(numbered(seen.last, seen.calls)).append(seen.progress);
    }
  }
  return text;
}

/// What the rank of @p mine has waited for, where nobody in this process is behind.
inline std::string nccl_waited(std::span<NcclSlot> slots, NcclSlot& mine,
                               TransportOptions const& options) {
  NcclSeen const own = look_at(mine, options);
  std::string const text = "rank " + std::to_string(mine.rank) + " waited " +
                           to_string(options.timeout) + " for its GPU, last in " +
                           numbered(own.last, own.calls) + own.progress + "; ";
  if (slots.size() == static_cast<std::size_t>(mine.size)) {
    return text + "all ranks have come so far: do their calls match?";
  }
  return text + rank_names(slots) + (slots.size() == 1 ? " has" : " have") +
         " come so far: look at the other processes, where the others live";
}

}  // namespace tandem::detail
