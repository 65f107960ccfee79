// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineJudge: what becomes of a failure, by whomever it was noticed: the verdict, one for all.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/inquiry.hpp>
#include <tandem/comm/lifeline/options.hpp>
#include <tandem/comm/lifeline/peer.hpp>
#include <tandem/comm/lifeline/peers.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/threads/chain.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Used by the lifeline's thread.
class LifelineJudge {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param decided  called with the verdict, before anyone else is told
  LifelineJudge(LifelinePeers& peers, int processes, LifelineOptions const& options,
                LifelineCalls const& calls, std::function<void(LifelineVerdict const&)> decided)
      : peers_{peers},
        processes_{processes},
        options_{options},
        calls_{calls},
        decided_{std::move(decided)} {}

  [[nodiscard]] bool has_raised() const { return raised_.has_value(); }
  [[nodiscard]] std::string board() const { return calls_.board ? calls_.board() : std::string{}; }

  /// Process 0 decides which was the first; who has no way to it, by itself.
  TANDEM_ONCE void raise(LifelineVerdict const& verdict);

  TANDEM_ONCE void decide(LifelineVerdict const& verdict);

  /// The other end is closed, or says what nobody understands.
  TANDEM_ONCE void lose(LifelinePeer& peer, std::string const& what);

  /// It has left in order, and this process has begun what it will take no part in.
  TANDEM_ONCE void miss(LifelinePeers::Left const& left);

  /// It is silent. It may go on some time, and then reads what was decided.
  TANDEM_ONCE void give_up(LifelinePeer& peer);

  /// The parent asks who waits for whom.
  void ask(LifelinePeer& parent) {
    peers_.say_to_children(FrameKind::asks);
    answer(parent.out);
  }
  /// A child answers.
  TANDEM_ONCE void take_answer(Frame const& frame);
  static bool is_answer(FrameKind kind) {
    return kind == FrameKind::waits || kind == FrameKind::reached || kind == FrameKind::board ||
           kind == FrameKind::answered;
  }

  /// When look() is to be called next.
  [[nodiscard]] Clock::time_point next_look() const {
    bool const looks = inquiry_ || raised_;
    return looks ? Clock::now() + std::chrono::milliseconds{250} : Clock::time_point::max();
  }
  /// Process 0 has asked; or it does not decide what it was told; or all is decided.
  TANDEM_ONCE void look(Clock::time_point now);

 private:
  /// With process 0, which answers by then if it lives.
  [[nodiscard]] std::chrono::milliseconds patience() const { return 2 * options_.answer; }

  TANDEM_ONCE static LifelineVerdict verdict_on(LifelinePeer const& peer, std::string const& what);
  static std::string seen(std::string const& board) {
    return board.empty() ? "" : "; it was last seen " + board;
  }

  // What its children were at when they were heard of, before what they say now; then its own.
  TANDEM_ONCE void answer(std::vector<std::byte>& to);

