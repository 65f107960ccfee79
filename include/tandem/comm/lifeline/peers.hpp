// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelinePeers: all connections of one process's lifeline, and what is said to many.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/peer.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Used by the lifeline's thread.
struct LifelinePeers {
  using Role = LifelinePeer::Role;
  using Clock = LifelinePeer::Clock;

  /// A process that has said goodbye.
  struct Left {
    int process = -1;
    std::string machine{};
    std::string board{};      ///< what it was at
    std::uint64_t works = 0;  ///< that it has begun
  };

  int process = 0;  ///< this one, and where it is
  std::string machine{};
  std::vector<LifelinePeer> all{};
  std::vector<Left> left{};

  /// Null at process 0, and where it is gone.
  [[nodiscard]] LifelinePeer* parent() {
    auto const found = std::ranges::find(all, Role::parent, &LifelinePeer::role);
    return found != all.end() ? &*found : nullptr;
  }

  void say(LifelinePeer& to, FrameKind kind, std::string const& what = {}) const {
    append(to.out, {.head = {.process = process, .kind = kind}, .machine = machine, .what = what});
  }
  TANDEM_ONCE void say_to_children(FrameKind kind);
  TANDEM_ONCE void say_goodbye(std::uint64_t works, std::string const& board);
  TANDEM_ONCE void tell_children(Frame const& frame);

  /// As if all had just been heard: this process itself stood still.
  void excuse(Clock::time_point now) {
    for (LifelinePeer& peer : all) {
      peer.heard = now;
    }
  }

  /// Sends what there is room for, and forgets who is gone. Whether all was sent.
  TANDEM_ONCE bool send();
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void LifelinePeers::say_to_children(FrameKind kind) {
  for (LifelinePeer& peer : all) {
    if (peer.role == Role::child) {
      say(peer, kind);
    }
  }
}

TANDEM_ONCE void LifelinePeers::say_goodbye(std::uint64_t works, std::string const& board) {
  for (LifelinePeer& peer : all) {
    if (peer.is_connected()) {
      append(peer.out, {.head = {.process = process, .kind = FrameKind::goodbye, .call = works},
                        .machine = machine,
                        .what = board});
    }
  }
}

TANDEM_ONCE void LifelinePeers::tell_children(Frame const& frame) {
  for (LifelinePeer& peer : all) {
    if (peer.role == Role::child) {
      append(peer.out, frame);
    }
  }
}

TANDEM_ONCE bool LifelinePeers::send() {
  bool sent = true;
  for (LifelinePeer& peer : all) {
    peer.write();
    sent = sent && peer.out.empty();
  }
  std::erase_if(all, [](LifelinePeer const& peer) {
    return peer.role == Role::gone || (peer.ends_sent && peer.out.empty());
  });
  return sent;
}

}  // namespace tandem::detail

#endif
