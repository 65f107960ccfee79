// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelinePeer: one end of a connection of a lifeline.

#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/comm/rendezvous/socket.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Who is at the other end, what has come of a frame and what is still to be sent. Nothing here
/// blocks.
struct LifelinePeer {
  enum class Role : std::uint8_t {
    stranger,    ///< has not signed
    grandchild,  ///< waits for its parent's address
    child,
    parent,
    gone  ///< to be forgotten
  };
  using Clock = std::chrono::steady_clock;

  Descriptor socket{};
  Role role = Role::stranger;
  Nonce nonce{};
  int process = -1;
  std::string machine{};
  std::string board{};  ///< what it was at when it was last heard of
  std::vector<std::byte> in{};
  std::vector<std::byte> out{};
  Clock::time_point heard = Clock::now();
  bool is_ready = false;   ///< and so are all below it
  bool is_done = false;    ///< has said goodbye, or was given up
  bool ends_sent = false;  ///< to be forgotten once all is sent

  [[nodiscard]] bool is_connected() const { return role == Role::child || role == Role::parent; }

  /// Reads what there is, or some of it. Whether the other end is still open.
  TANDEM_ONCE bool read();

  /// Sends what there is room for; what nobody takes any more is dropped.
  TANDEM_ONCE void write();
};

/// Says hello to what listens at @p address, and waits for a welcome or a referral.
/// @param refused  whether nobody listens there, set
/// @return whether there was one; if not, @p why says what went wrong
TANDEM_ONCE bool call_process(std::string const& address, Nonce const& key, Frame const& hello,
                              Patience const& limit, LifelinePeer& peer, Frame& answer,
                              std::string& why, bool& refused);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// The next frame of @p peer before @p limit. Whether there was one.
TANDEM_ONCE bool await_frame(LifelinePeer& peer, Frame& frame, Patience const& limit) {
  for (;;) {
    Parsed const parsed = take_frame(peer.in, frame);
    if (parsed != Parsed::partly) {
      return parsed == Parsed::whole;
    }
    if (!ready(peer.socket, POLLIN, limit) || !peer.read()) {
      return take_frame(peer.in, frame) == Parsed::whole;
    }
  }
}

TANDEM_ONCE bool call_process(std::string const& address, Nonce const& key, Frame const& hello,
                              Patience const& limit, LifelinePeer& peer, Frame& answer,
                              std::string& why, bool& refused) {
  Addresses const found = resolve(address, why);
  refused = found != nullptr;
  for (auto const* at = found.get(); at != nullptr; at = at->ai_next) {
    peer = LifelinePeer{.socket = connect_to(*at, limit, why)};
    if (peer.socket.get() < 0) {
      refused = refused && why == std::generic_category().message(ECONNREFUSED);
      continue;
    }
    refused = false;
    why = "what listens there is no process of this program";
    Challenge challenge;
    std::array<std::byte, sizeof challenge> word{};
    if (receive(peer.socket, word, limit) != word.size() || !parse_message(word, challenge)) {
      continue;
    }
    Frame said = hello;
    said.what = signature(key, challenge.nonce, hello.head);
    append(peer.out, std::move(said));
    if (send_all(peer.socket, peer.out, limit) && (peer.out.clear(), true) &&
        await_frame(peer, answer, limit) &&
        (answer.head.kind == FrameKind::welcome || answer.head.kind == FrameKind::refer)) {
      return true;
    }
  }
  return false;
}

TANDEM_ONCE bool LifelinePeer::read() {
  constexpr std::size_t at_once = 65536;  // then what was said is looked at
  std::array<std::byte, 4096> bytes;
  while (in.size() < at_once) {
    ::ssize_t const got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      in.insert(in.end(), bytes.begin(), bytes.begin() + got);
      heard = Clock::now();
    } else if (!(got < 0 && errno == EINTR)) {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
  return true;
}

TANDEM_ONCE void LifelinePeer::write() {
  while (!out.empty()) {
    ::ssize_t const sent = ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      out.erase(out.begin(), out.begin() + sent);
    } else if (!(sent < 0 && errno == EINTR)) {
      if (!(sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) {
        out.clear();
      }
      return;
    }
  }
}

}  // namespace tandem::detail

#endif
