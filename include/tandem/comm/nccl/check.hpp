// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NcclError and check_nccl(): every call of NCCL goes through one of them.
///
/// As check() for CUDA it is a function, so its argument runs once; it throws with the place of its
/// caller. That a call of a non-blocking communicator is still in progress is a value, no error.

#include <string>

#include <nccl.h>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// A call of NCCL failed.
class NcclError : public Error {
 public:
  NcclError(ncclResult_t code, std::string const& what) : Error{what}, code_{code} {}

  [[nodiscard]] ncclResult_t code() const noexcept { return code_; }

 private:
  ncclResult_t code_;
};

namespace detail {

/// What to do about it, or "".
inline char const* nccl_advice(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError:
      return "; a CUDA call inside NCCL failed: run with NCCL_DEBUG=WARN to see which";
    case ncclSystemError:
      return "; a call of the operating system failed: run with NCCL_DEBUG=WARN, and look at the "
             "size of /dev/shm and at NCCL_SOCKET_IFNAME";
    case ncclRemoteError:
      return "; another process has ended or cannot be reached: look at its output first";
    case ncclInvalidUsage:
      return "; are two ranks on one GPU? run with NCCL_DEBUG=WARN to see what NCCL minds";
    default:
      return "; run with NCCL_DEBUG=WARN to see more";
  }
}

/// "NCCL: unhandled system error; … (what NCCL says, file:line)"
inline std::string nccl_sentence(ncclResult_t code, ncclComm_t comm, char const* file, int line) {
  std::string text = std::string{"NCCL: "} + ncclGetErrorString(code) + nccl_advice(code) + " (";
  char const* const last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') {
    text.append(last).append(", ");
  }
  return text.append(file).append(":").append(std::to_string(line)).append(")");
}

[[noreturn]] TANDEM_NOINLINE inline void fail_nccl(ncclResult_t code, ncclComm_t comm,
                                                   char const* file, int line) {
  throw NcclError{code, nccl_sentence(code, comm, file, line)};
}

}  // namespace detail

/// @p status, which is ncclSuccess or ncclInProgress.
/// @param comm  whose last error the message shall tell; null: the thread's
/// @throws NcclError  @p status is a failure
inline ncclResult_t check_nccl(ncclResult_t status, ncclComm_t comm = nullptr,
                               char const* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (status != ncclSuccess && status != ncclInProgress) {
    detail::fail_nccl(status, comm, file, line);
  }
  return status;
}

}  // namespace tandem
