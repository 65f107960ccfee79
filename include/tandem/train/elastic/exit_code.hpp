// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ExitCode: what a program that trains tells the one that has started it.

#include <exception>
#include <string>

#include <tandem/core/error.hpp>
#include <tandem/train/checkpoint/signals.hpp>

namespace tandem {

/// As sysexits.h numbers what is not the program's own fault.
enum class ExitCode : int {
  done = 0,
  error = 1,         ///< of this program or its input: to start it again would not help
  peer_failed = 70,  ///< another process did, and says why
  start_again = 75,  ///< stopped with all saved, to go on where it is started again
  interrupted = StoppedBySignal::interrupted_status  ///< the same, by Ctrl-C
};

namespace detail {

/// Whether @p error, or what it is nested around, says that another rank failed or did not come.
template <class = void>
bool is_of_another(std::exception const& error) {
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

/// What has failed first, without what was said around it on the way: of another's failure the same
/// in all processes.
template <class = void>
std::string innermost_text(std::exception const& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& cause) {
    return innermost_text(cause);
  } catch (...) {
  }
  return error.what();
}

}  // namespace detail

/// Of a process that @p error ends. A rank's error is its own; what the others throw because of it
/// is another's, and so is that of whoever waited in vain.
template <class = void>  // compiled where it is called, not by every include
ExitCode exit_code_of(std::exception const& error) {
  if (auto const* const stopped = dynamic_cast<StoppedBySignal const*>(&error)) {
    return static_cast<ExitCode>(stopped->exit_status());
  }
  return detail::is_of_another(error) ? ExitCode::peer_failed : ExitCode::error;
}

}  // namespace tandem
