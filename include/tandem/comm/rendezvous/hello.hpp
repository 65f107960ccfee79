// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What processes say to each other at a rendezvous(), and how they prove that they share a token.
///
///     process 0     Challenge    a number made up for this connection (over files: none, all zero)
///     the other     Hello        who it is and a number of its own, signed together with the first
///     process 0     Answer       the data, or numbers that say why not, signed with the second
///     the other     thanks       a byte (over files: it removes the answer), and both are done
///
/// A signature is an HMAC under the token, so that whoever does not know the token can neither ask
/// nor answer, and what was overheard is of no use later. The data are hidden too, or one who only
/// passes the words on between the two would read them. What comes from outside is numbers, never
/// text. Machines of the other byte order are no tandem to each other.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/sha256.hpp>

namespace tandem::detail {

inline constexpr std::size_t largest_rendezvous = 65536;

/// A number that nobody else has or guesses.
using Nonce = std::array<std::byte, 16>;

/// The first word at a connection.
struct Challenge {
  static constexpr std::uint64_t right_magic = 0x74616E64656D0006;

  std::uint64_t magic = right_magic;
  Nonce nonce{};
};

/// What a process asks process 0.
struct Hello {
  static constexpr std::uint64_t right_magic = 0x74616E64656D0007;

  std::uint64_t magic = right_magic;
  Nonce nonce{};  ///< made up for this call
  std::uint64_t version = TANDEM_VERSION;
  std::uint64_t bytes = 0;  ///< that it expects
  std::int32_t processes = 0;
  std::int32_t process = 0;
  Digest signature{};  ///< of all before it and the challenge
};

/// Process 0's verdict on a hello.
enum class Admission : std::uint32_t {
  welcome,          ///< the data follow
  other_processes,  ///< it was told another number of processes
  other_bytes,      ///< it wants another number of bytes
  other_version,    ///< it runs another version of this library
  unproven,         ///< the signature is wrong; that of this answer then means nothing, either
};

/// Begins process 0's answer; after a welcome, `bytes` of hidden data follow.
struct Answer {
  static constexpr std::uint64_t right_magic = 0x74616E64656D0008;

  std::uint64_t magic = right_magic;
  Nonce nonce{};  ///< made up for this answer; the data are hidden by it
  std::uint64_t version = TANDEM_VERSION;
  std::uint64_t bytes = 0;
  std::int32_t processes = 0;
  Admission verdict = Admission::welcome;
  Digest signature{};  ///< of all before it, the hello's nonce and the hidden data
};

static_assert(std::has_unique_object_representations_v<Challenge> &&
                  std::has_unique_object_representations_v<Hello> &&
                  std::has_unique_object_representations_v<Answer>,
              "what is signed and sent has no padding");

template <class T>
  requires std::has_unique_object_representations_v<T>  // no std::string
      std::span<std::byte const> bytes_of(T const& message) {
    return std::as_bytes(std::span{&message, 1});
  }

inline std::span<std::byte const> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

/// @p bytes as a message. Whether they are one, by size and magic.
template <class Message>
bool parse_message(std::span<std::byte const> bytes, Message& message) {
  if (bytes.size() != sizeof message) {
    return false;
  }
  std::memcpy(&message, bytes.data(), sizeof message);
  return message.magic == Message::right_magic;
}

/// @throws Error  the system has no random numbers
inline Nonce make_nonce() {
  Nonce nonce{};
  if (::getentropy(nonce.data(), nonce.size()) != 0) {
    throw Error{"rendezvous: the system gives no random numbers (getentropy)"};
  }
  return nonce;
}

/// Two digits a byte.
TANDEM_ONCE std::string hex(std::span<std::byte const> bytes);

/// What all processes of one start of a program know, and nobody else.
class RendezvousKey {
 public:
  /// @param secret  what the token file holds, or ""
  RendezvousKey(std::string_view secret, std::string_view token)
      : key_{Hmac{bytes_of(secret)}.add(bytes_of(token)).finish()} {}

  /// The signature of @p message, whose last member it is, in answer to @p other.
  template <class Message>
  [[nodiscard]] Digest sign(Message const& message, Nonce const& other,
                            std::span<std::byte const> more = {}) const {
    auto const head = bytes_of(message).first(sizeof message - sizeof message.signature);
    return Hmac{key_}.add(head).add(other).add(more).finish();
  }

