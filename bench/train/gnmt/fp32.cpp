// SPDX-License-Identifier: Apache-2.0

#include "serve.hpp"
#include "settings.hpp"

namespace tandem::bench::gnmt {

void run_fp32(Settings const& settings) { run<DefaultHostKernels, Fp32>(settings); }

}  // namespace tandem::bench::gnmt
