// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where a process can be called: a port that the system gives it, and its machine's addresses.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>

namespace tandem::detail {

/// "node7"
inline std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? printable(name.data()) : "a machine";
}

/// A socket that listens at all addresses of this machine, and its port.
/// @throws Error  the system gives none
TANDEM_ONCE Descriptor listen_anywhere(std::uint16_t& port);

/// "192.168.0.7" or "[fd00::7]"; "" of what is neither.
TANDEM_ONCE std::string numeric_address(::sockaddr const& address);

/// This machine's addresses, loopback last; none that is for one link only.
TANDEM_ONCE std::vector<std::string> own_addresses();

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Descriptor listen_anywhere(std::uint16_t& port) {
  Descriptor socket{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  ::sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_any;
  int const no = 0;  // of IPv4, too
  static_cast<void>(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no));
  bool bound =
      socket.get() >= 0 && ::bind(socket.get(), reinterpret_cast<::sockaddr*>(&v6), sizeof v6) == 0;
  if (!bound) {  // a machine without IPv6
    socket = Descriptor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    ::sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_ANY);
    bound = socket.get() >= 0 &&
            ::bind(socket.get(), reinterpret_cast<::sockaddr*>(&v4), sizeof v4) == 0;
  }
  ::sockaddr_storage name{};
  ::socklen_t size = sizeof name;
  if (!bound || ::listen(socket.get(), 4096) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<::sockaddr*>(&name), &size) != 0) {
    throw Error{"lifeline: the system gives no socket to listen at: " +
                std::generic_category().message(errno)};
  }
  port = ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<::sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<::sockaddr_in&>(name).sin_port);
  return socket;
}

TANDEM_ONCE std::string numeric_address(::sockaddr const& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET) {
    auto const& v4 = reinterpret_cast<::sockaddr_in const&>(address);
    return ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size()) != nullptr ? text.data()
                                                                                   : "";
  }
  if (address.sa_family != AF_INET6) {
    return "";
  }
  auto const& v6 = reinterpret_cast<::sockaddr_in6 const&>(address);
  if (::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size()) == nullptr) {
    return "";
  }
  std::string const plain = text.data();
  constexpr std::string_view mapped = "::ffff:";  // of IPv4
  return plain.find('.') != std::string::npos && plain.rfind(mapped, 0) == 0
             ? plain.substr(mapped.size())
             : "[" + plain + "]";
}

TANDEM_ONCE std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ::ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (bool const loopback : {false, true}) {
      for (::ifaddrs const* at = list; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0 ||
            ((at->ifa_flags & IFF_LOOPBACK) != 0) != loopback) {
          continue;
        }
        std::string const text = numeric_address(*at->ifa_addr);
        if (!text.empty() && text.rfind("[fe80:", 0) != 0) {
          all.push_back(text);
        }
      }
    }
    ::freeifaddrs(list);
  }
  return all;
}

}  // namespace tandem::detail

#endif
