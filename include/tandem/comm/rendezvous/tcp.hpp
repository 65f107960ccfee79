// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rendezvous() over TCP: process 0 listens at host:port, the others ask it, as often as it takes.
///
/// The token is a file, as ssh's keys and Erlang's cookie are: who can read this user's files may
/// join this user's jobs.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/comm/rendezvous/roll.hpp>
#include <tandem/comm/rendezvous/socket.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>

namespace tandem::detail {

inline constexpr std::size_t shortest_token = 16;
inline constexpr std::size_t longest_token = 4096;

/// What @p bytes of a token file say, without the end of the line; "" if that is no token.
inline std::string parse_token(std::span<std::byte const> bytes) {
  std::string token;
  for (std::byte const byte : bytes) {
    token += static_cast<char>(byte);
  }
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  return token.size() >= shortest_token && token.size() < longest_token ? token : "";
}

/// The token in the file @p path, which is made if there is none; all who call it get the same.
/// @throws Error  it is not private, holds no token, or cannot be made
TANDEM_ONCE std::string token_of_file(std::string const& path, Patience& patience);

/// The key of a rendezvous whose processes may be on other machines.
inline RendezvousKey key_of(World const& world, Patience& patience) {
  Rendezvous const& where = world.rendezvous;
  std::string const secret =
      where.token_file.empty() ? "" : token_of_file(where.token_file, patience);
  return {secret, where.token};
}

/// Someone who has connected to process 0: what it has said so far, and what it is told.
struct Caller {
  enum class Stage { asks, is_told, thanks };

  Descriptor socket;
  Challenge challenge{};
  Stage stage = Stage::asks;
  bool ready = false;
  std::array<std::byte, sizeof(Hello)> said{};
  std::size_t heard = 0;
  std::size_t told = 0;
  RollCall::Reply reply{};

  /// Reads what there is. Whether it is all; if not, @p open says whether more may come.
  TANDEM_ONCE bool hear(bool& open);

