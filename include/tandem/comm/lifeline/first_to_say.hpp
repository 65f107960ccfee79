// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::is_first_to_say(): one sentence on each machine, by whichever process there is alive.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Whether no process that the same launcher has started here, and that still runs, was asked about
/// this sentence before: then the caller is to say it. Rather twice than never: where the system
/// has no name to give, as in a container of each process's own, all are.
TANDEM_ONCE TANDEM_COLD bool is_first_to_say([[maybe_unused]] std::string_view sentence);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool is_first_to_say([[maybe_unused]] std::string_view sentence) {
#if defined(__linux__)  // no other system has names of sockets that are no files
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string const name = "tandem-says-" + std::to_string(::getppid()) + "-" +
                           std::to_string(std::hash<std::string_view>{}(sentence));
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // no file, but a name of Linux's
  auto const size = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + 1 + name.size());
  int const socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket >= 0 && ::bind(socket, reinterpret_cast<::sockaddr*>(&address), size) == 0) {
    return true;  // the socket has the name until the process ends
  }
  bool const taken = socket >= 0 && errno == EADDRINUSE;
  if (socket >= 0) {
    static_cast<void>(::close(socket));
  }
  return !taken;
#else
  return true;
#endif
}

}  // namespace tandem::detail

#endif