  LifelinePeers& peers_;
  int processes_;
  LifelineOptions const& options_;
  LifelineCalls const& calls_;
  std::function<void(LifelineVerdict const&)> decided_;
  bool is_decided_ = false;
  std::optional<LifelineVerdict> raised_;  // the first that this end knew
  Clock::time_point raised_at_{};
  std::optional<LifelineInquiry> inquiry_;  // process 0's
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void LifelineJudge::raise(LifelineVerdict const& verdict) {
  if (!raised_) {
    raised_ = verdict;
    raised_at_ = Clock::now();
  }
  LifelinePeer* const parent = peers_.parent();
  if (parent != nullptr && !parent->is_done) {  // after its goodbye it hears nothing
    append(parent->out, frame_of(FrameKind::failed, verdict));
    return;
  }
  if (!verdict.timed_out) {
    decide(verdict);
  } else if (!inquiry_ && !is_decided_) {
    inquiry_.emplace(verdict, processes_, options_.local_ranks, Clock::now() + options_.answer,
                     calls_.members);
    peers_.say_to_children(FrameKind::asks);
    std::vector<std::byte> own;
    answer(own);
    Frame frame;
    while (take_frame(own, frame) == Parsed::whole) {
      inquiry_->take(frame);
    }
  }
}

TANDEM_ONCE void LifelineJudge::decide(LifelineVerdict const& verdict) {
  if (is_decided_) {
    return;
  }
  is_decided_ = true;
  decided_(verdict);
  peers_.tell_children(frame_of(FrameKind::verdict, verdict));
  inquiry_.reset();
  raised_ = raised_.value_or(verdict);
  calls_.on_verdict(verdict);
}

TANDEM_ONCE void LifelineJudge::lose(LifelinePeer& peer, std::string const& what) {
  bool const was_parent = peer.role == LifelinePeer::Role::parent;
  bool const counts = peer.is_connected() && !peer.is_done;
  LifelineVerdict const verdict = verdict_on(peer, what);
  peer.role = LifelinePeer::Role::gone;
  if (counts) {
    raise(verdict);
  }
  if (was_parent && raised_) {  // nobody else will say so any more
    decide(*raised_);
  }
}

TANDEM_ONCE void LifelineJudge::miss(LifelinePeers::Left const& left) {
  if (!raised_) {
    raise({.process = left.process,
           .machine = left.machine,
           .what = "has ended in order, by exit(), return or the end of its Trainer, before the "
                   "others" +
                   seen(left.board) + "; all processes must make the same calls"});
  }
}

TANDEM_ONCE void LifelineJudge::give_up(LifelinePeer& peer) {
  peer.is_done = true;
  LifelineVerdict const verdict = verdict_on(peer, "is silent: stopped, frozen or cut off");
  if (peer.role == LifelinePeer::Role::parent) {  // which may hear, and only not be heard
    append(peer.out, frame_of(FrameKind::failed, verdict));
    decide(verdict);
  } else {
    raise(verdict);
  }
}

TANDEM_ONCE void LifelineJudge::take_answer(Frame const& frame) {
  if (inquiry_) {
    inquiry_->take(frame);
  } else if (LifelinePeer* const parent = peers_.parent()) {
    append(parent->out, frame);
  }
}

TANDEM_ONCE void LifelineJudge::look(Clock::time_point now) {
  if (inquiry_ && inquiry_->over(now)) {
    LifelineVerdict const found = inquiry_->conclude();
    inquiry_.reset();
    decide(found);
  }
  LifelinePeer* const parent = peers_.parent();
  if (parent != nullptr && raised_ && !is_decided_ && now - raised_at_ > patience() &&
      now - parent->heard > patience()) {
    give_up(*parent);
  } else if (is_decided_ && calls_.after_verdict) {
    calls_.after_verdict();
  }
}

TANDEM_ONCE LifelineVerdict LifelineJudge::verdict_on(LifelinePeer const& peer,
                                                      std::string const& what) {
  return {.process = peer.process,
          .rank = -1,
          .machine = peer.machine,
          .what = what + seen(peer.board)};
}

TANDEM_ONCE void LifelineJudge::answer(std::vector<std::byte>& to) {
  for (LifelinePeer const& peer : peers_.all) {
    if (peer.role == LifelinePeer::Role::child) {
      append(to, {.head = {.process = peer.process, .kind = FrameKind::board},
                  .machine = peer.machine,
                  .what = peer.board});
    }
  }
  for (LifelinePeers::Left const& left : peers_.left) {
    append(to, {.head = {.process = left.process, .kind = FrameKind::board, .flag = 1},
                .machine = left.machine,
                .what = left.board});
  }
  append_waits(to, peers_.process, calls_.waits ? calls_.waits() : std::vector<WaitingRank>{});
  append_reached(to, peers_.process,
                 calls_.reached ? calls_.reached() : std::vector<ReachedCall>{});
  append(to, {.head = {.process = peers_.process, .kind = FrameKind::answered},
              .machine = peers_.machine,
              .what = board()});
}

}  // namespace tandem::detail

#endif
