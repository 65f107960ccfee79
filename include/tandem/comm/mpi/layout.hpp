// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MpiLayout: which process each rank of a group lives in, and which parts of the tree of its sums
/// are of one process. Needs no MPI.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Where tree(count) of comm/fixed_tree.hpp joins its two halves, for count >= 2.
constexpr int tree_half(int count) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)) / 2);
}

/// Members [first, first + count) of a group, which the tree joins before any other, all of one
/// process.
struct TreePiece {
  int first = 0;
  int count = 0;

  friend constexpr bool operator==(TreePiece const&, TreePiece const&) = default;
};

/// One group of ranks that are dealt to processes in order, @p each to a process.
class MpiLayout {
 public:
  TANDEM_COLD MpiLayout(RankSet const& set, int each, int own_process) {
    for (int const rank : set.ranks) {
      of_member_.push_back(rank / each);
    }
    processes_ = of_member_;
    std::sort(processes_.begin(), processes_.end());
    processes_.erase(std::unique(processes_.begin(), processes_.end()), processes_.end());
    pieces_.resize(processes_.size());
    members_.resize(processes_.size());
    own_ = index_of(own_process);
    local_of_.assign(of_member_.size(), 0);
    for (int m = 0; m < size(); ++m) {
      auto& members = members_[std::size_t(index_of(of_member_[std::size_t(m)]))];
      local_of_[std::size_t(m)] = static_cast<int>(members.size());
      members.push_back(m);
    }
    split(0, size());
  }

  [[nodiscard]] int size() const { return static_cast<int>(of_member_.size()); }
  /// Processes that have a member, ascending; all that follows is by their index in this list.
  [[nodiscard]] std::vector<int> const& processes() const { return processes_; }
  /// This process, or -1.
  [[nodiscard]] int own() const { return own_; }
  [[nodiscard]] int of_member(int m) const { return index_of(of_member_[std::size_t(m)]); }
  /// Its number among the members of its process.
  [[nodiscard]] int local_of(int m) const { return local_of_[std::size_t(m)]; }
  [[nodiscard]] std::vector<int> const& members(int process) const {
    return members_[std::size_t(process)];
  }
  /// The largest subtrees that are all of one process, from left to right.
  [[nodiscard]] std::vector<TreePiece> const& pieces(int process) const {
    return pieces_[std::size_t(process)];
  }
  /// Members that a process has at most.
  [[nodiscard]] int most_members() const {
    std::size_t most = 0;
    for (auto const& members : members_) {
      most = std::max(most, members.size());
    }
    return static_cast<int>(most);
  }

 private:
  [[nodiscard]] int index_of(int process) const {
    auto const at = std::lower_bound(processes_.begin(), processes_.end(), process);
    return at == processes_.end() || *at != process ? -1
                                                    : static_cast<int>(at - processes_.begin());
  }

  void split(int first, int count) {
    int const process = of_member_[std::size_t(first)];
    bool const whole = std::all_of(of_member_.begin() + first, of_member_.begin() + first + count,
                                   [&](int p) { return p == process; });
    if (whole) {
      pieces_[std::size_t(index_of(process))].push_back({first, count});
    } else {
      int const half = tree_half(count);
      split(first, half);
      split(first + half, count - half);
    }
  }

  std::vector<int> of_member_;  // numbers of processes
  std::vector<int> local_of_;
  std::vector<int> processes_;
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<TreePiece>> pieces_;
  int own_ = -1;
};

}  // namespace tandem::detail
