// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CudaError and check(): every call of the CUDA runtime goes through one of them.
///
/// check() is a function, so its argument runs once; it throws with the place of its caller. Errors
/// of the machine (no driver, no such GPU, code for another GPU) become a sentence that says what
/// to do; see advice.hpp.

#include <cstdio>
#include <exception>
#include <string>

#include <cuda_runtime_api.h>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/advice.hpp>

namespace tandem::cuda {

/// A call of the CUDA runtime failed.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, char const* file, int line)
      : Error{message(code, file, line)}, code_{code} {}

  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  /// As in CUDA's documentation, such as "cudaErrorInvalidValue".
  [[nodiscard]] char const* name() const noexcept { return cudaGetErrorName(code_); }

 private:
  static std::string message(cudaError_t code, char const* file, int line) {
    return sentence(code) + " (" + cudaGetErrorName(code) + ", " + file + ":" +
           std::to_string(line) + ")";
  }

  cudaError_t code_;
};

namespace detail {

[[noreturn]] TANDEM_NOINLINE inline void fail(cudaError_t code, char const* file, int line) {
  static_cast<void>(cudaGetLastError());  // it is reported here; leave none for a later check
  throw CudaError{code, file, line};
}

}  // namespace detail

/// @throws CudaError  @p status is no success; CUDA's own record of the last error is cleared
inline void check(cudaError_t status, char const* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status != cudaSuccess) {
    detail::fail(status, file, line);
  }
}

/// check() for destructors: a line on the error stream instead of an exception.
///
/// Says nothing while an exception unwinds the stack, which is then the error worth reading, and
/// nothing at the end of the program, when CUDA has already freed everything.
inline void report(cudaError_t status, char const* file = __builtin_FILE(),
                   int line = __builtin_LINE()) noexcept {
  if (status == cudaSuccess) {
    return;
  }
  static_cast<void>(cudaGetLastError());
  if (status != cudaErrorCudartUnloading && std::uncaught_exceptions() == 0) {
    char text[512];
    int const length =
        std::snprintf(text, sizeof text, "tandem: %s (%s, %s:%d)\n", cudaGetErrorString(status),
                      cudaGetErrorName(status), file, line);
    if (length > 0) {
      std::fputs(text, stderr);
    }
  }
}

}  // namespace tandem::cuda
