// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OneDnnError, and check() for the statuses of oneDNN's C API.

#include <string>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

#if DNNL_VERSION_MAJOR < 2
#error "tandem wants oneDNN 2 or 3; install libdnnl-dev, or compile without TANDEM_ONEDNN"
#endif

namespace tandem::onednn {

/// oneDNN refused a call, or has no kernel for a layer.
class OneDnnError : public Error {
 public:
  OneDnnError(dnnl_status_t code, std::string const& what) : Error{what}, code_{code} {}

  [[nodiscard]] dnnl_status_t code() const noexcept { return code_; }

 private:
  dnnl_status_t code_;
};

namespace detail {

TANDEM_ONCE char const* meaning(dnnl_status_t status);

[[noreturn]] TANDEM_NOINLINE inline void fail(dnnl_status_t status, char const* file, int line) {
  throw OneDnnError{status, std::string{"oneDNN: "} + meaning(status) + " (" + file + ":" +
                                std::to_string(line) + ")"};
}

}  // namespace detail

/// @throws OneDnnError  @p status is not success; the message says what it means and the place
inline void check(dnnl_status_t status, char const* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status != dnnl_success) {
    detail::fail(status, file, line);
  }
}

}  // namespace tandem::onednn

#if TANDEM_BODIES

namespace tandem::onednn::detail {

TANDEM_ONCE char const* meaning(dnnl_status_t status) {
  switch (status) {
    case dnnl_out_of_memory:
      return "out of memory; use a smaller batch or more microbatches";
    case dnnl_invalid_arguments:
      return "invalid arguments; take BasicHost<Portable, Fp32> and please report this";
    case dnnl_unimplemented:
      return "not implemented for this processor; take BasicHost<Portable, Fp32>";
    default:
      return "an error at run time; take BasicHost<Portable, Fp32> and please report this";
  }
}

}  // namespace tandem::onednn::detail

#endif