  template <class Message>
  [[nodiscard]] bool proves(Message const& message, Nonce const& other,
                            std::span<std::byte const> more = {}) const {
    return same_digest(message.signature, sign(message, other, more));
  }

  /// Hides @p data, or shows what was hidden: adds the HMACs of @p nonce and 0, 1, 2, ... to them.
  TANDEM_ONCE void hide(std::span<std::byte> data, Nonce const& nonce) const;

 private:
  Digest key_;
};

inline Hello make_hello(World const& world, std::size_t bytes) {
  return {.nonce = make_nonce(),
          .bytes = bytes,
          .processes = world.processes,
          .process = world.process};
}

/// Looks that are not so frequent that they would burden a file server, or, from thousands of
/// processes at once (about a thousand looks a second from all of them), process 0.
inline Patience rendezvous_patience(World const& world, std::chrono::milliseconds timeout) {
  return Patience{timeout, 0, std::chrono::milliseconds{std::clamp(world.processes, 20, 1000)}};
}

/// "rendezvous at 'host:1234': "
inline std::string at_rendezvous(World const& world) {
  return "rendezvous at '" + printable(world.rendezvous.address) + "': ";
}

/// "0.2.0"
inline std::string version_text(std::uint64_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Why @p hello cannot be welcome, as both sides say it.
TANDEM_ONCE std::string fault_text(Admission verdict, Hello const& hello, std::int32_t processes,
                                   std::uint64_t bytes, std::uint64_t version);

inline constexpr char const* share_a_token =
    "set TANDEM_TOKEN to the same random text for all processes, as `openssl rand -hex 16` prints";

/// What a process takes from an answer to its @p hello. Whether it is one; if not, @p why says what
/// it is, if that is known.
/// @throws ContractError  process 0 refuses, and proves that it is process 0
TANDEM_ONCE bool take_answer(World const& world, RendezvousKey const& key, Hello const& hello,
                             std::span<std::byte const> answer, std::span<std::byte> data,
                             std::string& why);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string hex(std::span<std::byte const> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::byte const byte : bytes) {
    text +=
        {digits[static_cast<std::size_t>(byte) / 16], digits[static_cast<std::size_t>(byte) % 16]};
  }
  return text;
}

TANDEM_ONCE std::string fault_text(Admission verdict, Hello const& hello, std::int32_t processes,
                                   std::uint64_t bytes, std::uint64_t version) {
  if (verdict == Admission::other_version) {
    return "process " + std::to_string(hello.process) + " runs tandem " +
           version_text(hello.version) + ", but process 0 " + version_text(version) +
           ": start the same program everywhere";
  }
  if (verdict == Admission::other_processes) {
    return "process 0 was told that there are " + std::to_string(processes) +
           " processes, but process " + std::to_string(hello.process) + " that there are " +
           std::to_string(hello.processes);
  }
  return "process " + std::to_string(hello.process) + " asks process 0 for " +
         std::to_string(hello.bytes) + " bytes instead of " + std::to_string(bytes) +
         ": do all processes run the same program?";
}

TANDEM_ONCE bool take_answer(World const& world, RendezvousKey const& key, Hello const& hello,
                             std::span<std::byte const> answer, std::span<std::byte> data,
                             std::string& why) {
  Answer head;
  if (answer.size() < sizeof head || !parse_message(answer.first(sizeof head), head)) {
    return false;
  }
  auto const hidden = answer.subspan(sizeof head);
  if (!key.proves(head, hello.nonce, hidden)) {
    if (head.verdict == Admission::unproven) {
      why = std::string{"what listens there does not share this process's token: "} + share_a_token;
    }
    return false;
  }
  if (head.verdict != Admission::welcome) {
    throw ContractError{at_rendezvous(world) +
                        fault_text(head.verdict, hello, head.processes, head.bytes, head.version)};
  }
  if (hidden.size() != data.size()) {
    return false;
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = hidden[i];
  }
  key.hide(data, head.nonce);
  return true;
}

TANDEM_ONCE void RendezvousKey::hide(std::span<std::byte> data, Nonce const& nonce) const {
  Digest pad{};
  for (std::uint64_t i = 0; i < data.size(); ++i) {
    if (std::uint64_t const block = i / pad.size(); i % pad.size() == 0) {
      pad = Hmac{key_}
                .add(bytes_of(std::string_view{"hide"}))
                .add(nonce)
                .add(bytes_of(block))
                .finish();
    }
    data[i] ^= pad[i % pad.size()];
  }
}

}  // namespace tandem::detail

#endif
