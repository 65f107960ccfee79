// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// exit_code_of(): the ExitCode of a process that an error ends.

#include <exception>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/train/checkpoint/signals.hpp>

namespace tandem {

namespace detail {

/// What has failed first, without what was said around it on the way: of another's failure the same
/// in all processes.
TANDEM_ONCE std::string innermost_text(std::exception const& error);

}  // namespace detail

/// Of a process that @p error ends. A rank's error is its own; what the others throw because of it
/// is another's, and so is that of whoever waited in vain.
TANDEM_ONCE ExitCode exit_code_of(std::exception const& error);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Whether @p error, or what it is nested around, says that another rank failed or did not come.
TANDEM_ONCE bool is_of_another(std::exception const& error) {
  if (dynamic_cast<AbortedError const*>(&error) != nullptr ||
      dynamic_cast<TimeoutError const*>(&error) != nullptr) {
    return true;
  }
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& cause) {
    return is_of_another(cause);
  } catch (...) {
  }
  return false;
}

TANDEM_ONCE std::string innermost_text(std::exception const& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& cause) {
    return innermost_text(cause);
  } catch (...) {
  }
  return error.what();
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE ExitCode exit_code_of(std::exception const& error) {
  if (auto const* const stopped = dynamic_cast<StoppedBySignal const*>(&error)) {
    return static_cast<ExitCode>(stopped->exit_status());
  }
  return detail::is_of_another(error) ? ExitCode::peer_failed : ExitCode::error;
}

}  // namespace tandem

#endif
