// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Frames: what processes say to each other on a lifeline.
///
///   the parent   Challenge  a number made up for this connection
///   the child    hello      who it is and where it listens, signed together with that number
///   the parent   welcome, and both stay; or, process 0 to a grandchild: refer
///   the child    ready, once all below it are connected; the parent, when all are: begin
///   both         beat, now and then; failed upwards, verdict downwards; goodbye
///   the parent   asks, where somebody has waited too long; the child: waits, of each rank that
///                does, or reached, of each that knows only its own calls; board, of its own
///                children; answered
///
/// Whoever cannot sign, by a key that the rendezvous has given to this program's processes only, is
/// no process of it. Machines of the other byte order are none, either.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/sha256.hpp>

namespace tandem::detail {

enum class FrameKind : std::uint8_t {
  hello,     ///< a process to its parent, or to process 0 first
  refer,     ///< process 0: your parent listens at that address
  welcome,   ///< the parent: you are connected; my machine
  ready,     ///< upwards: all below me are connected
  begin,     ///< downwards: all are
  beat,      ///< still here, at what the second text says
  failed,    ///< upwards: a verdict, unless there is one
  verdict,   ///< downwards: the verdict
  asks,      ///< downwards: who waits for whom?
  waits,     ///< upwards: a rank waits for another, whom the second text is about
  reached,   ///< upwards: a rank of a group has come as far as a call, which the first text names
  board,     ///< upwards: what a process was at when it was last heard of, or has said goodbye
  answered,  ///< upwards: these were all waits of a process, which is at what the second text says
  goodbye    ///< I am done, at what the second text says, and nothing is wrong
};

/// What a frame begins with; two texts follow.
struct FrameHead {
  static constexpr std::uint32_t right_magic = 0x4C4E4401;
  static constexpr std::uint16_t most = 1024;  ///< bytes of a text

  std::uint32_t magic = right_magic;
  std::int32_t process = 0;
  std::int32_t rank = -1;
  std::int32_t other = -1;    ///< of waits: the rank that is waited for; of reached: the group
  std::uint16_t port = 0;     ///< of a hello: where its own children find it
  std::uint16_t machine = 0;  ///< bytes of the first text
  std::uint16_t what = 0;     ///< and of the second
  FrameKind kind = FrameKind::beat;
  /// verdict: it timed out; waits and reached: the rank does nothing else; board: the process has
  /// said goodbye
  std::uint8_t flag = 0;
  std::uint64_t call = 0;  ///< reached: its number in the group; goodbye: works that were begun
};
static_assert(std::has_unique_object_representations_v<FrameHead>);

struct Frame {
  FrameHead head{};
  std::string machine{};
  std::string what{};
};

/// What a hello has as its second text, on a connection that began with @p nonce.
inline std::string signature(Nonce const& key, Nonce const& nonce, FrameHead const& hello) {
  std::string const said = std::to_string(hello.process) + ' ' + std::to_string(hello.port);
  return hex(Hmac{key}.add(nonce).add(bytes_of(std::string_view{said})).finish());
}

TANDEM_ONCE void append(std::vector<std::byte>& to, Frame frame);

enum class Parsed : std::uint8_t { partly, whole, nonsense };

/// Takes the first frame off @p bytes, once it is all there. Texts are for people: what no terminal
/// should obey is escaped.
TANDEM_ONCE Parsed take_frame(std::vector<std::byte>& bytes, Frame& frame);

inline Frame frame_of(FrameKind kind, LifelineVerdict const& verdict) {
  return {.head = {.process = verdict.process,
                   .rank = verdict.rank,
                   .kind = kind,
                   .flag = static_cast<std::uint8_t>(verdict.timed_out ? 1 : 0)},
          .machine = verdict.machine,
          .what = verdict.what};
}

inline LifelineVerdict verdict_of(Frame const& frame) {
  return {.process = frame.head.process,
          .rank = frame.head.rank,
          .machine = frame.machine,
          .what = frame.what,
          .timed_out = frame.head.flag != 0};
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void append(std::vector<std::byte>& to, Frame frame) {
  auto const cut = [](std::string& text) {
    text.resize(text.size() < FrameHead::most ? text.size() : FrameHead::most);
    return static_cast<std::uint16_t>(text.size());
  };
  frame.head.machine = cut(frame.machine);
  frame.head.what = cut(frame.what);
  for (auto const bytes : {bytes_of(frame.head), bytes_of(std::string_view{frame.machine}),
                           bytes_of(std::string_view{frame.what})}) {
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
}

TANDEM_ONCE Parsed take_frame(std::vector<std::byte>& bytes, Frame& frame) {
  FrameHead& head = frame.head;
  if (bytes.size() < sizeof head) {
    return Parsed::partly;
  }
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != FrameHead::right_magic || head.kind > FrameKind::goodbye ||
      head.machine > FrameHead::most || head.what > FrameHead::most) {
    return Parsed::nonsense;
  }
  std::size_t const size = sizeof head + head.machine + head.what;
  if (bytes.size() < size) {
    return Parsed::partly;
  }
  auto const* const text = reinterpret_cast<char const*>(bytes.data()) + sizeof head;
  frame.machine = printable(std::string_view{text, head.machine}, FrameHead::most);
  frame.what = printable(std::string_view{text + head.machine, head.what}, FrameHead::most);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  return Parsed::whole;
}

}  // namespace tandem::detail

#endif
