// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::sentence_for(): when a rank has waited too long, the one at the other end of the chain
/// of waits.
///
/// The rank that is waited for may itself wait for another. It is to blame who does not wait.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>

namespace tandem::detail {

/// A rank that waits for others.
struct WaitingRank {
  struct Missing {
    int rank;              ///< its number among all
    std::string sentence;  ///< "rank 1 did not reach …"
  };

  int rank = 0;
  bool blocked = true;  ///< the rank's own thread, not only a stream of it
  std::string prefix{};
  std::vector<Missing> missing{};
};

/// Follows the waits from one rank on.
class WaitChain {
 public:
  /// @param streams  ranks of which only a stream waits do wait, too
  explicit WaitChain(std::vector<WaitingRank> const& waits, bool streams = false)
      : waits_{waits}, streams_{streams} {}

  /// What to say when @p first, one of the waits, has been too long: a sentence for each rank that
  /// it leads to and that does not wait, and who waits for whom in between. Where the ranks wait
  /// for each other, whom @p first waits for, and, unless it is one of them, which ranks do.
  /// @throws std::bad_alloc
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string sentence_for(WaitingRank const& first);

  /// The first rank that the sentence is about; -1 where there is none.
  [[nodiscard]] int to_blame() const { return to_blame_; }
  /// Whether the first rank itself waits for that one, which the sentence then does not say.
  [[nodiscard]] bool is_direct() const { return between_.empty(); }

 private:
  TANDEM_ONCE TANDEM_COLD void follow(WaitingRank const& wait);

  TANDEM_ONCE TANDEM_COLD void add(WaitingRank const& wait, WaitingRank::Missing const& missing);

  std::vector<WaitingRank> const& waits_;
  bool streams_;
  std::vector<int> seen_;
  std::vector<int> path_;
  std::vector<int> loop_;     // of ranks that wait for each other
  std::vector<int> between_;  // from the first rank to the one that waits for the first to blame
  std::string prefix_;
  std::string text_;
  int to_blame_ = -1;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string WaitChain::sentence_for(WaitingRank const& first) {
  follow(first);
  if (text_.empty()) {
    for (auto const& missing : first.missing) {
      add(first, missing);
    }
    if (std::find(loop_.begin(), loop_.end(), first.rank) == loop_.end()) {
      for (std::size_t i = 0; i < loop_.size(); ++i) {
        text_ += (i == 0 ? "; rank " : ", rank ") + std::to_string(loop_[i]) +
                 (i == 0 ? " waits for rank " : " for rank ") +
                 std::to_string(loop_[(i + 1) % loop_.size()]);
      }
    }
  }
  for (std::size_t i = between_.size(); i-- > 0;) {
    bool const last = i + 1 == between_.size();
    text_ += (last ? "; rank " : ", rank ") + std::to_string(between_[i]) +
             (last ? " waits for it" : " for rank " + std::to_string(between_[i + 1]));
  }
  return text_;
}

TANDEM_ONCE void WaitChain::follow(WaitingRank const& wait) {
  for (auto const& missing : wait.missing) {
    if (std::find(seen_.begin(), seen_.end(), missing.rank) != seen_.end()) {
      auto const begin = std::find(path_.begin(), path_.end(), missing.rank);
      if (loop_.empty() && begin != path_.end()) {
        loop_.assign(begin, path_.end());
        loop_.push_back(wait.rank);
      }
      continue;
    }
    seen_.push_back(missing.rank);
    bool waits = false;
    path_.push_back(wait.rank);
    for (WaitingRank const& other : waits_) {
      if (other.rank == missing.rank && (other.blocked || streams_)) {
        waits = true;
        follow(other);
      }
    }
    if (!waits) {
      add(wait, missing);
    }
    path_.pop_back();
  }
}

TANDEM_ONCE void WaitChain::add(WaitingRank const& wait, WaitingRank::Missing const& missing) {
  if (text_.empty() && path_.size() > 1) {
    between_ = path_;
  }
  to_blame_ = text_.empty() ? missing.rank : to_blame_;
  text_ += text_.empty() ? "" : "; ";
  text_ += wait.prefix == prefix_ ? "" : wait.prefix;
  text_ += missing.sentence;
  prefix_ = wait.prefix;
}

}  // namespace tandem::detail

#endif
