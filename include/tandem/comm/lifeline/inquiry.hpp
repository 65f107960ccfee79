// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineInquiry: when a rank has waited too long, who of all processes is to blame.
///
/// Whom it waits for may itself wait for a rank of a third process. So process 0 asks all of them
/// who waits for whom, and blames the end of the chain. Where ranks cannot say, since a GPU waits
/// for them, they say how far they have come: each waits for those of its groups that are behind
/// it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/threads/chain.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// How far a rank has come in one of its groups.
struct ReachedCall {
  int rank = 0;  ///< its number among all
  int group = 0;
  std::uint64_t call = 0;  ///< the number of its last call; the members' calls have the same ones
  bool waits = false;      ///< and does nothing else
  std::string name{};      ///< "replicas: all-reduce #17 (bucket 2)"
  std::string progress{};  ///< what else it was seen at, or ""
};

/// A frame of each rank that each of @p waits waits for. Its texts: the prefix, and the sentence
/// about the other.
TANDEM_ONCE void append_waits(std::vector<std::byte>& to, int process,
                              std::vector<WaitingRank> const& waits);

/// A frame of each.
TANDEM_ONCE void append_reached(std::vector<std::byte>& to, int process,
                                std::vector<ReachedCall> const& all);

/// What process 0 has heard since it has asked. Used by its lifeline's thread.
class LifelineInquiry {
 public:
  using Clock = std::chrono::steady_clock;
  using Members = std::function<std::vector<int>(int group)>;

  /// @param first    the report of the rank that has waited too long
  /// @param each     ranks of each process
  /// @param members  of the groups in which ranks say how far they have come
  LifelineInquiry(LifelineVerdict first, int processes, int each, Clock::time_point until,
                  Members members = {})
      : first_{std::move(first)},
        processes_{processes},
        each_{each},
        until_{until},
        members_{std::move(members)} {}

  /// Of any process, in the order in which they were said.
  TANDEM_ONCE TANDEM_COLD void take(Frame const& frame);

  [[nodiscard]] bool over(Clock::time_point now) const {
    return answers_ >= processes_ || now >= until_;
  }

  /// The end of the chain that the first report begins; who has not answered waits for nobody.
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD LifelineVerdict conclude();

 private:
  /// "; a stream of it waits for rank 3", or "".
  TANDEM_ONCE [[nodiscard]] std::string stream_of(int rank) const;

  struct Seen {
    std::string machine{};
    std::string board{};
    bool answers = false;
    bool left = false;  // and does not answer any more
  };

  /// Each rank that has come further in a group than others waits for these.
  TANDEM_ONCE TANDEM_COLD void compare_calls();

  /// Whether the rank's process has said who its ranks wait for.
  [[nodiscard]] bool answers(int rank) const {
    auto const found = seen_.find(rank / each_);
    return found != seen_.end() && found->second.answers;
  }

  /// A rank may wait in several groups at a time: in the one that its report is about.
  TANDEM_ONCE [[nodiscard]] WaitingRank const* first_wait() const;

