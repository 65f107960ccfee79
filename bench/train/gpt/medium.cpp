// SPDX-License-Identifier: Apache-2.0

#include "serve.hpp"
#include "settings.hpp"

namespace tandem::bench::gpt {

void run_gpt(Settings const& settings) { run<Size<65, 256, 384, 6, 6>>(settings); }

}  // namespace tandem::bench::gpt
