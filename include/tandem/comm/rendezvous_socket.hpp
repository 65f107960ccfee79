// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rendezvous() over TCP: process 0 listens at host:port, the others ask it, as often as it takes.

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous_hello.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// An open socket, or -1. Move-only.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_{descriptor} {}
  Socket(Socket&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(descriptor_));
    }
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

using Addresses = std::unique_ptr<::addrinfo, void (*)(::addrinfo*)>;

/// Where "host:port" or "[host]:port" is; null, and what is wrong in @p why, if nobody knows.
inline Addresses resolve(std::string const& address, std::string& why) {
  std::size_t const colon = address.rfind(':');
  expects(colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
              address.find_first_not_of("0123456789", colon + 1) == std::string::npos,
          "rendezvous: write its address as host:port, with a number as the port, or as file:PATH");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  ::addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  ::addrinfo* found = nullptr;
  int const status = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (status != 0) {
    why = std::string{"the host is not known: "} + ::gai_strerror(status);
  }
  return {status == 0 ? found : nullptr, ::freeaddrinfo};
}

/// Waits until @p socket can be read or written, for @p ms at most.
inline bool ready(Socket const& socket, short events, int ms) {
  ::pollfd entry{socket.get(), events, 0};
  return ::poll(&entry, 1, ms) == 1;
}

/// All of @p bytes within two seconds. Whether it worked.
inline bool send_all(Socket const& socket, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    ::ssize_t const sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (!(sent < 0 && (errno == EAGAIN || errno == EINTR) && ready(socket, POLLOUT, 2000))) {
      return false;
    }
  }
  return true;
}

/// The socket at which process 0 is asked.
/// @throws Error  the address is not this machine's, or its port is taken
inline Socket listen_at(World const& world) {
  std::string why;
  Addresses const addresses = resolve(world.rendezvous.address, why);
  for (auto const* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Socket socket{::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    int const yes = 1;
    static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    if (socket.get() >= 0 && ::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::listen(socket.get(), 512) == 0) {
      return socket;
    }
    why = std::generic_category().message(errno);
  }
  throw Error{at_rendezvous(world) + "process 0 cannot listen there: " + why +
              "; it must be a free port of the machine of process 0"};
}

/// Someone who has connected to process 0, and what it has said so far.
struct Caller {
  Socket socket;
  std::array<std::byte, sizeof(Hello)> said{};
  std::size_t size = 0;

  /// Reads what there is. Whether there may be more to come.
  bool listen() {
    ::ssize_t const got = ::recv(socket.get(), said.data() + size, said.size() - size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
    return got > 0 && size < said.size();
  }
};

/// Answers @p caller if it has said a hello that is expected.
inline void answer_caller(RollCall& calls, Caller const& caller) {
  Hello hello;
  if (caller.size != sizeof hello) {
    return;
  }
  std::memcpy(&hello, caller.said.data(), sizeof hello);
  if (!calls.expected(hello)) {
    return;
  }
  std::string const fault = calls.fault(hello);
  bool const sent = send_all(caller.socket, calls.answer(hello, fault));
  if (!fault.empty()) {
    throw ContractError{fault};
  }
  if (sent) {
    calls.note(hello);
  }
}

/// Process 0's side. Those who connect and say nothing, or nonsense, hold nobody up.
inline void answer_over_tcp(World const& world, std::span<std::byte const> data,
                            std::chrono::milliseconds timeout) {
  constexpr std::size_t most_callers = 512;
  Socket const listener = listen_at(world);
  RollCall calls{world, data};
  std::vector<Caller> callers;
  Patience patience = rendezvous_patience(timeout);
  while (!calls.complete()) {
    for (;;) {
      Socket next{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (next.get() < 0) {
        break;
      }
      if (callers.size() == most_callers) {
        callers.erase(callers.begin());
      }
      callers.push_back({.socket = std::move(next)});
    }
    std::erase_if(callers, [&calls](Caller& caller) {
      if (caller.listen()) {
        return false;
      }
      answer_caller(calls, caller);
      return true;
    });
    if (!calls.complete() && !patience.pause()) {
      calls.time_out(timeout);
    }
  }
}

/// One attempt to ask process 0. Whether it has answered; if not, @p why says what went wrong.
/// @throws ContractError  process 0 refuses
inline bool ask_once(World const& world, Hello const& hello, std::span<std::byte> data, int ms,
                     std::string& why) {
  Addresses const addresses = resolve(world.rendezvous.address, why);
  Socket socket;
  for (auto const* at = addresses.get(); at != nullptr; at = at->ai_next) {
    socket = Socket{::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    int error = ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      ::socklen_t size = sizeof error;
      if (!ready(socket, POLLOUT, std::min(ms, 2000))) {
        error = ETIMEDOUT;
      } else if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
      }
    }
    if (error == 0) {
      break;
    }
    why = std::generic_category().message(error);
    socket = Socket{};
  }
  if (socket.get() < 0 || !send_all(socket, std::as_bytes(std::span{&hello, 1}))) {
    return false;
  }
  std::vector<std::byte> answer(sizeof(Answer) + largest_rendezvous);
  std::size_t size = 0;
  while (size < answer.size() && ready(socket, POLLIN, ms)) {
    ::ssize_t const got = ::recv(socket.get(), answer.data() + size, answer.size() - size, 0);
    if (got <= 0) {
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  why = "what listens there is no process 0 of this program";
  return take_answer(hello, std::span{answer}.first(size), data);
}

/// Any other process's side.
inline void ask_over_tcp(World const& world, std::span<std::byte> data,
                         std::chrono::milliseconds timeout) {
  Hello const hello = hello_of(world, data.size());
  Patience patience = rendezvous_patience(timeout);
  std::string why = "no answer";
  while (!ask_once(world, hello, data, patience.left_ms(), why)) {
    if (!patience.pause()) {
      throw TimeoutError{at_rendezvous(world) + "process 0 did not answer process " +
                         std::to_string(world.process) + " within " + to_string(timeout) + " (" +
                         why + ")"};
    }
  }
}

inline void rendezvous_over_tcp(World const& world, std::span<std::byte> data,
                                std::chrono::milliseconds timeout) {
  if (world.process == 0) {
    answer_over_tcp(world, data, timeout);
  } else {
    ask_over_tcp(world, data, timeout);
  }
}

}  // namespace tandem::detail
