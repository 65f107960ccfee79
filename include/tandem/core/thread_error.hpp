// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// no_more_threads(): the sentence for a thread that the system does not start.

#include <string>
#include <system_error>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// @param who  who needs how many and has got how many
TANDEM_ONCE TANDEM_COLD Error no_more_threads(std::string const& who,
                                              std::system_error const& error);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Error no_more_threads(std::string const& who, std::system_error const& error) {
  return Error{who + ": the system starts no more threads (" + error.code().message() +
               "); use fewer ranks or a smaller TrainerOptions::threads_per_device, or raise the "
               "limits on processes and memory (ulimit -u, ulimit -v)"};
}

}  // namespace tandem::detail

#endif
