// SPDX-License-Identifier: Apache-2.0

#include "serve.hpp"
#include "settings.hpp"

namespace tandem::bench::gpt {

void run_gpt_small(Settings const& settings) { run<Size<65, 64, 128, 4, 4>>(settings); }

}  // namespace tandem::bench::gpt
