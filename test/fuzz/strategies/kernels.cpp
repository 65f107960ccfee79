// SPDX-License-Identifier: Apache-2.0
// See kernels.hpp.

#include "kernels.hpp"

namespace tandem {

TANDEM_FUZZ_KERNELS_OF(, float)
TANDEM_FUZZ_KERNELS_OF(, double)

}  // namespace tandem
