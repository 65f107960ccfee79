// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_mpi: what MPI's C functions return, as an exception.

#include <string>

#include <mpi.h>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// MPI has failed.
class MpiError : public Error {
 public:
  using Error::Error;
};

namespace detail {

[[noreturn]] inline TANDEM_COLD void throw_mpi(int status, char const* call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw MpiError{std::string{call} + " failed: " + std::string(text, std::size_t(length)) +
                 "; is the network up, and are all processes of the same MPI?"};
}

}  // namespace detail

/// @throws MpiError  @p status is no success
inline void check_mpi(int status, char const* call) {
  if (status != MPI_SUCCESS) {
    detail::throw_mpi(status, call);
  }
}

}  // namespace tandem
