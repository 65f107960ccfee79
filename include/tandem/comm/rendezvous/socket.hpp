// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sockets of rendezvous() over TCP: none of them blocks, and each wait has an end.

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

using Addresses = std::unique_ptr<::addrinfo, void (*)(::addrinfo*)>;

/// "host:port" or "[host]:port" in its two parts.
struct HostPort {
  std::string host;
  std::string port;
};

/// @throws ContractError  it is neither
TANDEM_ONCE HostPort split_address(std::string const& address);

/// Where @p address is; null, and what is wrong in @p why, if nobody knows. Takes as long as the
/// system's resolver does.
TANDEM_ONCE Addresses resolve(std::string const& address, std::string& why);

inline Descriptor make_socket(::addrinfo const& at) {
  return Descriptor{::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

/// Waits until @p socket can be read or written, no longer than @p limit.
TANDEM_ONCE bool ready(Descriptor const& socket, short events, Patience const& limit);

/// Whether all of @p bytes were sent before @p limit.
TANDEM_ONCE bool send_all(Descriptor const& socket, std::span<std::byte const> bytes,
                          Patience const& limit);

/// Fills @p bytes before @p limit, however slowly they come. How many came.
TANDEM_ONCE std::size_t receive(Descriptor const& socket, std::span<std::byte> bytes,
                                Patience const& limit);

/// The socket at which process 0 is asked. Tries for a second if the port is taken: a process that
/// is too early may have it for a moment, see is_own_connection().
/// @throws Error  the address is not this machine's, or its port is taken
TANDEM_ONCE Descriptor listen_at(World const& world, Patience const& limit);

/// Whether @p socket is connected to itself, as TCP does if nobody listens at a port of this
/// machine that the system has just given to the one who calls it. It keeps process 0 from
/// listening there.
TANDEM_ONCE bool is_own_connection(Descriptor const& socket);

/// A connection to @p at before @p limit; none, and what is wrong in @p why, if there is none.
TANDEM_ONCE Descriptor connect_to(::addrinfo const& at, Patience const& limit, std::string& why);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE HostPort split_address(std::string const& address) {
  std::size_t const colon = address.rfind(':');
  expects(colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
              address.find_first_not_of("0123456789", colon + 1) == std::string::npos,
          "rendezvous: write its address as host:port, with a number as the port, or as file:PATH");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {host, address.substr(colon + 1)};
}

TANDEM_ONCE Addresses resolve(std::string const& address, std::string& why) {
  HostPort const parts = split_address(address);
  ::addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  ::addrinfo* found = nullptr;
  int const status = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (status != 0) {
    why = std::string{"the host is not known: "} + ::gai_strerror(status);
  }
  return {status == 0 ? found : nullptr, ::freeaddrinfo};
}

TANDEM_ONCE bool ready(Descriptor const& socket, short events, Patience const& limit) {
  for (;;) {
    ::pollfd entry{socket.get(), events, 0};
    int const count = ::poll(&entry, 1, limit.left_ms());
    if (count >= 0 || errno != EINTR) {
      return count == 1;
    }
  }
}

TANDEM_ONCE bool send_all(Descriptor const& socket, std::span<std::byte const> bytes,
                          Patience const& limit) {
  while (!bytes.empty()) {
    ::ssize_t const sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (!(sent < 0 && (errno == EAGAIN || errno == EINTR) &&
                 ready(socket, POLLOUT, limit))) {
      return false;
    }
  }
  return true;
}

TANDEM_ONCE std::size_t receive(Descriptor const& socket, std::span<std::byte> bytes,
                                Patience const& limit) {
  std::size_t size = 0;
  while (size < bytes.size() && ready(socket, POLLIN, limit)) {
    ::ssize_t const got = ::recv(socket.get(), bytes.data() + size, bytes.size() - size, 0);
    if (got > 0) {
      size += static_cast<std::size_t>(got);
    } else if (!(got < 0 && (errno == EAGAIN || errno == EINTR))) {
      break;
    }
  }
  return size;
}

TANDEM_ONCE Descriptor listen_at(World const& world, Patience const& limit) {
  Patience taken{std::chrono::milliseconds{std::min(1000, limit.left_ms())}, 0};
  int error = 0;
  std::string why;
  do {
    Addresses const addresses = resolve(world.rendezvous.address, why);
    for (auto const* at = addresses.get(); at != nullptr; at = at->ai_next) {
      Descriptor socket = make_socket(*at);
      int const yes = 1;
      static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
      if (socket.get() >= 0 && ::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 &&
          ::listen(socket.get(), 4096) == 0) {
        return socket;
      }
      error = errno;
      why = std::generic_category().message(error);
    }
  } while (error == EADDRINUSE && taken.pause());
  throw Error{at_rendezvous(world) + "process 0 cannot listen there: " + why +
              "; it must be a free port of the machine of process 0"};
}

TANDEM_ONCE bool is_own_connection(Descriptor const& socket) {
  ::sockaddr_storage here{};
  ::sockaddr_storage there{};
  ::socklen_t here_size = sizeof here;
  ::socklen_t there_size = sizeof there;
  return ::getsockname(socket.get(), reinterpret_cast<::sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<::sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

TANDEM_ONCE Descriptor connect_to(::addrinfo const& at, Patience const& limit, std::string& why) {
  Descriptor socket = make_socket(at);
  int error = ::connect(socket.get(), at.ai_addr, at.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    ::socklen_t size = sizeof error;
    if (!ready(socket, POLLOUT, limit)) {
      error = ETIMEDOUT;
    } else if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error == 0 && is_own_connection(socket)) {
    error = ECONNREFUSED;
  }
  if (error == 0) {
    return socket;
  }
  why = std::generic_category().message(error);
  return {};
}

}  // namespace tandem::detail

#endif
