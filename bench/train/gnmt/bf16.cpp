// SPDX-License-Identifier: Apache-2.0

#include "serve.hpp"
#include "settings.hpp"

namespace tandem::bench::gnmt {

#if defined(TANDEM_ONEDNN)
void run_bf16(Settings const& settings) { run<OneDnn, Bf16>(settings); }
#else
void run_bf16(Settings const&) { expects(false, "--precision bf16 is for oneDNN"); }
#endif

}  // namespace tandem::bench::gnmt
