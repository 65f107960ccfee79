// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The file that holds the token of a user's programs: 32 random digits, made when first needed.
///
/// As ssh's keys and Erlang's cookie are: who can read this user's files may join this user's jobs.

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/comm/world.hpp>
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

}  // namespace tandem::detail

#endif
