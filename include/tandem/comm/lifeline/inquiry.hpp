// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineInquiry: when a rank has waited too long, who of all processes is to blame.
///
/// Whom it waits for may itself wait for a rank of a third process. So process 0 asks all of them
/// who waits for whom, and blames the end of the chain.

#include <cstddef>
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

/// A frame of each rank that each of @p waits waits for, and the last one, by which the receiver
/// knows that it has all. The texts of one frame: the prefix, and the sentence about the other.
inline void append_waits(std::vector<std::byte>& to, int process,
                         std::vector<WaitingRank> const& waits, std::string const& machine,
                         std::string const& board) {
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
  append(to, {.head = {.process = process, .kind = FrameKind::answered},
              .machine = machine,
              .what = board});
}

/// What process 0 has heard since it has asked. Used by its lifeline's thread.
class LifelineInquiry {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param first  the report of the rank that has waited too long
  /// @param each   ranks of each process
  LifelineInquiry(LifelineVerdict first, int processes, int each, Clock::time_point until)
      : first_{std::move(first)}, processes_{processes}, each_{each}, until_{until} {}

  /// Of any process, in the order in which they were said.
  TANDEM_COLD void take(Frame const& frame) {
    FrameHead const& head = frame.head;
    if (head.kind == FrameKind::waits) {
      bool const same = !waits_.empty() && waits_.back().rank == head.rank &&
                        waits_.back().prefix == frame.machine;
      if (!same) {
        waits_.push_back({.rank = head.rank, .blocked = head.flag != 0, .prefix = frame.machine});
      }
      waits_.back().missing.push_back({head.other, frame.what});
      return;
    }
    Seen& seen = seen_[head.process];
    bool const answers = head.kind == FrameKind::answered;
    if (answers || !seen.answers) {
      seen = {frame.machine, frame.what, answers};
    }
    answers_ += answers ? 1 : 0;
  }

  [[nodiscard]] bool over(Clock::time_point now) const {
    return answers_ >= processes_ || now >= until_;
  }

  /// The end of the chain that the first report begins; who has not answered waits for nobody.
  [[nodiscard]] TANDEM_COLD LifelineVerdict conclude() const {
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
    if (answers(verdict.rank)) {  // unless a stream of its rank waits for a silent process
      WaitChain further{waits_, true};
      std::string of_streams = further.sentence_for(*begin);
      if (!answers(further.to_blame())) {
        text = std::move(of_streams);
        verdict.rank = further.to_blame();
      }
    }
    verdict.what = text;
    verdict.process = verdict.rank / each_;
    auto const found = seen_.find(verdict.process);
    verdict.machine = found != seen_.end() ? found->second.machine : "";
    if (!answers(verdict.rank)) {
      verdict.what +=
          "; process " + std::to_string(verdict.process) + " is silent: stopped, frozen or cut off";
    }
    if (found != seen_.end() && !found->second.board.empty()) {
      verdict.what += "; it was last seen " + found->second.board;
    }
    return verdict;
  }

 private:
  struct Seen {
    std::string machine{};
    std::string board{};
    bool answers = false;
  };

  /// Whether the rank's process has said who its ranks wait for.
  [[nodiscard]] bool answers(int rank) const {
    auto const found = seen_.find(rank / each_);
    return found != seen_.end() && found->second.answers;
  }

  /// A rank may wait in several groups at a time: in the one that its report is about.
  [[nodiscard]] WaitingRank const* first_wait() const {
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

  LifelineVerdict first_;
  int processes_;
  int each_;
  Clock::time_point until_;
  int answers_ = 0;
  std::vector<WaitingRank> waits_;
  std::map<int, Seen> seen_;
};

}  // namespace tandem::detail
