// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of preconditions: expects() at the public door, TANDEM_ASSERT inside.

#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

namespace detail {

[[noreturn]] TANDEM_COLD inline void fail_contract(char const* message) {
  throw ContractError{message};
}

[[noreturn]] TANDEM_COLD inline void fail_internal_check(char const* condition, char const* file,
                                                         int line) {
  throw ContractError{std::string{"internal check: "} + condition + " (" + file + ":" +
                      std::to_string(line) + ")"};
}

}  // namespace detail

/// Always on, O(1), at the public door. The message says what is wrong and what to do, and names
/// the door: it is for who called that, whom a place in this library's source tells nothing.
/// @throws ContractError  @p condition is false
constexpr void expects(bool condition, char const* message) {
  if (!condition) {
    detail::fail_contract(message);
  }
}

}  // namespace tandem

/// A check inside the library, on in debug builds only; the body of no type depends on it. The
/// fault is the library's, so the message has the place.
#if defined(NDEBUG)
#define TANDEM_ASSERT(condition) static_cast<void>(0)
#else
#define TANDEM_ASSERT(condition)      \
  ((condition) ? static_cast<void>(0) \
               : ::tandem::detail::fail_internal_check(#condition, __FILE__, __LINE__))
#endif
