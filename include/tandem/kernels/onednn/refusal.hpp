// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What is said when oneDNN has no kernel for a layer.

#include <string>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/config.hpp>
#include <tandem/kernels/onednn/status.hpp>

namespace tandem::onednn::detail {

/// Before 3.4 oneDNN has bf16 where there is AVX-512 alone, and says no more than "unimplemented".
inline bool has_avx512() {
  auto const isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  constexpr auto avx512 = static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
  return (isa & avx512) == avx512;
}

/// @throws OneDnnError  always
TANDEM_ONCE [[noreturn]] TANDEM_NOINLINE void refuse(dnnl_status_t status, std::string const& layer,
                                                     dnnl_data_type_t type);

}  // namespace tandem::onednn::detail

#if TANDEM_BODIES

namespace tandem::onednn::detail {

TANDEM_ONCE void refuse(dnnl_status_t status, std::string const& layer, dnnl_data_type_t type) {
  if (status == dnnl_unimplemented && type == dnnl_bf16 && !has_avx512()) {
    throw OneDnnError{status,
                      "this processor has no AVX-512, which oneDNN wants for bf16; take "
                      "BasicHost<OneDnn, Fp32> (first met: " +
                          layer + ")"};
  }
  throw OneDnnError{status, "oneDNN has no kernel for " + layer + " (" + meaning(status) + ")"};
}

}  // namespace tandem::onednn::detail

#endif
