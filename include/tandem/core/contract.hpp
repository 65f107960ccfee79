// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of preconditions: expects() at the public door, TANDEM_ASSERT inside.

#include <string>

#include <tandem/core/error.hpp>

namespace tandem {

namespace detail {

[[noreturn]] inline void fail_contract(char const* message, char const* file, int line) {
  throw ContractError{std::string{message} + " (" + file + ":" + std::to_string(line) + ")"};
}

}  // namespace detail

/// Always on, O(1), at the public door. The message says what is wrong and what to do.
/// @throws ContractError  @p condition is false
constexpr void expects(bool condition, char const* message, char const* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (!condition) {
    detail::fail_contract(message, file, line);
  }
}

}  // namespace tandem

/// A check inside the library, on in debug builds only; the body of no type depends on it.
#if defined(NDEBUG)
#define TANDEM_ASSERT(condition) static_cast<void>(0)
#else
#define TANDEM_ASSERT(condition) ::tandem::expects((condition), "internal check: " #condition)
#endif
