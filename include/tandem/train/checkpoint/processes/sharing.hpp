// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which process reads which tensor of a checkpoint, and how it comes to the others that need it.
/// All processes work it out alike.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Who needs the tensors of a checkpoint.
struct CheckpointNeeds {
  static constexpr int none = -1;
  std::vector<std::vector<int>> sets{};  ///< of processes, sorted
  std::vector<int> set{};                ///< of each tensor: which, or none

  [[nodiscard]] bool has(std::size_t tensor, int process) const {
    return set[tensor] != none &&
           std::ranges::binary_search(sets[static_cast<std::size_t>(set[tensor])], process);
  }
};

/// The reader of each tensor; -1 of what nobody needs. The largest first, each goes to that of its
/// needers who see the checkpoint which has least to read, of equals to the first; where none does,
/// to process 0.
/// @param bytes  of each tensor
/// @param sees   which processes see the checkpoint
TANDEM_ONCE std::vector<int> deal_readers(std::span<std::int64_t const> bytes,
                                          CheckpointNeeds const& needs,
                                          std::vector<bool> const& sees);

/// Tensors that one process has read and the same others need.
struct CheckpointParcel {
  int reader = 0;
  std::vector<int> others{};
  std::vector<std::size_t> tensors{};
};

/// In the order in which all processes pass them on.
TANDEM_ONCE std::vector<CheckpointParcel> parcels_of(CheckpointNeeds const& needs,
                                                     std::vector<int> const& reader);

/// From whom a process gets a parcel, and to whom it passes it on.
struct ParcelPlace {
  bool takes_part = false;
  int from = -1;  ///< -1: it has read it
  std::vector<int> to{};
};

/// Down a binary tree of processes, whose root is the reader.
TANDEM_ONCE ParcelPlace place_in(CheckpointParcel const& parcel, int process);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<int> deal_readers(std::span<std::int64_t const> bytes,
                                          CheckpointNeeds const& needs,
                                          std::vector<bool> const& sees) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::int64_t> load(sees.size());
  std::vector<int> reader(bytes.size(), CheckpointNeeds::none);
  for (std::size_t const i : order) {
    if (needs.set[i] == CheckpointNeeds::none) {
      continue;
    }
    std::size_t least = sees.size();
    for (int const p : needs.sets[static_cast<std::size_t>(needs.set[i])]) {
      auto const process = static_cast<std::size_t>(p);
      if (sees[process] && (least == sees.size() || load[process] < load[least])) {
        least = process;
      }
    }
    least = least == sees.size() ? 0 : least;
    load[least] += bytes[i];
    reader[i] = static_cast<int>(least);
  }
  return reader;
}

TANDEM_ONCE std::vector<CheckpointParcel> parcels_of(CheckpointNeeds const& needs,
                                                     std::vector<int> const& reader) {
  std::vector<std::size_t> order(reader.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return needs.set[i] == CheckpointNeeds::none; });
  auto const same = [&](std::size_t a, std::size_t b) {
    return needs.set[a] == needs.set[b] && reader[a] == reader[b];
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return needs.set[a] != needs.set[b] ? needs.set[a] < needs.set[b] : reader[a] < reader[b];
  });
  std::vector<CheckpointParcel> parcels;
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (at == 0 || !same(order[at - 1], order[at])) {
      CheckpointParcel& parcel = parcels.emplace_back();
      parcel.reader = reader[order[at]];
      parcel.others = needs.sets[static_cast<std::size_t>(needs.set[order[at]])];
      std::erase(parcel.others, parcel.reader);
    }
    parcels.back().tensors.push_back(order[at]);
  }
  std::erase_if(parcels, [](CheckpointParcel const& parcel) { return parcel.others.empty(); });
  return parcels;
}

TANDEM_ONCE ParcelPlace place_in(CheckpointParcel const& parcel, int process) {
  auto const at = std::ranges::find(parcel.others, process);
  if (process != parcel.reader && at == parcel.others.end()) {
    return {};
  }
  auto const member = [&](std::size_t i) { return i == 0 ? parcel.reader : parcel.others[i - 1]; };
  std::size_t const own =
      process == parcel.reader ? 0 : static_cast<std::size_t>(at - parcel.others.begin()) + 1;
  std::size_t const members = parcel.others.size() + 1;
  ParcelPlace place{.takes_part = true};
  std::size_t step = 1;
  for (; step < members && (own & step) == 0; step *= 2) {
  }
  place.from = own == 0 ? -1 : member(own - step);
  for (step /= 2; step > 0; step /= 2) {
    if (own + step < members) {
      place.to.push_back(member(own + step));
    }
  }
  return place;
}

}  // namespace tandem::detail

#endif