  LifelineVerdict first_;
  int processes_;
  int each_;
  Clock::time_point until_;
  Members members_;
  int answers_ = 0;
  std::map<std::pair<int, int>, ReachedCall> reached_;  // by group and rank
  std::vector<WaitingRank> waits_;
  std::map<int, Seen> seen_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void append_waits(std::vector<std::byte>& to, int process,
                              std::vector<WaitingRank> const& waits) {
  for (WaitingRank const& wait : waits) {
    for (auto const& missing : wait.missing) {
      append(to, {.head = {.process = process,
                           .rank = wait.rank,
                           .other = missing.rank,
                           .kind = FrameKind::waits,
                           .flag = static_cast<std::uint8_t>(wait.blocked ? 1 : 0)},
                  .machine = wait.prefix,
                  .what = missing.sentence});
    }
  }
}

TANDEM_ONCE void append_reached(std::vector<std::byte>& to, int process,
                                std::vector<ReachedCall> const& all) {
  for (ReachedCall const& one : all) {
    append(to, {.head = {.process = process,
                         .rank = one.rank,
                         .other = one.group,
                         .kind = FrameKind::reached,
                         .flag = static_cast<std::uint8_t>(one.waits ? 1 : 0),
                         .call = one.call},
                .machine = one.name,
                .what = one.progress});
  }
}

TANDEM_ONCE void LifelineInquiry::take(Frame const& frame) {
  FrameHead const& head = frame.head;
  if (head.kind == FrameKind::waits) {
    bool const same =
        !waits_.empty() && waits_.back().rank == head.rank && waits_.back().prefix == frame.machine;
    if (!same) {
      waits_.push_back({.rank = head.rank, .blocked = head.flag != 0, .prefix = frame.machine});
    }
    waits_.back().missing.push_back({head.other, frame.what});
    return;
  }
  if (head.kind == FrameKind::reached) {
    reached_[{head.other, head.rank}] = {.rank = head.rank,
                                         .group = head.other,
                                         .call = head.call,
                                         .waits = head.flag != 0,
                                         .name = frame.machine,
                                         .progress = frame.what};
    return;
  }
  Seen& seen = seen_[head.process];
  bool const answers = head.kind == FrameKind::answered;
  bool const left = head.kind == FrameKind::board && head.flag != 0;
  answers_ += answers || (left && !seen.left) ? 1 : 0;
  if (answers || !seen.answers) {
    seen = {frame.machine, frame.what, answers, left || seen.left};
  }
}

TANDEM_ONCE LifelineVerdict LifelineInquiry::conclude() {
  compare_calls();
  LifelineVerdict verdict = first_;
  WaitingRank const* const begin = first_wait();
  if (begin == nullptr) {
    return verdict;
  }
  WaitChain chain{waits_};
  std::string text = chain.sentence_for(*begin);
  if (text.empty()) {
    return verdict;
  }
  verdict.rank = chain.to_blame();
  bool is_direct = chain.is_direct();
  if (answers(verdict.rank)) {  // unless a stream of its rank waits for a silent process
    WaitChain further{waits_, true};
    std::string of_streams = further.sentence_for(*begin);
    if (!answers(further.to_blame())) {
      text = std::move(of_streams);
      verdict.rank = further.to_blame();
      is_direct = further.is_direct();
    }
  }
  verdict.what = text;
  if (is_direct) {  // what is between the two may be at fault
    verdict.what += "; rank " + std::to_string(begin->rank) + " waits for it";
  }
  if (answers(verdict.rank)) {
    verdict.what += stream_of(verdict.rank);
  }
  verdict.process = verdict.rank / each_;
  auto const found = seen_.find(verdict.process);
  verdict.machine = found != seen_.end() ? found->second.machine : "";
  if (!answers(verdict.rank)) {
    verdict.what +=
        "; process " + std::to_string(verdict.process) +
        (found != seen_.end() && found->second.left ? " has ended in order"
                                                    : " is silent: stopped, frozen or cut off");
  }
  if (found != seen_.end() && !found->second.board.empty()) {
    verdict.what += "; it was last seen " + found->second.board;
  }
  return verdict;
}

TANDEM_ONCE std::string LifelineInquiry::stream_of(int rank) const {
  for (WaitingRank const& wait : waits_) {
    if (wait.rank == rank && !wait.blocked && !wait.missing.empty()) {
      return "; a stream of it waits for rank " + std::to_string(wait.missing.front().rank);
    }
  }
  return "";
}

TANDEM_ONCE void LifelineInquiry::compare_calls() {
  std::map<int, std::vector<int>> groups;
  std::map<int, WaitingRank> of_rank;
  for (auto const& [key, own] : reached_) {
    if (!own.waits || !members_) {
      continue;
    }
    if (!groups.contains(own.group)) {
      groups[own.group] = members_(own.group);
    }
    for (int const other : groups[own.group]) {
      auto const found = reached_.find({own.group, other});
      if (other == own.rank || (found != reached_.end() && found->second.call >= own.call)) {
        continue;
      }
      std::string text = "rank " + std::to_string(other) + " did not reach " + own.name;
      if (found != reached_.end() && found->second.call > 0) {
        text += "; it was last in " + found->second.name + found->second.progress;
      }
      of_rank[own.rank].missing.push_back({other, std::move(text)});
    }
  }
  reached_.clear();
  for (auto& [rank, wait] : of_rank) {
    wait.rank = rank;
    waits_.push_back(std::move(wait));
  }
}

TANDEM_ONCE WaitingRank const* LifelineInquiry::first_wait() const {
  WaitingRank const* any = nullptr;
  for (WaitingRank const& wait : waits_) {
    if (wait.rank != first_.rank) {
      continue;
    }
    any = any == nullptr ? &wait : any;
    for (auto const& missing : wait.missing) {
      if (first_.what.find(missing.sentence) != std::string::npos) {
        return &wait;
      }
    }
  }
  return any;
}

}  // namespace tandem::detail

#endif
