// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineMeeting: how a process finds its parent, with what signs it there, and where its own
/// children find it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tandem/comm/lifeline/addresses.hpp>
#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/peer.hpp>
#include <tandem/comm/lifeline/tree.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/comm/rendezvous/rendezvous.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// What a process has when it has met the others.
struct LifelineMeeting {
  Nonce key{};                         ///< the program's
  Descriptor listener{};               ///< of those that have children
  std::optional<LifelinePeer> parent;  ///< which has said welcome; process 0 has none
};

/// Uses the rendezvous once. All processes call it.
/// @throws TimeoutError, AbortedError  as Lifeline
TANDEM_ONCE LifelineMeeting meet_by_lifeline(World const& world, LifelineTree const& tree,
                                             std::string const& machine,
                                             std::chrono::milliseconds timeout);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// What process 0 tells all at the rendezvous.
struct LifelineRoot {
  Nonce key{};
  std::uint32_t port = 0;
  char address[8][64] = {};  ///< "" behind the last

  /// Of this process, which listens at @p own_port.
  static LifelineRoot here(std::uint16_t own_port) {
    LifelineRoot root{.key = make_nonce(), .port = own_port};
    std::size_t count = 0;
    for (std::string const& one : own_addresses()) {
      if (count < std::size(root.address) && one.size() < sizeof root.address[0]) {
        std::memcpy(root.address[count++], one.c_str(), one.size() + 1);
      }
    }
    return root;
  }

  /// Where process 0 may be found: first where it was met.
  [[nodiscard]] std::vector<std::string> addresses(Rendezvous const& met) const {
    std::string const end = ":" + std::to_string(port);
    std::vector<std::string> all;
    if (met.broadcast == nullptr && met.address.rfind("file:", 0) != 0) {
      all.push_back(met.address.substr(0, met.address.rfind(':')) + end);
    }
    for (auto const& one : address) {
      if (one[0] != '\0' && std::memchr(one, '\0', sizeof one) != nullptr) {
        all.push_back(one + end);
      }
    }
    return all;
  }
};

/// The parent of the process that says @p hello: process 0 first, at each of @p addresses; it may
/// refer to another.
/// @throws TimeoutError, AbortedError  as Lifeline
TANDEM_ONCE LifelinePeer call_parent(std::vector<std::string> addresses, Nonce const& key,
                                     Frame const& hello, std::chrono::milliseconds timeout) {
  Patience patience{timeout, 0, std::chrono::milliseconds{100}};
  LifelinePeer parent;
  Frame answer;
  LifelineVerdict ended{.process = 0, .rank = -1, .what = "has ended without a word"};
  std::string why = "it has no address";
  std::size_t refusals = 0;  // in a row: each address listens until its process ends
  int slice = 2000;          // a stranger may listen at one of them
  for (std::size_t i = 0;; ++i) {
    Patience const limit{std::chrono::milliseconds{std::min(slice, patience.left_ms())}};
    bool refused = false;
    if (!addresses.empty() && call_process(addresses[i % addresses.size()], key, hello, limit,
                                           parent, answer, why, refused)) {
      if (answer.head.kind == FrameKind::welcome) {
        break;
      }
      addresses.assign(1, answer.what);  // of the parent
      ended.process = answer.head.process;
      ended.machine = answer.machine;
      refusals = 0;
      continue;
    }
    refusals = refused ? refusals + 1 : 0;
    if (refused && refusals > 2 * addresses.size()) {
      throw AbortedError{"lifeline: " + ended.reason()};
    }
    slice = std::min(2 * slice, 30000);
    if (addresses.empty() || !patience.pause()) {
      throw TimeoutError{"lifeline: process 0 did not answer process " +
                         std::to_string(hello.head.process) + " within " + to_string(timeout) +
                         " (" + why + ")"};
    }
  }
  parent.role = LifelinePeer::Role::parent;
  parent.process = answer.head.process;
  parent.machine = answer.machine;
  return parent;
}

TANDEM_ONCE LifelineMeeting meet_by_lifeline(World const& world, LifelineTree const& tree,
                                             std::string const& machine,
                                             std::chrono::milliseconds timeout) {
  LifelineMeeting met;
  std::uint16_t port = 0;
  if (tree.children(world.process) > 0) {
    met.listener = listen_anywhere(port);
  }
  LifelineRoot root = world.process == 0 ? LifelineRoot::here(port) : LifelineRoot{};
  rendezvous(world, std::as_writable_bytes(std::span{&root, 1}), timeout);
  met.key = root.key;
  if (world.process != 0) {
    Frame const hello{.head = {.process = world.process, .port = port, .kind = FrameKind::hello},
                      .machine = machine};
    met.parent = call_parent(root.addresses(world.rendezvous), met.key, hello, timeout);
  }
  return met;
}

}  // namespace tandem::detail

#endif
