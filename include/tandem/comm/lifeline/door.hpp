// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineDoor: who comes to a process, and which of them are its children.

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/addresses.hpp>
#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/peer.hpp>
#include <tandem/comm/lifeline/peers.hpp>
#include <tandem/comm/lifeline/tree.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Used by the lifeline's thread.
class LifelineDoor {
 public:
  LifelineDoor(LifelineTree const& tree, LifelinePeers& peers) : tree_{tree}, peers_{peers} {}

  void open(Nonce const& key, Descriptor listener) {
    key_ = key;
    listener_ = std::move(listener);
  }
  [[nodiscard]] Descriptor const& listener() const { return listener_; }

  /// Takes who stands there; each is a stranger.
  TANDEM_ONCE void welcome();

  /// Who signs is a child, or, at process 0, may be another's. Whether it is a child.
  TANDEM_ONCE bool greet(LifelinePeer& peer, Frame const& frame);

  /// The first child that has not come; -1 if all have.
  TANDEM_ONCE [[nodiscard]] int missing() const;

 private:
  using Role = LifelinePeer::Role;

  TANDEM_ONCE static std::string peer_address(LifelinePeer const& peer);

  TANDEM_ONCE void refer_children_of(int process);

  TANDEM_ONCE void refer(LifelinePeer& peer);

  LifelineTree tree_;
  LifelinePeers& peers_;
  Nonce key_{};
  Descriptor listener_;
  std::vector<int> came_;                                      // children
  std::map<int, std::pair<std::string, std::string>> places_;  // process → address, machine
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void LifelineDoor::welcome() {
  constexpr std::size_t most_strangers = 256;
  for (int taken = 0; taken < 64; ++taken) {
    Descriptor next{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (next.get() < 0) {
      return;
    }
    std::size_t strangers = 0;
    for (LifelinePeer& peer : peers_.all) {
      if (peer.role == Role::stranger && ++strangers >= most_strangers) {
        peer.role = Role::gone;
      }
    }
    Challenge const challenge{.nonce = make_nonce()};
    LifelinePeer peer{.socket = std::move(next), .nonce = challenge.nonce};
    auto const word = bytes_of(challenge);
    peer.out.assign(word.begin(), word.end());
    peers_.all.push_back(std::move(peer));
  }
}

TANDEM_ONCE bool LifelineDoor::greet(LifelinePeer& peer, Frame const& frame) {
  int const process = frame.head.process;
  int const parent = process > 0 && process < tree_.processes ? tree_.parent(process) : -1;
  bool const may_come = parent == peers_.process || (peers_.process == 0 && parent > 0);
  if (frame.head.kind != FrameKind::hello || !may_come ||
      frame.what != signature(key_, peer.nonce, frame.head)) {
    peer.role = Role::gone;
    return false;
  }
  peer.process = process;
  peer.machine = frame.machine;
  if (peers_.process == 0 && tree_.children(process) > 0) {
    places_[process] = {peer_address(peer) + ":" + std::to_string(frame.head.port), frame.machine};
    refer_children_of(process);
  }
  if (parent == peers_.process) {
    peer.role = Role::child;
    came_.push_back(process);
    peers_.say(peer, FrameKind::welcome);
    return true;
  }
  peer.role = Role::grandchild;
  if (places_.contains(parent)) {
    refer(peer);
  }
  return false;
}

TANDEM_ONCE int LifelineDoor::missing() const {
  if (static_cast<int>(came_.size()) >= tree_.children(peers_.process)) {
    return -1;
  }
  int missing = peers_.process * tree_.width + 1;
  while (std::ranges::find(came_, missing) != came_.end()) {
    ++missing;
  }
  return missing;
}

TANDEM_ONCE std::string LifelineDoor::peer_address(LifelinePeer const& peer) {
  ::sockaddr_storage name{};
  ::socklen_t size = sizeof name;
  return ::getpeername(peer.socket.get(), reinterpret_cast<::sockaddr*>(&name), &size) == 0
             ? numeric_address(reinterpret_cast<::sockaddr const&>(name))
             : "";
}

TANDEM_ONCE void LifelineDoor::refer_children_of(int process) {
  for (LifelinePeer& peer : peers_.all) {
    if (peer.role == Role::grandchild && tree_.parent(peer.process) == process) {
      refer(peer);
    }
  }
}

TANDEM_ONCE void LifelineDoor::refer(LifelinePeer& peer) {
  auto const& [address, machine] = places_[tree_.parent(peer.process)];
  append(peer.out, {.head = {.process = tree_.parent(peer.process), .kind = FrameKind::refer},
                    .machine = machine,
                    .what = address});
  peer.ends_sent = true;
}

}  // namespace tandem::detail

#endif