  /// Sends what there is room for. Whether there is more to send.
  TANDEM_ONCE bool tell();
};

/// Goes on with @p caller as far as that is possible without waiting. Whether it may stay.
TANDEM_ONCE bool serve(Caller& caller, RollCall& calls, RendezvousKey const& key);

TANDEM_ONCE void rendezvous_over_tcp(World const& world, std::span<std::byte> data,
                                     std::chrono::milliseconds timeout, Patience& patience);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// Makes the token file @p path at once and whole, unless another process is first.
/// @throws Error  the folder cannot be written, or not privately
TANDEM_ONCE void make_token_file(std::string const& path) {
  std::string const made = path + "." + hex(make_nonce());
  try {
    make_private_file(made, bytes_of(hex(make_nonce()) + "\n"));
  } catch (FileError const& error) {
    throw Error{std::string{error.what()} + "; " + share_a_token};
  }
  int const error = ::link(made.c_str(), path.c_str()) == 0 ? 0 : errno;  // never overwrites
  static_cast<void>(::unlink(made.c_str()));
  if (error != 0 && error != EEXIST) {
    throw FileError{printable(path), "cannot be made to hold the token of the rendezvous: " +
                                         std::generic_category().message(error) + "; " +
                                         share_a_token};
  }
}

TANDEM_ONCE std::string token_of_file(std::string const& path, Patience& patience) {
  for (;;) {
    PrivateFile const file = read_private_file(path, longest_token);
    if (file.error == ENOENT && patience.pause()) {  // a disk may show late what others made
      make_token_file(path);
      continue;
    }
    if (file.error != 0) {
      throw FileError{printable(path), "cannot be read for the token of the rendezvous: " +
                                           std::generic_category().message(file.error) + "; " +
                                           share_a_token};
    }
    if (!file.is_private) {
      throw FileError{printable(path),
                      "must be a plain file of this user's that nobody else may read or write "
                      "(chmod 600), since it holds the token of the rendezvous"};
    }
    std::string token = parse_token(file.bytes);
    if (token.empty()) {
      throw FileError{printable(path),
                      "holds no token of 16 to 4095 characters for the "
                      "rendezvous: remove it, and a new one is made"};
    }
    return token;
  }
}

TANDEM_ONCE bool serve(Caller& caller, RollCall& calls, RendezvousKey const& key) {
  bool open = false;
  if (caller.stage == Caller::Stage::asks) {
    if (!caller.hear(open)) {
      return open;
    }
    Hello hello;
    bool const proved =
        parse_message(caller.said, hello) && key.proves(hello, caller.challenge.nonce);
    caller.reply = proved ? calls.reply(hello) : calls.reply_to_stranger();
    caller.stage = Caller::Stage::is_told;
    if (caller.reply.process != 0) {
      calls.told(caller.reply.process, true);
    }
  }
  if (caller.stage == Caller::Stage::is_told) {
    if (caller.tell()) {
      return true;
    }
    if (caller.reply.process == 0 || caller.told < caller.reply.bytes.size()) {
      return false;
    }
    caller.stage = Caller::Stage::thanks;
    caller.heard = caller.said.size() - 1;  // one more byte
  }
  if (!caller.hear(open)) {
    return open;
  }
  calls.note(caller.reply.process);
  return false;
}

/// Takes those who wait at @p listener. A flood costs the oldest of those who have proved nothing
/// their place, not process 0 its descriptors; those of this program come again.
TANDEM_ONCE void welcome_callers(Descriptor const& listener, std::vector<Caller>& callers) {
  static constexpr std::size_t at_once = 64;  // then the others are served again
  static constexpr std::size_t most = 512;    // of the 1,024 descriptors that a process mostly has
  auto const forget_oldest = [&callers] {
    std::size_t left = at_once;
    std::erase_if(callers, [&left](Caller const& caller) {
      return caller.stage == Caller::Stage::asks && left > 0 && left-- > 0;
    });
  };
  if (callers.size() + at_once > most) {
    forget_oldest();
  }
  for (std::size_t i = 0; i < at_once; ++i) {
    Descriptor next{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (next.get() < 0) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {  // no more descriptors
        forget_oldest();
      }
      return;
    }
    Caller caller{.socket = std::move(next), .challenge = {.nonce = make_nonce()}};
    auto const word = bytes_of(caller.challenge);
    if (::send(caller.socket.get(), word.data(), word.size(), MSG_NOSIGNAL) ==
        static_cast<::ssize_t>(word.size())) {
      callers.push_back(std::move(caller));
    }
  }
}

/// Process 0's side. Those who connect and say nothing, nonsense, or a byte now and then hold
/// nobody up.
TANDEM_ONCE void answer_over_tcp(World const& world, std::span<std::byte const> data,
                                 std::chrono::milliseconds timeout, Patience& patience) {
  RendezvousKey const key = key_of(world, patience);
  Descriptor const listener = listen_at(world, patience);
  RollCall calls{world, key, data};
  std::vector<Caller> callers;
  std::vector<::pollfd> entries;
  while (!calls.complete()) {
    int const left = patience.left_ms();
    if (left == 0) {
      calls.time_out(timeout);
    }
    entries.assign(1, {listener.get(), POLLIN, 0});
    for (Caller const& caller : callers) {
      short const event = caller.stage == Caller::Stage::is_told ? POLLOUT : POLLIN;
      entries.push_back({caller.socket.get(), event, 0});
    }
    if (::poll(entries.data(), static_cast<::nfds_t>(entries.size()), left) <= 0) {
      continue;
    }
    for (std::size_t i = 0; i < callers.size(); ++i) {
      callers[i].ready = entries[i + 1].revents != 0;
    }
    std::erase_if(callers, [&calls, &key](Caller& caller) {
      if (!caller.ready || serve(caller, calls, key)) {
        return false;
      }
      if (caller.reply.process != 0) {
        calls.told(caller.reply.process, false);
      }
      return true;
    });
    if (entries[0].revents != 0) {
      welcome_callers(listener, callers);
    }
  }
}

/// Asks the process 0 that may listen at @p at. Whether it has answered before @p limit; if not,
/// @p why says what went wrong.
/// @throws ContractError  process 0 refuses
TANDEM_ONCE bool ask_at(::addrinfo const& at, World const& world, RendezvousKey const& key,
                        std::span<std::byte> data, Patience const& limit, std::string& why) {
  Descriptor const socket = connect_to(at, limit, why);
  if (socket.get() < 0) {
    return false;
  }
  why = "what listens there is no process 0 of this program";
  Challenge challenge;
  std::array<std::byte, sizeof challenge> word{};
  if (receive(socket, word, limit) != word.size() || !parse_message(word, challenge)) {
    return false;
  }
  Hello hello = make_hello(world, data.size());
  hello.signature = key.sign(hello, challenge.nonce);
  std::vector<std::byte> answer(sizeof(Answer) + data.size());
  if (!send_all(socket, bytes_of(hello), limit)) {
    return false;
  }
  answer.resize(receive(socket, answer, limit));
  if (answer.empty()) {
    why = "process 0 did not answer; is there another process of this number?";
  }
  return take_answer(world, key, hello, answer, data, why) &&
         send_all(socket, std::array{std::byte{1}}, limit);  // thanks
}

/// Any other process's side. All addresses of the host are tried in turn, each for a second at
/// first: a stranger may listen at one of them.
TANDEM_ONCE void ask_over_tcp(World const& world, std::span<std::byte> data,
                              std::chrono::milliseconds timeout, Patience& patience) {
  RendezvousKey const key = key_of(world, patience);
  std::string why = "no answer";
  for (int slice = 1000;;) {
    Addresses const addresses = resolve(world.rendezvous.address, why);
    for (auto const* at = addresses.get(); at != nullptr; at = at->ai_next) {
      Patience const limit{std::chrono::milliseconds{std::min(slice, patience.left_ms())}};
      if (ask_at(*at, world, key, data, limit, why)) {
        return;
      }
      slice = limit.left_ms() == 0 ? std::min(2 * slice, 30000) : slice;  // process 0 may be slow
    }
    if (!patience.pause()) {
      throw TimeoutError{at_rendezvous(world) + "process 0 did not answer process " +
                         std::to_string(world.process) + " within " + to_string(timeout) + " (" +
                         why + ")"};
    }
  }
}

TANDEM_ONCE bool Caller::hear(bool& open) {
  while (heard < said.size()) {
    ::ssize_t const got = ::recv(socket.get(), said.data() + heard, said.size() - heard, 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      open = got < 0 && errno == EAGAIN;
      return false;
    }
    heard += static_cast<std::size_t>(got);
  }
  return true;
}

TANDEM_ONCE bool Caller::tell() {
  while (told < reply.bytes.size()) {
    ::ssize_t const sent =
        ::send(socket.get(), reply.bytes.data() + told, reply.bytes.size() - told, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      return sent < 0 && errno == EAGAIN;
    }
    told += static_cast<std::size_t>(sent);
  }
  return false;
}

TANDEM_ONCE void rendezvous_over_tcp(World const& world, std::span<std::byte> data,
                                     std::chrono::milliseconds timeout, Patience& patience) {
  if (world.process == 0) {
    answer_over_tcp(world, data, timeout, patience);
  } else {
    ask_over_tcp(world, data, timeout, patience);
  }
}

}  // namespace tandem::detail

#endif
