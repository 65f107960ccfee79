// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// printable(): what may stand in a message of text that came from outside.

#include <cstddef>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>

namespace tandem::detail {

/// @p text with every byte but ASCII's 32 to 126 written as \xNN, and "..." for what comes after
/// @p most bytes: nothing in it that a terminal obeys, hides or reorders.
TANDEM_ONCE std::string printable(std::string_view text, std::size_t most = 256);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string printable(std::string_view text, std::size_t most) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string shown;
  for (char const c : text.substr(0, most)) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte < 127) {
      shown += c;
    } else {
      shown += {'\\', 'x', digits[byte / 16U], digits[byte % 16U]};
    }
  }
  return text.size() > most ? shown + "..." : shown;
}

}  // namespace tandem::detail

#endif
