// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The portable kernels that take a fuzzed program's time, compiled once and optimised, by
/// kernels.cpp, while the programs are not.
///
/// With -DTANDEM_FUZZ_KERNELS programs link them; without it they have their own.

#include <cstdint>

#include <tandem/tandem.hpp>

#define TANDEM_FUZZ_KERNELS_OF(WORD, T)                                                            \
  WORD template void host::gemm(host::Team&, host::Transpose, host::Transpose, int, int, int,      \
                                T const*, int, T const*, int, T*, int, bool, T*);                  \
  WORD template void host::convolution_forward(host::Team&, ConvolutionGeometry const&, int,       \
                                               T const*, T const*, T const*, T*, T*);              \
  WORD template void host::convolution_input_gradient(host::Team&, ConvolutionGeometry const&,     \
                                                      int, T const*, T const*, T*, T*);            \
  WORD template void host::convolution_weight_gradient(host::Team&, ConvolutionGeometry const&,    \
                                                       int, T const*, T const*, T*, T*, bool, T*); \
  WORD template void host::batch_norm_forward(host::Team&, int, int, std::int64_t, T const*,       \
                                              T const*, T const*, T, T*, T*, T*, T*);              \
  WORD template void host::batch_norm_input_gradient(                                              \
      host::Team&, int, int, std::int64_t, T const*, T const*, T const*, T const*, T const*, T*);  \
  WORD template void host::batch_norm_parameter_gradient(                                          \
      host::Team&, int, int, std::int64_t, T const*, T const*, T const*, T const*, T*, T*, bool);  \
  WORD template void host::avg_pool_forward(host::Team&, PoolGeometry const&, int, bool, T const*, \
                                            T*);                                                   \
  WORD template void host::avg_pool_gradient(host::Team&, PoolGeometry const&, int, bool,          \
                                             T const*, T*);                                        \
  WORD template void host::dropout_forward(host::Team&, int, std::int64_t, DropoutPlace const&,    \
                                           float, T const*, T*);

#if defined(TANDEM_FUZZ_KERNELS)
namespace tandem {
TANDEM_FUZZ_KERNELS_OF(extern, float)
TANDEM_FUZZ_KERNELS_OF(extern, double)
}  // namespace tandem
#endif
